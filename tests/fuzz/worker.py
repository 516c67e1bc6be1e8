"""The process that runs inputs one after another and tells of each how it went."""

import os
import resource
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.case import Case
from tests.fuzz.generate import case
from tests.fuzz.watch import Outcome, Watch, held
from tuner.lifetime import end_with_parent

_MOST_ADDRESSES = 6 * 1024**3  # so that no input takes the machine's memory
_TOLD = 1_000  # characters of what it says, the last ones
_IN_MEMORY = Path("/dev/shm")  # where there is one: folders are made and removed for each input
_FIRST = Case(
    ("advise", "--gpu=h100-sxm", "--output-format=json", "/dev/null", "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
     "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.actor.use_dynamic_bsz=True", "+a.b='${a.c}'")
)  # fmt: skip


class Runner:
    """Runs cases in this process."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, resource.RLIM_INFINITY))
        os.environ.update(TUNER_LANG="", COLUMNS="", HF_HUB_OFFLINE="1")
        sys.dont_write_bytecode = True
        self._watch = Watch()
        place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self._top = Path(tempfile.mkdtemp(prefix="tuner-fuzz-", dir=place))
        self.run(_FIRST)  # what is imported once is no input's time

    def run(self, made: Case) -> Outcome:
        from tuner.cli import main

        folder = self._top / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return self._watch.run(made, folder, main)

    def close(self) -> None:
        shutil.rmtree(self._top, ignore_errors=True)


@dataclass(frozen=True)
class Told:
    """What a worker says of an input: that it begins, then how it went."""

    number: int
    outcome: Outcome | None = None
    resident: int = 0  # bytes that the process holds afterwards


def serve(to: Connection, seed: int, numbers: range) -> None:
    """Run the inputs of a seed with these numbers."""
    end_with_parent()
    runner = Runner()
    try:
        for number in numbers:
            to.send(Told(number))
            outcome = runner.run(case(seed, number))
            brief = replace(outcome, out="", err=outcome.err[-_TOLD:])  # one process listens to many
            to.send(Told(number, brief, held()))
    finally:
        runner.close()
        to.close()


def watched(cases: list[Case]) -> list[Outcome]:
    runner = Runner()
    try:
        return [runner.run(made) for made in cases]
    finally:
        runner.close()
