"""The table of the first two steps in the log: what was predicted, what was observed, what to do.

It is what ``tuner watch DIR --once`` prints, made by a process of its own, so that nothing of the model runs
in the worker, and the training does not wait for it.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import tuner
from tuner.inside_verl.record.worker import VerlWorker
from tuner.inside_verl.settings import SETTINGS
from tuner.lifetime import run_module

STEPS = 2  # whose ends are followed by a table
_PATIENCE_S = 120.0
_WIDTH = "100"  # columns of the log
_EXTERNAL = "VERL_USE_EXTERNAL_MODULES"
_printed: set[int] = set()  # steps that have begun in this process


def print_table(folder: Path, worker: VerlWorker, step: int) -> None:
    """Print the table of the steps so far when the next one begins, in the process of the first rank.

    Args:
        folder: of the record.
        worker: whose phase begins the step.
        step: that begins.
    """
    if worker.rank != 0 or "critic" in worker.role or step < 1:
        return
    _printed.add(step)
    if 1 < len(_printed) <= STEPS + 1:
        threading.Thread(target=_print, args=(folder,), daemon=True).start()


def _print(folder: Path) -> None:
    try:
        done = run_module(
            "tuner", ["watch", str(folder), "--once"], env=_environment(), timeout_s=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return  # the record goes on without its table
    text = (done.stdout or done.stderr).decode("utf-8", "replace").rstrip()
    if text:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _environment() -> dict[str, str]:
    """The process's environment without what would start CUDA, verl or a record in the one that prints."""
    left_out = {_EXTERNAL, *(setting.name for setting in SETTINGS)}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    own = str(Path(tuner.__file__).parent.parent)
    path = os.pathsep.join(part for part in (own, kept.get("PYTHONPATH")) if part)
    return kept | {
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "COLUMNS": _WIDTH,
        "PYTHONIOENCODING": "utf-8",
    }
