"""The machine that a configuration is read for, as far as a launch script asks about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

AMD = "amd"
HUAWEI = "huawei"
NVIDIA = "nvidia"


class TargetMachine(Struct, frozen=True, kw_only=True):
    """What a launch script would find where it runs."""

    vendor: str = NVIDIA  # of its accelerators, as a profile of a card has it
    per_node: int | None = None  # accelerators of one node; None where nobody says


GPUS = TargetMachine()

_asked: ContextVar[TargetMachine] = ContextVar("target_machine", default=GPUS)


def target_machine() -> TargetMachine:
    """The machine that is asked about: one with GPUs where nobody says."""
    return _asked.get()


@contextmanager
def read_for(machine: TargetMachine) -> Iterator[None]:
    """Read scripts as a machine would answer them."""
    before = _asked.set(machine)
    try:
        yield
    finally:
        _asked.reset(before)
