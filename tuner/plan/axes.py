"""What a plan may change: axes of a job, each with the values that one part of it may take.

An axis knows fields of the workload and no key of any trainer. What its values come to is read back from the
overrides that the trainer writes for each of them, in :mod:`tuner.plan.space`.
"""

from collections.abc import Iterable

from msgspec import Struct

from tuner.workload import Workload


class Value(Struct, frozen=True, kw_only=True):
    """One value of an axis: the job with it and with nothing else changed."""

    text: str
    workload: Workload


class Axis(Struct, frozen=True, kw_only=True):
    """One part of a job that may be another, and its values beside the job's own."""

    name: str
    values: tuple[Value, ...]
    layout: bool = False  # which GPUs do what: plans that differ in it are told apart


def axis(
    name: str, workload: Workload, values: Iterable[tuple[str, Workload]], *, layout: bool = False
) -> Axis:
    """An axis of the values that make another job than the one that there is, each of them once."""
    others: dict[Workload, Value] = {}
    for text, other in values:
        if other != workload and other not in others:
            others[other] = Value(text=text, workload=other)
    return Axis(name=name, values=tuple(others.values()), layout=layout)
