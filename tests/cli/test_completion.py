"""What shells offer, asked for by the scripts that the program gives them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import ROOT
from tuner.gpus import gpu_names
from tuner.trainers.verl import catalogue
from tuner.trainers.verl.releases import BUNDLED

OFFERED = {
    "tuner advise --model qwen3-4": {"qwen3-4B", "qwen3-4B-Base"},
    "tuner check --gpu 8xh100-s": {"8xh100-sxm"},
    "tuner advise --gpu ": set(gpu_names()),
    "tuner check --select cfg11": {"cfg110", "cfg111"},
    "tuner rule sequence-pa": {"sequence-packing"},
    "tuner advise job.yaml actor_rollout_ref.actor.ppo_mi": {
        "actor_rollout_ref.actor.ppo_mini_batch_size=",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=",
    },
    # Beside the key alone a shell would put a blank, so the default is offered as well.
    "tuner check job.yaml +critic.ppo_mini": {"+critic.ppo_mini_batch_size=", "+critic.ppo_mini_batch_size"},
    "tuner diff a.sh b.sh actor_rollout_ref.rollout.gpu_mem": {
        "actor_rollout_ref.rollout.gpu_memory_utilization=",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.5",
    },
    "tuner config run.sh ~algorithm.adv_e": {"~algorithm.adv_estimator"},
    "tuner config --verl-version 0.4.1 run.sh actor_rollout_ref.actor.calculate_e": set(),
    "tuner config run.sh optim.weight_decay=": set(),
    "tuner config --verl-version x run.sh actor_rollout_ref.actor.ppo_mi": set(),
}
SHELLS = ("bash", "zsh", "fish")
_BASH = """
complete -p tuner >&2
COMP_WORDS=($1); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); [[ $1 == *' ' ]] && COMP_WORDS+=('') && COMP_CWORD=$(( COMP_CWORD + 1 ))
COMPREPLY=(); _tuner_completion tuner; printf '%s\\n' "${COMPREPLY[@]}"
"""  # noqa: E501 - one line of a script


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which ``tuner`` is this program."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "tuner"
    code = "import sys; sys.argv[0] = 'tuner'; from tuner.cli import program; program()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    search = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": search, "PYTHONPATH": str(ROOT), "HOME": str(folder)}


def _asked(command: list[str], environment: dict[str, str], folder: Path) -> str:
    answer = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=60, check=False
    )
    assert "error" not in answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def scripts(path: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``--show-completion`` prints in each shell."""
    folder = tmp_path_factory.mktemp("scripts")
    return {
        shell: _asked(["tuner"], {**path, "_TUNER_COMPLETE": f"source_{shell}"}, folder) for shell in SHELLS
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("words", OFFERED)
def test_bash_offers_it(words: str, path: dict[str, str], scripts: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "offer.sh"
    script.write_text(scripts["bash"] + _BASH)
    offered = _asked(["bash", str(script), words], path, tmp_path).splitlines()
    _hold(words, set(filter(None, offered)))


def _hold(words: str, offered: set[str]) -> None:
    begun = words.rpartition(" ")[2]
    assert OFFERED[words] <= offered
    assert OFFERED[words] or not offered
    assert all(name.lower().startswith(begun.lower()) for name in offered)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("words", [*OFFERED][5:-2])
@pytest.mark.parametrize("shell", SHELLS[1:])
def test_the_scripts_of_other_shells_offer_it_with_its_help(
    shell: str, words: str, path: dict[str, str], scripts: dict[str, str], tmp_path: Path
) -> None:
    asked = {"_TUNER_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words}
    script = scripts[shell]
    assert f"_TUNER_COMPLETE=complete_{shell}" in script
    assert "_TYPER_COMPLETE_ARGS=" in script
    if shell == "fish" and shutil.which("fish"):
        (tmp_path / "tuner.fish").write_text(script)
        command = ["fish", "--no-config", "-c", 'source tuner.fish; complete -C "$argv[1]"', words]
        listed = _asked(command, path, tmp_path).splitlines()
    else:
        environment = {**path, **asked, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        answer = _asked(["tuner"], environment, tmp_path)
        listed = answer.splitlines() if shell == "fish" else _of_zsh(answer)
    _hold(words, {line.partition("\t")[0] for line in listed if line})
    if words.startswith("tuner diff"):
        assert all(line.endswith("default 0.5; counted in memory and seconds") for line in listed)


def _of_zsh(answer: str) -> list[str]:
    """The names and helps that zsh's script is given, which it evaluates."""
    if answer.strip() == "_files":
        return []
    inner = answer.strip().removeprefix("_arguments '*: :((").removesuffix("))'")
    return [line.strip('"').replace('":"', "\t") for line in inner.splitlines()]


def test_keys_are_those_of_the_release_and_their_number_bounds_the_help() -> None:
    newest = BUNDLED[-1]
    every = catalogue.offered_keys(newest, "actor_rollout_ref.")
    assert len(every) > 400
    assert not any(key.help for key in every)
    assert [key.key for key in catalogue.offered_keys("0.4.1", "actor_rollout_ref.rollout.mode")] == [
        "actor_rollout_ref.rollout.mode"
    ]
    assert catalogue.offered_keys(newest, "optim.lr")[0].key == "optim.lr"  # of fine-tuning alone
    assert catalogue.offered_keys(newest, "no.such") == ()


def test_a_file_goes_before_keys(path: dict[str, str], tmp_path: Path) -> None:
    asked = {"_TUNER_COMPLETE": "complete_bash", "COMP_WORDS": "tuner check a.yaml data", "COMP_CWORD": "3"}
    assert "data.train_batch_size=" in _asked(["tuner"], {**path, **asked}, tmp_path).split()
    (tmp_path / "data.yaml").touch()
    assert _asked(["tuner"], {**path, **asked}, tmp_path).split() == []
    (tmp_path / "data.yaml").unlink()
    (tmp_path / "tuner.toml").write_text('verl-version = "0.4.1"\n')
    asked["COMP_WORDS"] = "tuner check a.yaml actor_rollout_ref.actor.calculate_e"
    assert _asked(["tuner"], {**path, **asked}, tmp_path).split() == []
