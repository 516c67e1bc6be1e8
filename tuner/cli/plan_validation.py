"""Measures the first settings of a plan, one after the other, by the way of ``tuner validate``."""

import os
import time
from collections.abc import Mapping, Sequence

from tuner.cli.validation import Request, on_all_nodes
from tuner.consultation.planning import PlanAnswer
from tuner.errors import InputError
from tuner.language import _
from tuner.plan.corrections import MeasuredPlan
from tuner.validate.children import here
from tuner.validate.children.call import Setup
from tuner.validate.finalists import measured_plan, parts_to_run
from tuner.validate.nodes import torchrun
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import workers
from tuner.validate.report.schema import ValidationFile

DEVICE = "cuda"
_MOST = 3  # settings: each has a share of the budget
#: What a finalist is given of the budget for its passes, and for the engine, which starts slowly.
_WEIGHTS: Mapping[ValidationPart, int] = {ValidationPart.TRAINING_STEP: 2, ValidationPart.ROLLOUT: 3}
#: What they take where a model is small: 19 to 29 s and 72 to 97 s of a 1.5B on two H200 (2026-11-30).
_NEEDED_S: Mapping[ValidationPart, float] = {ValidationPart.TRAINING_STEP: 40.0, ValidationPart.ROLLOUT: 90.0}


def is_idle(ray: str | None) -> bool:
    """Whether another process of this node plans and measures: the first that torchrun started here."""
    launch = None if ray is not None else torchrun.launched(os.environ)
    return launch is not None and launch.local_rank > 0


def expect_measurable(ray: str | None) -> None:
    """Refuse what cannot be measured, before a plan is made.

    Raises:
        InputError: there is no GPU here.
    """
    if ray is not None:
        return  # the nodes of the cluster are asked
    missing = here.look(Setup(device=DEVICE), workers()).missing
    if missing:
        raise InputError(
            _("--validate: nothing can be measured here: {missing}").format(missing="; ".join(missing))
        )


def corrected(
    answer: PlanAnswer, budget_s: float, ray: str | None, *, verbose: bool = False
) -> MeasuredPlan | None:
    """The settings ranked by what their passes and engines took; None on nodes that print nothing.

    Raises:
        TunerError: nothing can run here.
    """
    settings, began = answer.plan.settings, time.monotonic()
    parts = parts_to_run(settings, finalists(answer))
    files: dict[int, Sequence[ValidationFile]] = {}
    for turn, place in enumerate(parts):
        spent_s = time.monotonic() - began
        request = Request(
            config=answer.asked.source,
            overrides=(*answer.asked.words, *settings[place].overrides),
            premises=answer.asked.premises,
            budget_s=_share(list(parts.values())[turn:], max(0.0, budget_s - spent_s)),
            parts=parts[place],
            processes=None,
            memory_limit_bytes=None,
            device=DEVICE,
            verbose=verbose,
            turn=turn,
            seconds_alone=True,
        )
        files[place] = on_all_nodes(request, ray)
        if any(file.validation.interrupted for file in files[place]):
            break
    if not any(files.values()):
        return None
    return measured_plan(settings, files, budget_s=budget_s, spent_s=time.monotonic() - began)


def _share(coming: Sequence[Sequence[ValidationPart]], left_s: float) -> float:
    """Seconds that the first of the finalists that are left is given of the time that is left.

    Its part by weight, but no less than it is likely to need: in a short time the first one is measured as a
    whole, and not each of them by half.
    """
    weights = [sum(_WEIGHTS[part] for part in parts) for parts in coming]
    needed = sum(_NEEDED_S[part] for part in coming[0])
    return max(left_s * weights[0] / sum(weights), min(left_s, needed))


def finalists(answer: PlanAnswer) -> tuple[int, ...]:
    """The places of the settings that are measured: those that tie for the first rank, else the first."""
    settings = answer.plan.settings
    wanted = answer.plan.undecided or settings[:_MOST]
    return tuple(place for place, setting in enumerate(settings) if setting in wanted)
