"""The parts of a validation: their modules, and what each would run."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tuner.validate.parts import Part
from tuner.validate.session import NotHereError, Options, Planned, Subject

MODULES = {
    Part.MACHINE: "tuner.validate.machine.part",
    Part.OUTPUT_HEAD: "tuner.validate.head.part",
    Part.TRAINING_STEP: "tuner.validate.training.part",
    Part.ROLLOUT: "tuner.validate.rollout.part",
    Part.COLLECTIVES: "tuner.validate.collectives.part",
    Part.SEARCH: "tuner.validate.search.part",
}


@dataclass(frozen=True, kw_only=True)
class PartPlan:
    """What a part would run, or why it runs nothing."""

    part: Part
    planned: tuple[Planned, ...] = ()
    reason: str = ""  # why it is left out; empty where it is not


def plan(subject: Subject, options: Options, parts: Sequence[Part]) -> tuple[PartPlan, ...]:
    """What each part would run, in the order of the run."""
    return tuple(_plan(subject, options, part) for part in Part if part in parts)


def _plan(subject: Subject, options: Options, part: Part) -> PartPlan:
    module = module_of(part)
    if module is None:
        return PartPlan(part=part, reason="this release has no such part")
    try:
        planned = module.plan(subject, options)
    except NotHereError as reason:
        return PartPlan(part=part, reason=str(reason))
    return PartPlan(part=part, planned=planned)


def module_of(part: Part) -> Any:
    """The part's module, imported now; None where there is none."""
    return None if find_spec(MODULES[part]) is None else import_module(MODULES[part])
