"""The server for agents, driven over its own standard streams by the protocol's own client."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.runner import RELEASE, ROOT, run
from tuner.trainers.verl.releases import BUNDLED

CONFIGS = ROOT / "tests" / "cli" / "configs"
TUNED = "actor_rollout_ref.actor.use_dynamic_bsz=True"
SECRET = "s3cr3t-of-somebody-else"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.55 GiB. GPU 0 has a total capacity of "
    "79.11 GiB of which 3.11 GiB is free."
)
CARD = {"gpu": "8xh100-sxm"}

#: By a name of ours: the tool and its arguments.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "advise": (
        "advise",
        {"source": "grpo.yaml", "mean_response_length": 700, "verl_version": BUNDLED[-1], **CARD},
    ),
    "advise, a part more": ("advise", {"source": "grpo.yaml", "parts": ["batches"], **CARD}),
    "check": ("check", {"source": "grpo.yaml", "words": ["actor_rollout_ref.actor.use_dynamic_bzs=True"]}),
    "diff": ("diff", {"source": "grpo.yaml", "other_words": [TUNED], **CARD}),
    "plan": ("plan", {"source": "grpo.yaml", "gpu": ["8xh100-sxm"]}),
    "explain": ("explain_oom", {"message": OOM, "source": "grpo.yaml", **CARD}),
    "estimate": ("estimate_memory", {"vocab": "152k", "tokens": "16k"}),
    "rule": ("rule", {"name": "MEM001"}),
    "no card": ("advise", {"source": "grpo.yaml"}),
    "no card to plan for": ("plan", {"source": "grpo.yaml"}),
    "no model": ("advise", {"source": "grpo.yaml", "words": ["actor_rollout_ref.model.path=my/own"], **CARD}),
    "nothing to compare": ("diff", {"source": "grpo.yaml", **CARD}),
    "no such tool": ("tune", {}),
    "no such argument": ("advise", {"source": "grpo.yaml", "gpus": 8}),
    "another type": ("advise", {"source": "grpo.yaml", "words": 8}),
    "no such rule": ("rule", {"name": "MEM999"}),
    "no such file": ("advise", {"source": "grpos.yaml"}),
    "above": ("advise", {"source": "../secret.yaml", **CARD}),
    "absolute": ("advise", {"source": "{outside}", **CARD}),
    "link": ("advise", {"source": "link.yaml", **CARD}),
    "link in a folder": ("advise", {"source": "folder/secret.yaml", **CARD}),
    "folder above": ("advise", {"source": "..", **CARD}),
    "standard input": ("advise", {"source": "-", **CARD}),
    "standard input as a device": ("advise", {"source": "/dev/stdin", **CARD}),
    "environment": ("advise", {"source": "/proc/self/environ", **CARD}),
    "log outside": ("advise", {"source": "grpo.yaml", "log": "../secret.yaml", **CARD}),
    "error outside": ("explain_oom", {"message": "../secret.yaml"}),
    "other side outside": ("diff", {"source": "grpo.yaml", "other_source": "../secret.yaml", **CARD}),
    "model outside": ("advise", {"source": "grpo.yaml", "model": "../model", **CARD}),
    "script that reads outside": ("advise", {"source": "reads.sh", **CARD}),
    "zero byte": ("advise", {"source": "grpo\0.yaml", **CARD}),
    "after all of these": ("rule", {"name": "BAT001"}),
}
REFUSED = [name for name in ASKED if name not in {
    *("advise", "advise, a part more", "check", "diff", "plan", "explain", "estimate", "rule"),
    "after all of these",
}]  # fmt: skip
OUTSIDE = (
    *("above", "absolute", "link", "link in a folder", "standard input", "standard input as a device"),
    *("environment", "log outside", "other side outside"),
)


class Replies:
    """What the server said of itself, its tools, and its answer to each question."""

    def __init__(self) -> None:
        self.instructions = ""
        self.tools: dict[str, Any] = {}
        self.results: dict[str, Any] = {}

    def content(self, name: str) -> dict[str, Any]:
        """The structured answer, which the text beside it repeats for clients that read no other."""
        result = self.results[name]
        assert json.loads(result.content[0].text) == result.structured_content
        return dict(result.structured_content)


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Replies:
    place = tmp_path_factory.mktemp("agents")
    root = place / "root"
    root.mkdir()
    shutil.copy(CONFIGS / "grpo.yaml", root / "grpo.yaml")
    (place / "secret.yaml").write_text(f"trainer:\n  {SECRET}: [\n", encoding="utf-8")
    (place / "model").mkdir()
    (place / "model" / "config.json").write_text(f'{{"model_type": "{SECRET}"}}', encoding="utf-8")
    (root / "link.yaml").symlink_to(place / "secret.yaml")
    (root / "folder").symlink_to(place)
    (root / "reads.sh").write_text(f"source {place}/secret.yaml\nsource ../secret.yaml\n$RUN\n", "utf-8")
    replies = Replies()
    before = sorted(place.rglob("*"))
    anyio.run(_drive, root, replies)
    assert sorted(place.rglob("*")) == before  # nothing was written
    return replies


async def _drive(root: Path, replies: Replies) -> None:
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tuner", "mcp", "--root", str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_TEST_TOKEN": SECRET},
    )
    async with stdio_client(program) as (answers, questions), ClientSession(answers, questions) as session:
        greeting = await session.initialize()
        replies.instructions = greeting.instructions or ""
        replies.tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        outside = str(root.parent / "secret.yaml")
        for name, (tool, given) in ASKED.items():
            filled = {key: outside if value == "{outside}" else value for key, value in given.items()}
            replies.results[name] = await session.call_tool(tool, filled)


def test_every_question_is_listed_with_its_arguments(replies: Replies) -> None:
    assert list(replies.tools) == [
        *("advise", "check", "diff", "plan", "explain_oom", "estimate_memory", "rule"),
    ]
    assert {tool for tool, _given in ASKED.values()} - {"tune"} == set(replies.tools)
    for tool in replies.tools.values():
        properties = tool.input_schema["properties"]
        assert all(schema.get("description") or "default" in schema for schema in properties.values()), (
            tool.name
        )
        assert tool.annotations.read_only_hint
    assert {"gpu", "model", "mean_response_length"} <= set(replies.tools["advise"].input_schema["properties"])
    assert "do not guess" in replies.instructions


@pytest.mark.parametrize("name", [name for name in ASKED if name not in REFUSED])
def test_a_question_is_answered(replies: Replies, name: str) -> None:
    assert not replies.results[name].is_error, replies.results[name].content[0].text
    assert replies.content(name)


def test_advice_is_that_of_the_command(replies: Replies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIGS)
    told = run(
        *(
            "advise",
            "grpo.yaml",
            "--gpu",
            "8xh100-sxm",
            "--mean-response-length",
            "700",
            "-f",
            "json",
            *RELEASE,
        ),
    )
    whole, answer = json.loads(told.out), replies.content("advise")
    assert answer["verdict"] == whole["verdict"]
    assert answer["step_time"] == whole["step_time"]
    block, shortened = whole["combination"], answer["combination"]
    assert {**shortened, "memory": None} == {**block, "memory": None}
    assert answer["findings"] == whole["findings"]
    for short, memory in ((answer["phases"], whole["memory"]), (shortened["memory"], block["memory"])):
        peaks = {phase["phase"]: phase["peak_bytes"] for phase in memory["phases"]}
        assert {phase["phase"]: phase["peak_bytes"] for phase in short} == peaks
    for phase in answer["phases"]:
        assert 0 < sum(addend["bytes"] for addend in phase["largest"]) <= phase["peak_bytes"]


def test_what_is_left_out_is_named_and_told_where_it_is_asked_for(replies: Replies) -> None:
    short, longer = replies.content("advise"), replies.content("advise, a part more")
    assert "batches" in short["parts_left_out"]
    assert not set(short["parts_left_out"]) & set(short)
    assert longer["batches"]
    assert "batches" not in longer["parts_left_out"]
    assert len(json.dumps(short)) < 30_000


def test_a_comparison_has_both_sides(replies: Replies) -> None:
    difference = replies.content("diff")
    assert difference["before"]["words"] == []
    assert difference["after"]["words"] == [TUNED]


def test_a_misspelt_key_is_found(replies: Replies) -> None:
    assert any("use_dynamic_bzs" in json.dumps(line) for line in replies.content("check")["findings"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_says_why(replies: Replies, name: str) -> None:
    assert replies.results[name].is_error, replies.results[name].content[0].text
    error = replies.content(name)["error"]
    assert error
    assert "Traceback" not in error
    assert "internal error" not in error


@pytest.mark.parametrize("name", ["no card", "no card to plan for"])
def test_a_card_that_nobody_named_is_asked_for(replies: Replies, name: str) -> None:
    assert replies.content(name)["key"] == "gpu"
    assert "ask for it" in replies.content(name)["error"]


def test_a_model_that_nobody_knows_is_asked_for(replies: Replies) -> None:
    assert "my/own" in replies.content("no model")["error"]
    assert "--model" in replies.content("no model")["error"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_is_read_outside_of_the_root(replies: Replies, name: str) -> None:
    assert "lies outside of" in replies.content(name)["error"]


def test_nobody_is_told_what_lies_outside(replies: Replies) -> None:
    assert SECRET not in "".join(result.content[0].text for result in replies.results.values())


def test_without_the_package_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "tuner.cli.agents.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    answer = run("mcp")
    assert answer.code == 2
    assert "mcp is not installed" in answer.err
    assert "pip install '.[mcp]'" in answer.err


def test_a_root_that_is_no_folder_is_refused() -> None:
    answer = run("mcp", "--root", "pyproject.toml")
    assert answer.code == 2
    assert answer.err == "error: pyproject.toml: is no folder; check the path\n"


def test_the_page_names_every_question(replies: Replies) -> None:
    page = (ROOT / "docs" / "reference" / "agents.rst").read_text(encoding="utf-8")
    assert re.findall(r"^   \* - ``(\w+)``$", page, re.MULTILINE) == list(replies.tools)
