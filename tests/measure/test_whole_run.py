"""A whole run with a ``verl`` that only records, and an ``nvidia-smi`` that only prints: what comes of it."""

import asyncio
import json
import os
import subprocess
import sys
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from tests.cli.runner import run
from tuner.inputs.record.peaks import phase_peaks
from tuner.inputs.record.read import read_record
from tuner.models import find_config
from tuner.workload import Phase

pytestmark = pytest.mark.sampled(12)

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "validation" / "data" / "record-two-h100"
WHOLE_RUNS = RECORD.with_name("whole-runs")

# It leaves the record of a run on two H100, at the moment of this one.
TRAINER = f"""
import json, os, pathlib, sys, time

folder = pathlib.Path(os.environ["TUNER_RECORD"])
assert os.environ["VERL_USE_EXTERNAL_MODULES"] == "tuner.inside_verl"
pathlib.Path("words.json").write_text(json.dumps(sys.argv[1:]))
source = pathlib.Path({str(RECORD)!r})
begun = json.loads((source / "actor_rollout_ref-00000.jsonl").read_text().splitlines()[0])["begun"]
moved = time.time() + 0.2 - begun
for file in sorted(source.glob("*.jsonl")):
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "begun" in line:
            line["begun"] += moved
        if line["line"] == "step":
            timers = " - ".join(f"{{name}}:{{value}}" for name, value in line["metrics"].items())
            print(f"(TaskRunner pid=7) step:{{line['step']}} - {{timers}}", flush=True)
    kept = "".join(json.dumps(line, separators=(",", ":")) + "\\n" for line in lines)
    (folder / file.name).write_text(kept)
(folder / "config.yaml").write_text((source / "config.yaml").read_text())
if os.environ.get("FAKE") == "hang":
    time.sleep(600)
"""
HELD_MIB = 50_000
NVIDIA_SMI = f"""#!{sys.executable}
import sys, time
from datetime import datetime

words = " ".join(sys.argv)
if "driver_version" in words:
    print("NVIDIA H100 80GB HBM3, 81559 MiB, 580.159.03")
elif "query-gpu" in words:
    now = time.time()
    for tenth in range(-20, 400):  # as if it had been asked for so long
        stamp = datetime.fromtimestamp(now + tenth / 10).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        for card in (0, 1):
            print(f"{{stamp}}, {{card}}, {{{HELD_MIB} + card}}, 97", flush=True)
    print("2026/11/", flush=True)  # cut, as the last line may be
    time.sleep(600)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "site" / "verl" / "trainer"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "main_ppo.py").write_text(TRAINER)
    command = tmp_path / "bin" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text(NVIDIA_SMI)
    command.chmod(0o755)
    paths = [str(ROOT), str(ROOT / "tests"), str(tmp_path / "site")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The plan of the run whose record is used, as far as it is read."""
    values = json.loads((ROOT / "tests/measure/whole_run/plans/qwen3-4b-grpo.json").read_text())
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(values | {"name": "small", "model": "qwen2.5-0.5b", "steps": 3}))
    return file


