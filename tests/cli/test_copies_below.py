"""The copy of verl that a launch runs, where it lies in another folder of the repository than the launch."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

LAUNCH = """torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=4 \\
    model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose launch lies beside configurations that are named as verl's, without its code."""
    (tmp_path / ".git").mkdir()
    configuration(tmp_path / "agent", recomputes=True)
    (tmp_path / "agent" / "train.sh").write_text(LAUNCH)
    return tmp_path


def configuration(folder: Path, *, recomputes: bool) -> None:
    tree: dict[str, Any] = deepcopy(dict(read_defaults("0.4.1", "sft_trainer").tree))
    tree["model"]["enable_gradient_checkpointing"] = recomputes
    config = folder / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    (config / "sft_trainer.yaml").write_text(yaml.safe_dump(tree))


def copy(folder: Path, *, recomputes: bool) -> None:
    configuration(folder, recomputes=recomputes)
    (folder / "verl" / "__init__.py").write_text("")
    (folder / "verl" / "trainer" / "fsdp_sft_trainer.py").write_text(
        "config.model.enable_gradient_checkpointing\n"
    )


def answer(repository: Path, *options: str) -> str:
    result = run("advise", str(repository / "agent" / "train.sh"), "--gpu", "h100-sxm", *options)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_the_copy_with_the_code_comes_before_configurations_beside_the_launch(repository: Path) -> None:
    copy(repository / "own" / "rl", recomputes=False)
    said = answer(repository)
    assert "laid on:" in said and "own/rl/verl/trainer/config/sft_trainer.yaml" in said
    assert "enable_gradient_checkpointing=False" in said and "MEM003" not in said


def test_without_any_code_the_configuration_beside_the_launch_is_taken(repository: Path) -> None:
    said = answer(repository)
    assert "laid on:" in said and "agent/verl/trainer/config/sft_trainer.yaml" in said


def test_of_copies_that_differ_nothing_is_pasted(repository: Path) -> None:
    for name, switch in (("one", False), ("two", True)):
        copy(repository / name, recomputes=switch)
    said = answer(repository)
    assert said.startswith("CANNOT SAY")
    assert "those here differ in model.enable_gradient_checkpointing: " in said
    assert "--config-name is sft_trainer, which cannot be composed;" in said
    assert "one/verl" in said and "two/verl" in said and "Paste this" not in said


def test_copies_that_say_the_same_are_taken(repository: Path) -> None:
    for name in ("one", "two"):
        copy(repository / name, recomputes=False)
    said = answer(repository)
    assert "one/verl/trainer/config/sft_trainer.yaml" in said
    assert "enable_gradient_checkpointing=False" in said


def test_of_copies_that_differ_the_release_that_is_asked_for_is_taken(repository: Path) -> None:
    for name, version, switch in (("one", "0.4.1", False), ("two", "0.5.0", True)):
        copy(repository / name, recomputes=switch)
        (repository / name / "verl" / "version").mkdir()
        (repository / name / "verl" / "version" / "version").write_text(f"{version}\n")
    said = answer(repository, "--verl-version", "0.4.1")
    assert not said.startswith("CANNOT SAY") and "one/verl/trainer/config/sft_trainer.yaml" in said
    assert "enable_gradient_checkpointing=False" in said
    said = answer(repository, "--verl-version", "0.5.0")
    assert not said.startswith("CANNOT SAY") and "two/verl/trainer/config/sft_trainer.yaml" in said


def test_a_release_that_no_copy_is_of_is_taken_as_it_is_where_it_is_asked_for(repository: Path) -> None:
    for name, switch in (("one", False), ("two", True)):
        copy(repository / name, recomputes=switch)
    said = answer(repository, "--verl-version", "0.6.1")
    assert not said.startswith("CANNOT SAY") and "laid on" not in said and "verl 0.6.1" in said


@pytest.mark.parametrize("marks", [("README.md", ".gitignore"), ("README.md", "LICENSE"), ("README.md",), ()])
def test_a_copy_below_the_top_of_an_archive_of_a_repository(tmp_path: Path, marks: tuple[str, ...]) -> None:
    """An unpacked archive has no ``.git``: its top is told by the files that only such a folder has."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "train.sh").write_text(LAUNCH)
    for name in marks:
        (tmp_path / name).write_text("")
    copy(tmp_path / "own" / "rl", recomputes=False)
    assert ("own/rl/verl/trainer/config/sft_trainer.yaml" in answer(tmp_path)) is (len(marks) == 2)


def test_an_unpacked_release_beside_the_launch(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "train.sh").write_text(LAUNCH)
    copy(tmp_path / "agent" / "verl-release-v0.4.1", recomputes=False)
    assert "verl-release-v0.4.1/verl/trainer/config/sft_trainer.yaml" in answer(tmp_path)
    copy(tmp_path / "agent" / "verl-main", recomputes=True)  # nobody knows which of them is installed
    assert "Paste this" not in answer(tmp_path)


def test_the_program_of_the_copy_names_the_configuration(repository: Path) -> None:
    """A copy may have its program read another file than verl's own: here one that recomputes nothing."""
    copy(repository / "own" / "rl", recomputes=True)
    trainer = repository / "own" / "rl" / "verl" / "trainer"
    (trainer / "fsdp_sft_trainer.py").write_text(
        "import hydra\n\n\n"
        '@hydra.main(config_path="config", config_name="house", version_base=None)\n'
        "def main(config):\n    config.model.enable_gradient_checkpointing\n"
    )
    of_house = {"defaults": ["sft_trainer", "_self_"], "model": {"enable_gradient_checkpointing": False}}
    (trainer / "config" / "house.yaml").write_text(yaml.safe_dump(of_house))
    said = answer(repository)
    assert "own/rl/verl/trainer/config/house.yaml" in said
    assert "MEM003" not in said


def test_a_project_that_bears_the_name_of_its_package_is_no_empty_submodule(tmp_path: Path) -> None:
    """``verl/setup.py`` beside ``verl/verl``, in an archive that has no ``.git`` at its top."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "train.sh").write_text(LAUNCH)
    for name in ("README.md", ".gitignore"):
        (tmp_path / name).write_text("")
    copy(tmp_path / "verl", recomputes=False)
    (tmp_path / "verl" / "setup.py").write_text("")
    said = answer(tmp_path)
    assert "verl/verl/trainer/config/sft_trainer.yaml" in said and "submodule" not in said
    assert "enable_gradient_checkpointing=False" in said
