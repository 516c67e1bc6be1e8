"""Differences between workloads: what one changes, merging them, and where two collide."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise.answer import Recommendation
from tuner.workload import Workload

Changes = Mapping[tuple[str, ...], Any]
"""New values by the path of their field."""


@lru_cache(maxsize=512)  # a block that is put together comes by the same two jobs more than once
def changes(before: Workload, after: Workload) -> Changes:
    """Fields that differ, by path, down to the leaves of nested structs."""
    differing: dict[tuple[str, ...], Any] = {}
    _collect(before, after, (), differing)
    return differing


def _collect(before: Any, after: Any, path: tuple[str, ...], differing: dict[tuple[str, ...], Any]) -> None:
    for name in before.__struct_fields__:  # structs.fields() evaluates the types as well, each time
        old, new = getattr(before, name), getattr(after, name)
        if old is new or old == new:
            continue
        below = (*path, name)
        if isinstance(old, Struct) and type(old) is type(new):
            _collect(old, new, below, differing)
        else:
            differing[below] = new


def merged(workload: Workload, difference: Changes) -> Workload:
    """A workload with some of its fields changed."""
    return cast(Workload, _changed(workload, difference)) if difference else workload


def without_idle_sizes(before: Workload, difference: Changes) -> Workload:
    """A workload with some of its fields changed, all but the batch sizes that it does not use then.

    A dynamic pass uses its token budget, a static one its micro-batch size; the other is noise.
    """
    after = merged(before, difference)

    def idle(path: tuple[str, ...]) -> bool:
        *way, field = path
        if not way or way[-1] != "batching":
            return False
        batching: Any = after
        for name in way:
            batching = getattr(batching, name)
            if batching is None:
                return True
        return field == ("micro_batch_sequences" if batching.dynamic else "token_budget")

    used = {path: value for path, value in difference.items() if not idle(path)}
    return after if len(used) == len(difference) else merged(before, used)


def _changed(node: Any, difference: Changes) -> Any:
    """A struct with all of its changes at once: each struct within it is copied once.

    What another change has taken away, such as a reference that nothing needs, stays away.
    """
    if node is None:
        return None
    values: dict[str, Any] = {}
    below: dict[str, dict[tuple[str, ...], Any]] = {}
    for (name, *rest), value in difference.items():
        if rest:
            below.setdefault(name, {})[tuple(rest)] = value
        else:
            values[name] = value
    nested = {name: _changed(getattr(node, name), inner) for name, inner in below.items()}
    return replace(node, **{**values, **nested})


def with_conflicts(workload: Workload, ranked: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    """Name, at each recommendation, the rules that set one of its fields to another value."""
    differences: list[Changes] = [
        {} if recommendation.finding.proposal is None else changes(workload, recommendation.finding.proposal)
        for recommendation in ranked
    ]

    changing: dict[tuple[str, ...], list[int]] = {}
    for place, difference in enumerate(differences):
        for path in difference:
            changing.setdefault(path, []).append(place)

    def conflicting(index: int) -> tuple[str, ...]:
        places = {
            place
            for path, value in differences[index].items()
            for place in changing[path]
            if differences[place][path] != value
        }
        return tuple(ranked[place].finding.rule.name for place in sorted(places))

    return tuple(
        replace(recommendation, conflicts=conflicting(index)) for index, recommendation in enumerate(ranked)
    )