def whole_run(environment: dict[str, str], *words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "measure.whole_run", *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def collected(tmp_path: Path, environment: dict[str, str], plan: Path) -> Path:
    done = whole_run(environment, "run", plan, tmp_path / "materials", "--output", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / "run.jsonl"
    done = whole_run(environment, "collect", tmp_path / "out", file)
    assert (done.returncode, done.stderr) == (0, "")
    return file


def test_the_trainer_gets_the_settings_of_the_plan_last(
    tmp_path: Path, environment: dict[str, str], plan: Path
) -> None:
    whole_run(environment, "run", plan, tmp_path / "materials", "--output", tmp_path / "out")
    words = json.loads((tmp_path / "out" / "words.json").read_text())
    settings = json.loads(plan.read_text())["settings"]
    assert words[-len(settings) :] == settings
    assert f"actor_rollout_ref.model.path={tmp_path}/materials/Qwen2.5-0.5B" in words
    assert "actor_rollout_ref.rollout.agent.default_agent_loop=drawn_lengths" in words


def test_a_run_that_does_not_end_is_ended_once_it_made_its_steps(
    tmp_path: Path, environment: dict[str, str], plan: Path
) -> None:
    given = ("run", plan, tmp_path / "materials", "--output", tmp_path / "out", "--limit", "8")
    done = whole_run({**environment, "FAKE": "hang"}, *given)
    assert done.returncode == 0


def test_a_run_that_fails_says_why(tmp_path: Path, environment: dict[str, str], plan: Path) -> None:
    (tmp_path / "site/verl/trainer/main_ppo.py").write_text("raise RuntimeError('no cards')")
    done = whole_run(environment, "run", plan, tmp_path / "materials", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "RuntimeError: no cards" in done.stdout


def test_one_file_says_what_the_folder_says(collected: Path, tmp_path: Path) -> None:
    folder = json.loads(run("advise", str(tmp_path / "out/record"), "-f", "json").out)
    file = json.loads(run("advise", str(collected), "-f", "json").out)
    assert file["memory"] == folder["memory"]
    assert file["premises"]["gpu_reason"] == "the run was recorded on NVIDIA H100 80GB HBM3"

    def without_card(answer: dict[str, Any]) -> dict[str, Any]:
        observed = dict(answer["log"]["observed"])
        observed["peaks"] = [row | {"card_bytes": None} for row in observed["peaks"]]
        return observed

    assert without_card(file) == without_card(folder)
    cards = {row["phase"]: row["card_bytes"] for row in file["log"]["observed"]["peaks"]}
    assert cards["update_actor"] == (HELD_MIB + 1) * 2**20  # the fuller of two cards


def test_what_happened_to_a_run_is_noted_by_hand(
    collected: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    about = tmp_path / "out" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"notes": ["The time was over."]}))
    done = whole_run(environment, "collect", tmp_path / "out", collected)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(collected.read_text().splitlines()[0])["notes"][-1] == "The time was over."


def test_accuracy_reads_one_file_as_it_reads_a_folder(collected: Path, tmp_path: Path) -> None:
    folder = json.loads(run("accuracy", str(tmp_path / "out/record"), "-f", "json").out)
    file = json.loads(run("accuracy", str(collected), "-f", "json").out)
    named = {row["case"] for row in file["recorded"]}
    assert named == {"run.jsonl"}
    assert [row | {"case": ""} for row in file["recorded"]] == [
        row | {"case": ""} for row in folder["recorded"]
    ]


def test_a_comparison_has_memory_and_seconds_of_every_phase(
    collected: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    done = whole_run(environment, "compare", collected, "--output", tmp_path / "comparison.json")
    assert (done.returncode, done.stderr) == (0, "")
    comparison = json.loads((tmp_path / "comparison.json").read_text())
    rows = {row["phase"]: row for row in comparison["phases"]}
    assert set(rows) == {
        "rollout",
        "old_log_prob",
        "ref_log_prob",
        "update_actor",
        "update_weights",
        "wake_up",
    }
    update = rows["update_actor"]["measured"]
    assert update["card_bytes"] == (HELD_MIB + 1) * 2**20
    assert len(update["seconds"]) == 5
    assert rows["wake_up"]["measured"]["allocated_bytes"] is None
    assert rows["rollout"]["measured"]["card_bytes"] == (HELD_MIB + 1) * 2**20
    cards = [json.loads(line) for line in collected.read_text().splitlines() if '"line":"card"' in line]
    assert all(0 <= seconds < 10 for card in cards for seconds in card["busy_seconds"])
    assert max(max(card["busy_seconds"]) for card in cards if card["phase"] == "rollout") > 0.9  # it was busy
    assert "update_actor" in done.stdout


def test_one_file_has_the_sizes_of_a_model_that_nobody_knows(collected: Path) -> None:
    head, configuration, *rest = collected.read_text().splitlines()
    settings = yaml.safe_load(json.loads(configuration)["yaml"])
    settings["actor_rollout_ref"]["model"]["path"] = "/m/some"
    second = {"line": "configuration", "yaml": yaml.safe_dump(settings)}
    sizes = {**find_config("qwen2.5-0.5b").values, "num_hidden_layers": 6}

    def answer(models: dict[str, Any]) -> Any:
        heads = (json.loads(head) | {"models": models}, second)
        lines = [json.dumps(line, separators=(",", ":")) for line in heads]
        collected.write_text("\n".join((*lines, *rest)) + "\n")
        return run("advise", str(collected), "-f", "json")

    assert answer({}).code == 2
    described = answer({"/m/some": sizes})
    assert described.code == 0
    model = json.loads(described.out)["workload"]["model"]
    assert (model["name"], model["layers"]) == ("some", 6)
    bundle = collected.with_suffix(".json")
    assert run("bundle", str(collected), "-o", str(bundle)).code == 0
    again = json.loads(run("advise", str(bundle), "-f", "json").out)
    assert again["memory"] == json.loads(described.out)["memory"]


def test_what_is_written_in_one_file_is_not_edited(collected: Path) -> None:
    before = collected.read_bytes()
    for words in (("check", str(collected), "--fix"), ("advise", str(collected), "--write", str(collected))):
        run(*words)
        assert collected.read_bytes() == before
    assert str(collected.parent) not in collected.read_text()  # the paths of the machine that ran


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"line":"run","version":9,"name":"x","tuner":"9.9"}', "format 9"),
        ('{"line":"run","version":1,"name":"x","tuner":"0"}', "has no process"),
        ('{"line":"run","version":1,"name":"x","tuner":"0"}\n{"line":"walk"}', "is no line of a record"),
    ],
)
def test_a_file_that_is_no_whole_record_is_refused(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(line + "\n")
    for command in ("advise", "accuracy"):
        result = run(command, str(file))
        assert result.code == 2
        assert says in " ".join(result.err.split())


def test_a_file_without_a_configuration_is_refused_by_advise(collected: Path) -> None:
    lines = [line for line in collected.read_text().splitlines() if '"line":"configuration"' not in line[:30]]
    collected.write_text("\n".join(lines) + "\n")
    result = run("advise", str(collected))
    assert result.code == 2
    assert "has no configuration" in " ".join(result.err.split())


def test_the_agent_loop_gives_verls_own_one_the_drawn_length(monkeypatch: pytest.MonkeyPatch) -> None:
    class SingleTurnAgentLoop:
        def __init__(self, *args: object, **kwargs: object) -> None:
            self.given = kwargs

        async def run(self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any) -> Any:
            return sampling_params, kwargs

    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    name = "verl.experimental.agent_loop.single_turn_agent_loop"
    for end in range(1, 5):
        monkeypatch.setitem(sys.modules, ".".join(name.split(".")[:end]), ModuleType("verl"))
    monkeypatch.setattr(sys.modules[name], "SingleTurnAgentLoop", SingleTurnAgentLoop, raising=False)
    monkeypatch.delitem(sys.modules, "measure.whole_run.drawn_lengths", raising=False)
    from measure.whole_run.drawn_lengths import DrawnLengths
    from measure.whole_run.lengths import Lengths

    fields = {"median": 600, "sigma": 0.7, "most": 2048}
    loop = DrawnLengths("trainer", lengths=fields, tokenizer="own")
    assert loop.given == {"tokenizer": "own"}
    asked = {"temperature": 1.0}
    sampling, prompt = asyncio.run(loop.run(asked, index=5, session_id=2, uid="x"))
    assert sampling == {"temperature": 1.0, "max_tokens": Lengths(**fields).of(5, 2)}
    assert asked == {"temperature": 1.0}  # verl gives all responses of a prompt the same object
    assert prompt == {"index": 5, "session_id": 2, "uid": "x"}


def test_lengths_are_drawn_alike_in_every_run_and_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from measure.whole_run.lengths import Lengths, mean

    lengths = Lengths(median=600, sigma=0.7, most=2048)
    drawn = [lengths.of(prompt, response) for prompt in range(500) for response in range(4)]
    assert drawn == [lengths.of(prompt, response) for prompt in range(500) for response in range(4)]
    assert mean(lengths, range(500), 4) == sum(drawn) / len(drawn)
    longer = sum(one > lengths.quantile(0.9) for one in drawn) / len(drawn)
    assert 0.08 < longer < 0.12
    assert (min(drawn), max(drawn)) == (min(drawn), 2048)


def test_a_plan_may_have_the_first_layers_of_a_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from measure.whole_run.compare import prediction
    from measure.whole_run.launch import overrides
    from measure.whole_run.plan import read_plan

    plan = read_plan("qwen3-30b-a3b-12-layers-grpo")
    assert (plan.config.name, plan.config.values["num_hidden_layers"]) == ("Qwen3-30B-A3B-12-layers", 12)
    words = overrides(plan, Path("/m"), Path("/o"))
    assert "actor_rollout_ref.model.path=/m/Qwen3-30B-A3B-12-layers" in words
    fewer = prediction(replace(plan, layers=6), 277)["phases"]["update_actor"]["allocated_bytes"]
    assert fewer < prediction(plan, 277)["phases"]["update_actor"]["allocated_bytes"]


def test_the_peak_of_adapters_is_that_of_the_longer_mini_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl 0.9.1 cuts mini-batches from responses in the order of their ends, and each into equal parts."""
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from measure.whole_run.compare import prediction
    from measure.whole_run.plan import read_plan

    name = "qwen3-8b-grpo-lora-advised"
    plan, record = read_plan(name), read_record(WHOLE_RUNS / f"{name}.jsonl")
    (step,) = [one.values for one in record.steps if one.step == 2]
    ended = sorted(plan.lengths.of(prompt, response) for prompt in range(32, 64) for response in range(4))
    assert sum(ended) / 128 == step["response_length/mean"]
    tokens = sum(ended[64:]) / 2 + 32 * step["prompt_length/mean"]  # of a rank, of two
    assert tokens == pytest.approx(44_790.5)
    whole = round(tokens / ceil(tokens / 12_800))
    assert whole == 11_198  # with each prompt's own tokens verl's has 11,118 on one rank, 11,232 on the other
    pasted = tuple(word.replace("12800", str(whole)) for word in plan.pasted)
    predicted = prediction(replace(plan, pasted=pasted), step["prompt_length/mean"])
    measured = max(peak.allocated_bytes for peak in phase_peaks(record) if peak.phase is Phase.UPDATE_ACTOR)
    assert predicted["phases"]["update_actor"]["allocated_bytes"] == pytest.approx(measured, rel=0.01)
