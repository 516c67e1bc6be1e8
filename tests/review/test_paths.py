"""Folders and patterns on the command line of ``tuner check``."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.runner import run
from tests.cli.test_commands import CONFIG, GIVEN
from tests.cli.test_scripts import SCRIPT
from tuner.errors import InputError
from tuner.inputs.named_inputs import Input
from tuner.review.paths import expanded
from tuner.trainers import nemo_rl, verl
from tuner.trainers.registry import trainer_of_file

OTHERS = {
    "docker-compose.yml": "services:\n  trainer:\n    command: python -m verl.trainer.main_ppo\n",
    "lint.yaml": "rules: {line-length: 80}\n",
    "fragment.yaml": "# of actor_rollout_ref.actor\nstrategy: fsdp\nn: ${actor_rollout_ref.rollout.n}\n",
    "ci.yml": "worker:\n  script: [make]\n",
    "merge.sh": "#!/bin/bash\n# after verl.trainer.main_ppo\npython -m verl.model_merger merge\n",
    "server.log": "INFO started\n",
}
OURS = {
    "a.yaml": "actor_rollout_ref:\n  model: {path: qwen2.5-7b}\n",
    "broken.yaml": "actor_rollout_ref:\n  model: [1\n",
    "deep/er/easy.yml": "worker:\n  actor:\n    model: {model_path: Qwen/Qwen2.5-7B-Instruct}\n",
    "deep/sft.yaml": "model:\n  partial_pretrain: Qwen/Qwen2.5-7B\n",
    "overrides.yaml": "- actor_rollout_ref.model.path=qwen2.5-7b\n",
    "run.sh": SCRIPT,
}
HIDDEN = (".git/a.yaml", ".a.yaml", "deep/.venv/a.yaml", "a.yaml.orig", "a.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (OTHERS | OURS | dict.fromkeys(HIDDEN, OURS["a.yaml"])).items():
        file = tmp_path / "configs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


def names(*configs: str, words: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    inputs, skipped = expanded([Input(config=config, words=words) for config in configs])
    assert all(given.words == words for given in inputs)
    return [given.config for given in inputs], list(skipped)


def below(folder: str, files: Iterable[str]) -> list[str]:
    return [os.path.join(folder, name) for name in files]  # noqa: PTH118 - as it is printed


def test_a_folder_is_its_configurations_and_the_rest_is_counted(folder: Path) -> None:
    wanted, skipped = names("configs", words=("x.y=1",))
    top = [name for name in sorted(OURS) if "/" not in name]
    assert wanted == below("configs", [*top, "deep/sft.yaml", "deep/er/easy.yml"])
    assert sorted(skipped) == below("configs", sorted(OTHERS))


def test_a_pattern_names_files_and_an_input_is_checked_once(folder: Path) -> None:
    assert names("configs/*.yml")[0] == below("configs", ["ci.yml", "docker-compose.yml"])
    assert names("configs/**/*sy.yml", "configs/deep")[0] == below(
        "configs", ["deep/er/easy.yml", "deep/sft.yaml"]
    )
    assert names(str(folder / "configs/a.ya?l"))[0] == [str(folder / "configs/a.yaml")]
    with pytest.raises(InputError, match="no file matches the pattern"):
        names("configs/*.toml")
    Path("odd[1].yaml").write_text(OURS["a.yaml"])
    assert names("odd[1].yaml") == (["odd[1].yaml"], [])


def test_a_link_that_leads_back_is_not_followed(folder: Path) -> None:
    Path("configs/deep/back").symlink_to("..", target_is_directory=True)
    assert names("configs/**/sft.yaml")[0] == below("configs", ["deep/sft.yaml"])
    assert names(f"{folder}/**/sft.yaml")[0] == below(str(folder), ["configs/deep/sft.yaml"])
    # A link that the pattern itself names is one that was asked for.
    assert names("configs/deep/*/a.yaml")[0] == below("configs/deep", ["back/a.yaml"])
    assert names("configs/**/back/a.yaml")[0] == below("configs/deep", ["back/a.yaml"])
    with pytest.raises(InputError, match="no file matches the pattern"):
        names("configs/deep/**/run.sh")


def test_an_input_is_checked_once_for_each_set_of_words(folder: Path) -> None:
    twice = names("configs/deep", "configs/deep/sft.yaml", "./configs/deep/*.yaml")[0]
    assert twice == below("configs", ["deep/sft.yaml", "deep/er/easy.yml"])
    inputs = [Input(config="configs/a.yaml", words=words) for words in ((), ("x.y=1",), ())]
    assert expanded(inputs)[0] == tuple(inputs[:2])


def test_the_folder_of_a_run_is_the_configuration_of_this_run(folder: Path) -> None:
    run_folder = folder / "outputs/2026-01-01/.hydra"
    run_folder.mkdir(parents=True)
    (run_folder / "config.yaml").write_text(OURS["a.yaml"])
    assert names("outputs/2026-01-01") == (["outputs/2026-01-01"], [])
    assert names("outputs") == (["outputs"], [])  # which says that it is of one run


def test_a_folder_is_checked_file_by_file_and_a_broken_file_in_it_is_named(folder: Path) -> None:
    for name in ("deep/er/easy.yml", "deep/sft.yaml", "run.sh", "overrides.yaml"):
        (folder / "configs" / name).unlink()
    (folder / "configs/a.yaml").write_bytes(Path(CONFIG).read_bytes())
    result = run("check", "configs", "-f", "json", *GIVEN)
    content = json.loads(result.out)
    assert result.code == 2
    assert [given["source"] for given in content["inputs"]] == below("configs", ["a.yaml", "broken.yaml"])
    assert content["unreadable"][0].startswith(os.path.join("configs", "broken.yaml:"))  # noqa: PTH118
    assert len(content["skipped"]) == len(OTHERS)
    assert result.err.splitlines()[-1].startswith(
        "1 file checked, 1 unreadable, 6 skipped as no configuration: "
    )


def test_a_folder_without_any_is_one_message(folder: Path) -> None:
    (folder / "empty").mkdir()
    result = run("check", "empty", *GIVEN)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: empty: is a directory that holds no")


def test_every_launch_and_configuration_that_is_known_is_taken_for_one(folder: Path) -> None:
    launches = (Path(__file__).parents[1] / "data/verl-launches.jsonl").read_text(encoding="utf-8")
    for record in map(json.loads, launches.splitlines()):
        script = "python3 -m verl.trainer.main_ppo \\\n  " + " \\\n  ".join(record["overrides"])
        assert verl.may_configure(script, yaml=False)
    for file in (Path(__file__).parents[2] / "docs/examples").iterdir():
        if file.suffix in (".yaml", ".sh"):
            text = file.read_text(encoding="utf-8")
            trainer = trainer_of_file(text, yaml=file.suffix == ".yaml")
            assert trainer is (nemo_rl if file.name.startswith("nemo-") else verl), file


def test_a_pattern_longer_than_any_path_matches_nothing_at_once() -> None:
    with pytest.raises(InputError, match="no file matches"):
        expanded((Input(config="[" * 100_000),))  # minutes, if it were read


def test_a_pattern_and_a_folder_of_more_files_than_anybody_checks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        (tmp_path / f"{number}.yaml").touch()
    monkeypatch.setattr("tuner.review.paths._MOST_FILES", 10)
    with pytest.raises(InputError, match="matches more than 10 files"):
        expanded((Input(config=str(tmp_path / "*.yaml")),))
    monkeypatch.setattr("tuner.review.paths._MOST_SEEN", 11)
    with pytest.raises(InputError, match="holds more than 11 files to look at"):
        expanded((Input(config=str(tmp_path)),))
