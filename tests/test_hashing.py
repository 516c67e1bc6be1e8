"""A kept hash: the dataclass's own, and never one of another object or process."""

import pickle
import subprocess
import sys
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tests import workloads
from tuner.hashing import hashed_once
from tuner.workload import Workload

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Part:
    """Counts how often it is hashed."""

    name: str
    asked: list[int]

    def __hash__(self) -> int:
        self.asked.append(1)
        return hash(self.name)


@hashed_once
@dataclass(frozen=True)
class Whole:
    """Is hashed through its part."""

    part: Part


def test_the_parts_are_hashed_once() -> None:
    whole = Whole(Part("a", []))
    assert hash(whole) == hash(whole) == hash((whole.part,))
    assert len(whole.part.asked) == 2  # the third was the tuple's


def test_a_changed_copy_has_a_hash_of_its_own() -> None:
    first, second = Part("a", []), Part("b", [])
    whole = Whole(first)
    assert hash(whole) == hash((first,))
    changed = replace(whole, part=second)
    assert hash(changed) == hash((second,)) != hash(whole)


def test_equal_workloads_have_equal_hashes_and_no_new_field() -> None:
    one, other = workloads.grpo_7b(), workloads.grpo_7b()
    hash(one)
    assert one == other
    assert hash(one) == hash(other) == hash(copy(one))
    assert repr(one) == repr(other)
    assert {field.name for field in fields(Workload)} >= set(vars(other)) - {"_hash"}


def test_a_pickled_workload_is_hashed_anew_by_another_process() -> None:
    workload = workloads.grpo_7b()
    hash(workload)
    code = (
        "import pickle, sys; from dataclasses import replace; "
        "found = pickle.loads(sys.stdin.buffer.read()); "
        "assert hash(found) == hash(replace(found)), 'a hash of another process'"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(workload), check=True, cwd=ROOT)
