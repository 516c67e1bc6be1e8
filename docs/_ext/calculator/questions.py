"""What is asked of the memory model, and its answers as expressions of what the form says."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import Struct

from calculator import layers, merged, numbers
from calculator.family import Family
from calculator.paths import Explorer, folded, leaves
from calculator.stand_ins import forgetter, standing_in
from tuner.memory.estimate import StepMemory
from tuner.memory.rollout.capacity import rollout_memory, start_doubt, start_problems
from tuner.workload import Phase, Workload

PHASES = (
    Phase.ROLLOUT,
    Phase.OLD_LOG_PROB,
    Phase.REF_LOG_PROB,
    Phase.UPDATE_ACTOR,
    Phase.UPDATE_WEIGHTS,
    Phase.WAKE_UP,
)
#: Of the rollout engine.
CAPACITIES = ("kv_bytes", "kv_bytes_per_token", "kv_tokens", "concurrent_sequences", "running_sequences")

Expressions = dict[tuple[str, ...], Any]
"""Expressions by what they are: ``("update_actor", "forward_end", "activations", "batch", "bytes")``."""


class Traced(Struct, frozen=True, kw_only=True, eq=False):
    """The memory model as expressions."""

    expressions: Expressions
    family: Family


def ask() -> Traced:
    """Trace the memory model."""
    family = Family()
    found = [_expressions(family, count) for count in (layers.FEW, layers.MANY)]
    few, many = found
    if list(few) != list(many):
        raise numbers.NotWritableError("what there is depends on the number of layers")
    unifier = layers.Unifier()
    expressions = {name: unifier.unify(few[name], many[name]) for name in few}
    return Traced(expressions=expressions, family=family)


def _expressions(family: Family, count: int) -> Expressions:
    forget = forgetter()
    explorer = family.traced(count, forget)
    found: Expressions = {}
    try:
        with standing_in(explorer, family.cached_layers):
            workload = family.workload()
            for phase in PHASES:
                found |= _phase(explorer, workload, phase)
            found |= _texts(explorer, "problem", lambda: start_problems(workload))
            found |= _texts(explorer, "doubt", lambda: start_doubt(workload))
            found |= _capacity(explorer, workload)
    finally:
        forget()
    return found


def _phase(explorer: Explorer, workload: Workload, phase: Phase) -> Expressions:
    """Whether a step has a phase, and the terms of each of its moments."""
    tree = explorer.tree(lambda: StepMemory(workload).phase(phase))
    found: Expressions = {(phase.value,): merged.flag(merged.mapped(tree, lambda leaf: leaf is not None))}
    moments = merged.moments(merged.mapped(tree, lambda leaf: () if leaf is None else leaf.moments))
    for moment in moments:
        for term in moment.terms:
            name = (phase.value, moment.name, term.item.value, term.name)
            ends = {"bytes": term.bytes, "low": term.low, "high": term.high}
            found |= {(*name, end): numbers.as_number(size) for end, size in ends.items()}
    return found


def _texts(explorer: Explorer, name: str, program: Callable[[], Any]) -> Expressions:
    """Whether each of the texts is said that a program may say."""
    tree = merged.mapped(explorer.tree(program), lambda leaf: leaf if isinstance(leaf, tuple) else (leaf,))
    texts = dict.fromkeys(text for leaf in leaves(tree) for text in leaf if text is not None)
    return {(name, text): merged.flag(merged.mapped(tree, partial(_says, text))) for text in texts}


def _says(text: str, said: tuple[str, ...]) -> bool:
    return text in said


def _capacity(explorer: Explorer, workload: Workload) -> Expressions:
    """What the rollout engine holds, and the memory of the card."""
    tree = explorer.tree(lambda: rollout_memory(workload))
    found: Expressions = {
        ("rollout", name): numbers.as_number(folded(tree, attrgetter(name))) for name in CAPACITIES
    }
    card = explorer.tree(lambda: workload.cluster.gpu.capacity_bytes)
    return {**found, ("capacity",): numbers.as_number(folded(card, lambda leaf: leaf))}
