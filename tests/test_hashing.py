"""Workloads as keys of caches: a kept hash is the object's own, never one of another object or process."""

import pickle
import subprocess
import sys
from copy import copy
from pathlib import Path

from msgspec.structs import replace

from tests import workloads
from tuner.workload import Workload

ROOT = Path(__file__).parents[1]


class Counted(str):
    """A text that counts how often it is hashed."""

    __slots__ = ("asked",)

    def __hash__(self) -> int:
        self.asked = getattr(self, "asked", 0) + 1
        return super().__hash__()


def _of(release: Counted) -> Workload:
    workload = workloads.grpo_7b()
    return replace(workload, release=replace(workload.release, version=release))


def test_the_parts_are_hashed_once() -> None:
    version = Counted("0.9.1")
    workload = _of(version)
    assert hash(workload) == hash(workload)
    assert workload in {workload}
    assert version.asked == 1


def test_a_changed_copy_has_a_hash_of_its_own() -> None:
    first, second = _of(Counted("0.9.1")), _of(Counted("0.8.0"))
    assert hash(first) != hash(second)
    changed = replace(first, release=second.release)
    assert changed == second
    assert hash(changed) == hash(second)


def test_equal_workloads_have_equal_hashes() -> None:
    one, other = workloads.grpo_7b(), workloads.grpo_7b()
    hash(one)
    assert one == other
    assert hash(one) == hash(other) == hash(copy(one))
    assert repr(one) == repr(other)


def test_a_pickled_workload_is_hashed_anew_by_another_process() -> None:
    workload = workloads.grpo_7b()
    hash(workload)
    code = (
        "import pickle, sys; from msgspec.structs import replace; "
        "found = pickle.loads(sys.stdin.buffer.read()); "
        "assert hash(found) == hash(replace(found)), 'a hash of another process'"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(workload), check=True, cwd=ROOT)
