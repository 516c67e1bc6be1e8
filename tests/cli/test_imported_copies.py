"""The copy of verl that Python imports, where a script puts one of several under verl's name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo house.turns=2 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    trainer.n_gpus_per_node=8"""
HERE = 'ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'


def copy(package: Path, version: str, **own: Any) -> None:
    """A copy of verl, with keys of its own."""
    config = package / "trainer" / "config"
    config.mkdir(parents=True)
    tree = dict(read_defaults(version, "ppo_trainer").tree)
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump({**tree, **own}))
    (package / "__init__.py").write_text("")
    (package / "trainer" / "main_ppo.py").write_text(
        'import hydra\n\n\n@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)\n'
        "def main(config):\n    print(config.house.turns)\n"
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a clone of verl, and an older copy with keys of its own beside it."""
    (tmp_path / ".git").mkdir()
    copy(tmp_path / "verl" / "verl", "0.8.0")
    copy(tmp_path / "old_verl", "0.3.0.post1", house={"turns": 1})
    return tmp_path


def answer(repository: Path, script: str, launch: str = LAUNCH) -> str:
    (repository / "run.sh").write_text(f"{script}\n{launch}\n")
    result = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm")
    return " ".join(result.out.split())


def is_old(said: str) -> bool:
    """Whether the copy is read whose keys the launch has; the other one refuses it."""
    refused = said.startswith(("WILL NOT START refused by CFG001", "CANNOT SAY"))
    laid = "old_verl/trainer/config/ppo_trainer.yaml" in said and "verl 0.3.0.post1" in said
    assert refused is not laid
    return laid


@pytest.mark.parametrize(
    "script",
    [
        f'{HERE}ln -sfn "$ROOT/old_verl" "$ROOT/.path/verl"\nexport PYTHONPATH="$ROOT/.path:$PYTHONPATH"',
        f"{HERE}mkdir -p $ROOT/p\ncp -r $ROOT/old_verl $ROOT/p/verl\ncd $ROOT\nexport PYTHONPATH=$ROOT/p",
        f"{HERE}cd $ROOT\nmv verl new_verl\nmv old_verl verl",
        "rm -rf verl && cp -r old_verl verl",
        "rm -rf verl; ln -s old_verl verl",
        "P=$(mktemp -d)\nln -s $PWD/old_verl $P/verl\nexport PYTHONPATH=$P:$PYTHONPATH",
        "cd $SLURM_SUBMIT_DIR\nln -sfT $SLURM_SUBMIT_DIR/old_verl path/verl\nexport PYTHONPATH=$PWD/path",
        "rsync -a --exclude .git old_verl/ path/verl\nPYTHONPATH=path \\",
        "mkdir lib\nmv old_verl lib/verl\nln -s lib tmp\nexport PYTHONPATH=./tmp",
    ],
)
def test_the_copy_that_a_script_puts_under_verls_name_is_read(repository: Path, script: str) -> None:
    assert is_old(answer(repository, script))


@pytest.mark.parametrize(
    "script",
    [
        "",
        "ln -sfn old_verl path/verl",  # Python does not look there
        f"{HERE}cd $ROOT/verl\nln -sfn $ROOT/old_verl $ROOT/p/verl\nexport PYTHONPATH=$ROOT/p",
        "ln -s old_verl verl",  # in the folder that is there already
        "ln -sfn old_verl path/verl\nrm path/verl\nexport PYTHONPATH=path",
        "ln -sfn missing path/verl\nexport PYTHONPATH=path",
    ],
)
def test_what_python_does_not_import_is_not_read(repository: Path, script: str) -> None:
    assert not is_old(answer(repository, script))


@pytest.mark.parametrize(("first", "second"), [("old_verl", "verl/verl"), ("verl/verl", "old_verl")])
def test_a_link_in_a_branch_that_nobody_knows_is_in_doubt(repository: Path, first: str, second: str) -> None:
    test = "test $(hostname) = house"
    script = f"{test} && ln -sfn {first} path/verl || ln -sfn {second} path/verl\nexport PYTHONPATH=path"
    said = answer(repository, script)
    assert not said.startswith("WILL NOT START")
    assert said.startswith(IN_DOUBT) or ("laid on: " in said and "old_verl/trainer" in said)


def test_a_package_that_is_started_under_its_own_name_is_read(repository: Path) -> None:
    assert is_old(answer(repository, "", LAUNCH.replace("verl.trainer", "old_verl.trainer")))


def test_a_link_in_the_tree_is_followed(repository: Path) -> None:
    (repository / "verl").rename(repository / "new_verl")
    (repository / "verl").symlink_to("old_verl", target_is_directory=True)
    said = answer(repository, "")
    assert "verl 0.3.0.post1" in said and "CFG001" not in said


def test_the_code_of_the_linked_copy_is_what_refuses(repository: Path) -> None:
    """Its program reads the key; the one beside it would be asked in vain."""
    words = "ln -sfn old_verl path/verl\nexport PYTHONPATH=path"
    said = answer(repository, words, LAUNCH.replace("house.turns=2", "house.turns=2 house.other=1"))
    assert said.startswith("WILL NOT START refused by CFG001")
    assert "old_verl" in said.partition("does not have the key house.other")[0]


@pytest.fixture
def packages(repository: Path) -> Path:
    """The same with the older copy in a project of its own, which is installed before it is imported."""
    (repository / "project" / "src").mkdir(parents=True)
    (repository / "old_verl").rename(repository / "project" / "src" / "verl")
    return repository


@pytest.mark.parametrize(
    "script",
    [
        "pip install -e ./project",
        "cd project && pip3 install --no-deps -e . && cd -",
        "python -m pip install --editable=$HOME_OF_ALL/project[gpu]",
        "export PYTHONPATH=$PYTHONPATH:$(dirname $0)/project/src",
    ],
)
def test_a_folder_that_a_script_installs_in_place_is_imported(packages: Path, script: str) -> None:
    launch = LAUNCH.replace("house.turns=2", "")
    said = answer(packages, script, launch)
    assert "project/src/verl/trainer/config/ppo_trainer.yaml" in said and "verl 0.3.0.post1" in said
    assert "verl/verl/trainer" in answer(packages, "pip install ./project/other vllm", launch)


def test_a_folder_that_a_program_puts_into_its_path_is_imported(packages: Path) -> None:
    launch = LAUNCH.replace("house.turns=2", "").replace("-m verl.trainer.main_ppo", "own/train.py")
    (packages / "own").mkdir()
    program = "import os, sys\n{}\nfrom verl.trainer.main_ppo import main\nmain()\n"
    line = 'sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "project", "src"))'
    (packages / "own" / "train.py").write_text(program.format(line))
    assert "project/src/verl/trainer/config" in answer(packages, "", launch)
    (packages / "own" / "train.py").write_text(program.format(""))
    assert "project/src/verl" not in answer(packages, "", launch)


IN_DOUBT = "CANNOT SAY the configuration of the launch is not known:"


def test_another_copy_with_the_keys_of_the_launch_leaves_open_which_one_runs(repository: Path) -> None:
    said = answer(repository, "")
    assert said.startswith(IN_DOUBT)
    assert "verl/verl does not have house.turns, and" in said
    assert "old_verl does: nothing says which of them the launch runs" in said
    assert "Paste this" not in said and "CFG001" not in said
    assert answer(repository, "", f"{LAUNCH} trainer.val_only=False").startswith(IN_DOUBT)  # of the other one
    asked = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.8.0").out
    assert asked.startswith("WILL NOT START")


def test_the_copy_that_python_may_import_is_chosen_by_the_keys_of_the_launch(repository: Path) -> None:
    (repository / "third").mkdir()
    (repository / "old_verl").rename(repository / "third" / "verl")
    said = answer(repository, "")
    assert "laid on:" in said and "third/verl/trainer/config/ppo_trainer.yaml" in said
    assert "CFG001" not in said and "verl 0.3.0.post1" in said
    assert "verl/verl/trainer" in answer(repository, "", LAUNCH.replace("house.turns=2", ""))


def test_of_copies_that_differ_the_one_with_the_keys_of_the_launch_is_taken(repository: Path) -> None:
    for name, package in (("one", repository / "verl" / "verl"), ("two", repository / "old_verl")):
        (repository / name).mkdir()
        package.rename(repository / name / "verl")
    (repository / "verl").rmdir()
    said = answer(repository, "")
    assert "two/verl/trainer/config/ppo_trainer.yaml" in said and "CFG001" not in said
    assert answer(repository, "", LAUNCH.replace("house.turns=2", "")).startswith("CANNOT SAY")


def test_a_copy_beside_the_launch_comes_before_what_is_installed_but_for_another_copy(
    repository: Path,
) -> None:
    (repository / "verl").rename(repository / "clone")
    (repository / "clone" / "verl").rename(repository / "verl")
    assert answer(repository, "").startswith(IN_DOUBT)
    gone = LAUNCH.replace("house.turns=2", "actor_rollout_ref.rollout.chat_scheduler=null")  # of 0.4.0
    assert answer(repository, "", gone).startswith("WILL NOT START refused by CFG001")


def test_a_release_with_the_keys_of_the_launch_may_run_in_place_of_a_clone(repository: Path) -> None:
    gone = LAUNCH.replace("house.turns=2", "actor_rollout_ref.rollout.chat_scheduler=null")
    said = answer(repository, "", gone)
    assert said.startswith(IN_DOUBT) and "and verl 0.4.0 does: nothing says" in said
    said = answer(repository, f"{HERE}cd $ROOT/verl", gone)
    assert said.startswith("WILL NOT START refused by CFG001")
    assert answer(repository, "", LAUNCH.replace("house.turns", "of_nobody")).startswith("WILL NOT START")
