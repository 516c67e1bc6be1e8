"""What a run leaves behind, Hydra's folder and wandb's files, through the command itself."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.inputs.tree import merged
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

SET: dict[str, Any] = {
    "algorithm": {"adv_estimator": "grpo"},
    "actor_rollout_ref": {
        "model": {"path": "Qwen/Qwen2.5-7B-Instruct"},
        "actor": {"use_dynamic_bsz": True},
        "rollout": {"n": 8, "name": "vllm"},
    },
}
TYPED = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.name=vllm",
)
OPTIONS = ("--gpu", "h100-sxm", "--verl-version", "0.5.0", "--output-format", "json")


def composed() -> dict[str, Any]:
    """All settings of a run, as a release composes them."""
    tree: dict[str, Any] = merged(dict(read_defaults("0.5.0", "ppo_trainer").tree), SET)
    return tree


@pytest.fixture
def hydra(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs" / "2025-07-01" / "10-00-00" / ".hydra"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(composed()))
    (folder / "overrides.yaml").write_text(yaml.safe_dump(list(TYPED)))
    (folder / "hydra.yaml").write_text(
        yaml.safe_dump({"hydra": {"job": {"name": "main_ppo"}, "runtime": {"version": "1.3.2"}}})
    )
    return folder


@pytest.fixture
def wandb(tmp_path: Path) -> Path:
    folder = tmp_path / "wandb" / "run-20250701_100000-abcdefgh" / "files"
    folder.mkdir(parents=True)
    kept = {key: {"desc": None, "value": section} for key, section in composed().items()}
    own = {"wandb_version": 1, "_wandb": {"desc": None, "value": {"cli_version": "0.19.11"}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(own | kept))
    (folder / "wandb-summary.json").write_text(json.dumps({"_step": 10, "_wandb": {"runtime": 9}}))
    return folder


def phases(*words: str) -> object:
    """The memory of the phases that ``advise`` answers with."""
    result = run("advise", *words, *OPTIONS)
    assert result.code == 0, result.err
    return json.loads(result.out)["memory"]


@pytest.fixture(scope="module")
def expected() -> object:
    return phases(*TYPED)


@pytest.mark.parametrize(
    "given", ["", "..", "../..", "../../..", "config.yaml", "overrides.yaml", "hydra.yaml"]
)
def test_a_folder_of_hydra_and_every_file_of_it(given: str, hydra: Path, expected: object) -> None:
    assert phases(str((hydra / given).resolve())) == expected


@pytest.mark.parametrize("given", ["", "..", "../..", "config.yaml", "wandb-summary.json"])
def test_a_folder_of_wandb_and_every_file_of_it(given: str, wandb: Path, expected: object) -> None:
    assert phases(str((wandb / given).resolve())) == expected


def test_overrides_stand_behind_a_folder(hydra: Path, expected: object) -> None:
    assert phases(str(hydra), "actor_rollout_ref.rollout.n=16") != expected


def test_a_setting_of_wandb_stands_where_the_file_has_it(wandb: Path) -> None:
    config = wandb / "config.yaml"
    result = run("config", str(config), "--verl-version", "0.5.0", "--output-format", "json", "--all")
    assert result.code == 0, result.err
    settings = {entry["key"]: entry for entry in json.loads(result.out)["settings"]}
    place = settings["algorithm.adv_estimator"]["location"]
    assert place["source"] == str(config)
    assert config.read_text().splitlines()[place["line"] - 1].strip() == "adv_estimator: grpo"


@pytest.mark.parametrize("given", ["..", "config.yaml", "wandb-summary.json"])
def test_what_wandb_kept_of_the_last_step_is_the_run(given: str, wandb: Path) -> None:
    metrics = {"response_length/mean": 311.5, "prompt_length/mean": 200, "timing_s/gen": 60.5, "x": "text"}
    (wandb / "wandb-summary.json").write_text(json.dumps({"_step": 10, **metrics}))
    result = run("advise", str((wandb / given).resolve()), *OPTIONS)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["workload"]["batch"]["lengths"]["mean_response"] == 312
    assert report["log"]["lengths"] == ["mean_prompt", "mean_response"]
    observed = report["log"]["observed"]
    assert (observed["first_step"], observed["last_step"], observed["steps"]) == (10, 10, 1)
    assert {row["phase"]: row["observed_seconds"] for row in observed["phases"]}["rollout"] == 60.5
    said = run("advise", str(wandb), *OPTIONS[:4]).out
    assert "mean response 312 (the run)" in " ".join(said.split())
    assert "in step 10 of the run" in said


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": NaN, "b": 1e400}'])
def test_a_summary_that_says_nothing(text: str, wandb: Path, expected: object) -> None:
    (wandb / "wandb-summary.json").write_text(text)
    result = run("advise", str(wandb), *OPTIONS)
    if text.startswith('{"'):
        assert json.loads(result.out)["memory"] == expected
    else:
        assert result.code == 2
        assert "wandb-summary.json: not a JSON object; take it away" in result.err


def test_of_several_runs_each_is_named(hydra: Path) -> None:
    other = hydra.parents[1] / "11-00-00" / ".hydra"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("a: 1\n")
    result = run("advise", str(hydra.parents[2]), "--gpu", "h100-sxm")
    assert result.code == 2
    assert str(hydra / "config.yaml") in result.err
    assert str(other / "config.yaml") in result.err


def test_the_last_run_of_wandb_is_the_one_it_links_to(wandb: Path, expected: object) -> None:
    folder = wandb.parents[1]
    other = folder / "run-20250601_100000-older" / "files"
    other.mkdir(parents=True)
    (other / "config.yaml").write_text("a: {value: 1}\n")
    (other / "wandb-summary.json").write_text("{}")
    (folder / "latest-run").symlink_to(wandb.parent.name)
    assert phases(str(folder)) == expected


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("hydra.yaml", "hydra: {runtime: {version: 1.3.2}}\n", "config.yaml is not beside it"),
        ("wandb-summary.json", "{}", "config.yaml is not beside it"),
        ("overrides.yaml", "- {a: 1}\n", "an entry of the list is no override"),
    ],
)
def test_files_without_a_configuration(tmp_path: Path, name: str, content: str, part: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    result = run("advise", str(file), "--gpu", "h100-sxm")
    assert result.code == 2
    assert part in result.err


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    result = run("advise", str(tmp_path), "--gpu", "h100-sxm")
    assert result.code == 2
    assert "is a directory that holds no run" in result.err
