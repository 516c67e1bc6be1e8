"""Launches inside of files of Python, which are parsed and never run."""

from pathlib import Path

import pytest

from tuner.errors import InputError
from tuner.inputs.reading import read_given

PROGRAM = "verl.trainer.main_ppo"
LIST = f"""
'''Starts it: python -m {PROGRAM} a.b=1'''
import subprocess
batch = 256
def main(args):
    cmd = [
        "python", "-m", "{PROGRAM}",
        f"data.train_batch_size={{batch}}",
        f"actor_rollout_ref.model.path={{args.model}}",
        'trainer.logger=["console"]',
    ]
    if args.grouped:
        cmd += ["actor_rollout_ref.rollout.n=4"]
    cmd.append("trainer.nnodes=2")
    raise SystemExit(subprocess.run(cmd))
"""
TEXT = f"""
import os
N = 5
command = f'''
python3 -m {PROGRAM} \\\\
    actor_rollout_ref.rollout.n={{N}} \\\\
    trainer.nnodes=2
'''
os.system(command)
"""


def given(tmp_path: Path, content: str, *words: str) -> dict[str, int | None]:
    file = tmp_path / "train.py"
    file.write_text(content)
    read = read_given(str(file), words)
    assert read.program == PROGRAM
    return {argument.text: argument.location.line for argument in read.arguments}


def test_a_list_of_words_is_read_with_what_is_added_to_it(tmp_path: Path) -> None:
    assert given(tmp_path, LIST, "args_model=Qwen/Qwen3-4B") == {
        "data.train_batch_size=256": 8,
        "actor_rollout_ref.model.path=Qwen/Qwen3-4B": 9,
        'trainer.logger=["console"]': 10,
        "actor_rollout_ref.rollout.n=4": 13,
        "trainer.nnodes=2": 14,
    }


def test_what_only_a_run_tells_is_open(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(LIST)
    [unsettled] = read_given(str(file), ()).unsettled
    assert "args_model" in str(unsettled)


def test_a_command_line_is_read(tmp_path: Path) -> None:
    assert given(tmp_path, TEXT) == {"actor_rollout_ref.rollout.n=5": 6, "trainer.nnodes=2": 7}


@pytest.mark.parametrize("content", ["x = (", "(" * 5000, "x = ['python', 'train.py']"])
def test_what_starts_nothing_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(content)
    with pytest.raises(InputError):
        read_given(str(file), ())


OPTIONS = f"""
import argparse, pathlib, subprocess, sys
ROOT = pathlib.Path(__file__).parent
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="models/Qwen3-8B")
    parser.add_argument("-n", "--rollout-n", type=int, default=4)
    parser.add_argument("--longest", dest="most", type=int, default=1024)
    parser.add_argument("--dry-run", action="store_true"); parser.add_argument("--name", default="a run")
    parser.add_argument("others", nargs="*")
    args = parser.parse_args()
    cmd = [
        sys.executable, "-m", "{PROGRAM}",
        f"actor_rollout_ref.model.path={{ROOT / args.model}}",
        f"actor_rollout_ref.rollout.n={{args.rollout_n}}",
        f"actor_rollout_ref.rollout.max_model_len={{args.most + 2 * args.most}}",
        f"trainer.experiment_name={{args.name}}",
        *args.others,
    ]
    return subprocess.run(cmd).returncode
"""


def test_options_have_their_defaults_and_the_interpreter_is_python(tmp_path: Path) -> None:
    read = given(tmp_path, OPTIONS)
    assert "actor_rollout_ref.rollout.n=4" in read
    assert "actor_rollout_ref.rollout.max_model_len=3072" in read
    [model] = [word for word in read if ".model.path=" in word]
    assert model.endswith("/models/Qwen3-8B")
    assert read["trainer.experiment_name=a run"] == 17
    assert "actor_rollout_ref.rollout.n=16" in given(tmp_path, OPTIONS, "args_rollout_n=16")
