"""``tuner plan --vary strategy=fsdp,megatron``: settings of both in one order, each as it is started."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tests.cli.test_plan_write import CARD, SCRIPT, YAML, expect_is, written
from tests.plan.jobs import ACTOR

BOTH = ("--vary", "strategy=fsdp,megatron")
OPTIONS = (*CARD, "--gpus-per-node", "2", "--verl-version", "0.9.1")
AS_JSON = (*OPTIONS, "--output-format", "json")
NAME = "--config-name=ppo_megatron_trainer"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT)
    Path("job.yaml").write_text(YAML)
    return tmp_path


def planned(*words: str, options: tuple[str, ...] = AS_JSON) -> dict[str, Any]:
    result = run("plan", *options, *BOTH, *words)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def settings_of(answer: dict[str, Any], strategy: str) -> list[dict[str, Any]]:
    """The settings of one strategy; at least one is there, whatever its place."""
    settings = [one for one in answer["plan"]["settings"] if one["strategy"] == strategy]
    assert settings
    return settings


def expect_same(words: list[str], setting: dict[str, Any], *options: str) -> None:
    """A command says the seconds of a setting, and has no key that its configuration lacks."""
    result = run("advise", *OPTIONS, *options, "--output-format", "json", "--", *words)
    assert result.code == 0, result.err
    read = json.loads(result.out)
    assert read["step_time"]["seconds"] == setting["seconds"]
    assert "CFG001" not in result.out


def test_settings_of_both_stand_in_one_order() -> None:
    plan = planned("run.sh")["plan"]
    seconds = [one["seconds"] for one in plan["settings"]]
    assert seconds == sorted(seconds)
    bests = {one["strategy"]: one["setting"] for one in plan["strategies"]}
    assert set(bests) == {"fsdp", "megatron"}
    for name, best in bests.items():
        own = [one for one in plan["settings"] if one["strategy"].startswith(name)]
        assert best["seconds"] == own[0]["seconds"]
    alone = json.loads(run("plan", *AS_JSON, "run.sh").out)["plan"]
    assert bests["fsdp"]["seconds"] == alone["settings"][0]["seconds"]
    assert plan["size"] > alone["size"]


def test_a_setting_of_the_other_engine_says_what_it_needs() -> None:
    answer = planned("run.sh")
    assert all(one["needs"] is None for one in settings_of(answer, "fsdp"))
    for setting in settings_of(answer, "megatron"):
        needs = setting["needs"]
        assert needs["options"] == [NAME] and not needs["without"] and not needs["launch"]
        assert needs["packages"][:2] == ["megatron-core", "Transformer Engine"]
        words = shlex.split(SCRIPT.partition("python3")[2].replace("\\\n", " ").replace('"$@"', ""))
        expect_same(["python3", *words, *setting["overrides"], NAME], setting)


def test_keys_that_the_other_configuration_lacks_are_left_out_of_the_command() -> None:
    keys = (f"{ACTOR}.fsdp_config.param_offload", f"{ACTOR}.ulysses_sequence_parallel_size")
    lines = (f"{keys[0]}=True", f"{keys[1]}=1", f"{ACTOR}.grad_clip=0.5")
    Path("run.sh").write_text(SCRIPT.replace('"$@"', " ".join(lines)))
    answer = planned("run.sh")
    for setting in settings_of(answer, "megatron"):
        needs = setting["needs"]
        assert set(needs["without"]) == {*keys, f"{ACTOR}.grad_clip"}
        assert f"{ACTOR}.optim.clip_grad=0.5" in setting["overrides"]
        assert needs["launch"][:4] == ["python3", "-m", "verl.trainer.main_ppo", NAME]
        assert not any(word.startswith(needs["without"][0]) for word in needs["launch"])
        expect_same(needs["launch"], setting)


def test_a_launch_of_the_other_engine_becomes_a_command_of_the_usual_one() -> None:
    named = SCRIPT.replace(
        "main_ppo", "main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml'"
    )
    Path("run.sh").write_text(named.replace('"$@"', f"{ACTOR}.megatron.tensor_model_parallel_size=2"))
    answer = planned("run.sh")
    assert all(one["needs"] is None for one in settings_of(answer, "megatron"))
    others = [one for one in answer["plan"]["settings"] if one["strategy"] != "megatron"]
    assert others
    for setting in others:
        needs = setting["needs"]
        assert needs["options"] == ["--config-name=ppo_trainer"] and not needs["packages"]
        assert needs["without"] == [f"{ACTOR}.megatron.tensor_model_parallel_size"]
        expect_same(needs["launch"], setting)


def test_a_launch_with_a_configuration_of_its_own_stays_with_it() -> None:
    Path("mine.yaml").write_text(YAML)
    Path("run.sh").write_text(SCRIPT.replace("main_ppo", "main_ppo --config-path=. --config-name=mine"))
    plan = planned("run.sh")["plan"]
    assert all(one["needs"] is None for one in plan["settings"])
    assert "names a configuration of its own" in plan["strategies"][1]["reason"]


def test_a_yaml_file_becomes_a_command() -> None:
    answer = planned("job.yaml")
    for setting in settings_of(answer, "megatron"):
        expect_same(setting["needs"]["launch"], setting)


def test_the_answer_compares_the_best_of_both_and_shows_how_each_is_started() -> None:
    result = run("plan", *OPTIONS, *BOTH, "run.sh")
    text = " ".join(result.out.split())
    assert "best under megatron: a step takes" in text and "best under fsdp" in text
    assert "with megatron-core, Transformer Engine, Megatron-Bridge installed" in text
    lines = result.out.splitlines()
    place = lines.index(NAME)  # behind the lines: Hydra takes an option there, and not between them
    assert lines[place - 1].endswith("\\") and not lines[place + 1]


def test_each_is_written_as_it_is_started() -> None:
    answer, _ = written("run.sh", options=(*AS_JSON, *BOTH))
    for place, setting in enumerate(answer["plan"]["settings"], start=1):
        file = f"plans/2xh100-sxm-{place}.sh"
        expect_is(file, setting)
        assert (NAME in Path(file).read_text()) == (setting["strategy"] == "megatron")
    fewest = answer["fewest"]
    file = Path(f"plans/{fewest['gpus_per_node']}x{fewest['card']}-1.sh").read_text()
    row = next(one["plan"] for one in answer["capacity"] if one["plan"]["cluster"] == fewest)
    assert (NAME in file) == (row["settings"][0]["needs"] is not None)


@pytest.mark.parametrize(
    ("words", "version", "reason"),
    [
        (("--model", "gemma-3-1b-it"), "0.5.0", "verl 0.5.0 builds no gemma3"),
        ((), "0.3.0.post1", "the Megatron workers of verl 0.3.0.post1 are other ones"),
        (("--lora",), "0.9.1", "adapters under Megatron stand on fused projections"),
        (("--lora",), "0.5.0", "verl 0.5.0 trains no adapters under Megatron"),
        (("--cycles",), "0.9.1", f"no counterpart of {ACTOR}.optim.num_cycles"),
    ],
)
def test_what_keeps_a_job_from_the_other_engine_is_told(
    words: tuple[str, ...], version: str, reason: str
) -> None:
    options = (*CARD, "--gpus-per-node", "2", "--verl-version", version, "--output-format", "json")
    lines = {"--lora": "actor_rollout_ref.model.lora_rank=8", "--cycles": f"{ACTOR}.optim.num_cycles=1"}
    given = tuple(word for word in words if word not in lines)
    added = tuple(lines[word] for word in words if word in lines)
    Path("run.sh").write_text(SCRIPT.replace('"$@"', " ".join(added)))
    plan = planned(*given, "run.sh", options=options)["plan"]
    assert plan["settings"] and all(one["strategy"] != "megatron" for one in plan["settings"])
    fsdp, megatron = plan["strategies"]
    assert fsdp["setting"] is not None and megatron["setting"] is None
    assert reason in megatron["reason"]


def test_a_strategy_that_nobody_knows_is_told_and_leaves_the_others() -> None:
    result = run("plan", *OPTIONS, "--vary", "strategy=fsdp,zero", "run.sh")
    assert "nothing under zero: there is no strategy 'zero'" in " ".join(result.out.split())
    assert run("plan", *OPTIONS, "--vary", "strategy=fsdp,", "run.sh").code == 2
