"""Launches inside of files for other programs, and where their overrides stand in them."""

import json
from pathlib import Path

import pytest

from tuner.errors import InputError
from tuner.inputs.reading import read_given

KEYS = ("actor_rollout_ref.rollout.n=5", "data.train_batch_size=128")
PROGRAM = "verl.trainer.main_ppo"
LINE = f"python3 -m {PROGRAM} {KEYS[0]} {KEYS[1]}"
BLOCK = f"python3 -m {PROGRAM} \\\n      {KEYS[0]} \\\n      {KEYS[1]}"
CONTAINER = "spec:\n  containers:\n  - name: train\n"
FILES = {
    "ray.yaml": (f"kind: RayJob\nspec:\n  entrypoint: |\n    {BLOCK}\n  ttl: 1\n", (5, 6)),
    "ray-line.yaml": (f"kind: RayJob\nspec:\n  entrypoint: {LINE}\n", (3, 3)),
    "job.yaml": (
        f"{CONTAINER}    command: [python3, -m, {PROGRAM}]\n    args:\n    - {KEYS[0]}\n    - {KEYS[1]}\n",
        (6, 7),
    ),
    "shell.yaml": (
        f"{CONTAINER}    command: [/bin/bash, -c]\n    args:\n    - |\n      set -x\n      {LINE}\n",
        (7, 7),  # where the text for the shell begins
    ),
    "second.yaml": (f"kind: ConfigMap\n---\nkind: RayJob\nspec:\n  entrypoint: {LINE}\n", (5, 5)),
    "compose.yaml": (f"services:\n  train:\n    command: >\n      {LINE}\n", (4, 4)),
    "sweep.yaml": (
        "method: grid\ncommand:\n  - python3\n  - -m\n  - "
        f"{PROGRAM}\n  - {KEYS[0]}\n  - {KEYS[1]}\n  - ${{args}}\n",
        (6, 7),
    ),
    "launch.json": (
        '{"configurations": [{"type": "debugpy",\n'
        f'"module": "{PROGRAM}",\n"args": ["{KEYS[0]}",\n"{KEYS[1]}"]}}]}}',
        (3, 4),
    ),
    "run.ipynb": (json.dumps({"cells": [{"source": ["%%bash\n", "set -x\n", LINE]}]}, indent=1), (7, 7)),
    "mark.ipynb": (json.dumps({"cells": [{"source": [f"!{LINE}"]}]}), (1, 1)),
}


@pytest.mark.parametrize("name", FILES)
def test_overrides_are_read_with_their_lines(name: str, tmp_path: Path) -> None:
    content, lines = FILES[name]
    file = tmp_path / name
    file.write_text(content)
    given = read_given(str(file), ())
    assert given.program == PROGRAM
    found = {argument.text: argument.location.line for argument in given.arguments}
    assert tuple(found[key] for key in KEYS) == lines


def test_variables_of_the_file_are_known(tmp_path: Path) -> None:
    file = tmp_path / "sky.yaml"
    file.write_text(f"envs:\n  N: 7\nrun: |\n  cd verl\n  {LINE.replace('n=5', 'n=$N')}\n")
    assert read_given(str(file), ()).arguments[0].text == "actor_rollout_ref.rollout.n=7"
    listed = f"{CONTAINER}    env:\n    - {{name: N, value: '8'}}\n    command: [bash, -c, '{LINE}']\n"
    file.write_text(listed.replace("n=5", "n=$N"))
    assert read_given(str(file), ()).arguments[0].text == "actor_rollout_ref.rollout.n=8"


def test_several_launches_of_one_file_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f"a:\n  entrypoint: {LINE}\nb:\n  entrypoint: {LINE}\n")
    with pytest.raises(InputError, match=r"--launch 2: verl\.trainer\.main_ppo, line 4"):
        read_given(str(file), ())
    assert read_given(str(file), (), launch=2).arguments[0].location.line == 4


def test_a_configuration_stays_one(tmp_path: Path) -> None:
    """It may speak of Python, and of keys."""
    file = tmp_path / "config.yaml"
    file.write_text("# python3 -m x a.b=1\ndata:\n  reward: 'python a.b=1'\n")
    given = read_given(str(file), ())
    assert given.document is not None
    assert given.document.tree == {"data": {"reward": "python a.b=1"}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "SkyPilot",
            "resources: {accelerators: A100:1}\nenvs: {CONFIG: a.yaml}\nrun: start --config $CONFIG\n",
        ),
        ("Kubernetes", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: train, command: [start]}]}\n"),
    ],
)
def test_a_job_of_another_program_that_starts_no_trainer_is_no_configuration(
    name: str, content: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=f"a job of {name} that starts no program with overrides"):
        read_given(str(file), ())
