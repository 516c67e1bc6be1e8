"""Measures the first settings of a plan, one after the other, by the way of ``tuner validate``."""

from collections.abc import Sequence

from tuner.cli.validation import Request, on_all_nodes
from tuner.consultation.planning import PlanAnswer
from tuner.errors import InputError
from tuner.language import _
from tuner.plan.corrections import MeasuredPlan
from tuner.validate.children import here
from tuner.validate.children.call import Setup
from tuner.validate.finalists import measured_plan
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import workers
from tuner.validate.report.schema import ValidationFile

DEVICE = "cuda"
_MOST = 3  # settings: each has a share of the budget
_PARTS = (ValidationPart.TRAINING_STEP, ValidationPart.ROLLOUT)


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


def corrected(answer: PlanAnswer, budget_s: float, ray: str | None) -> MeasuredPlan | None:
    """The settings ranked by what their passes and engines took; None on nodes that print nothing.

    Raises:
        TunerError: nothing can run here.
    """
    places = finalists(answer)
    files: dict[int, Sequence[ValidationFile]] = {}
    for turn, place in enumerate(places):
        request = Request(
            config=answer.asked.source,
            overrides=(*answer.asked.words, *answer.plan.settings[place].overrides),
            premises=answer.asked.premises,
            budget_s=budget_s / len(places),
            parts=_PARTS,
            processes=None,
            memory_limit_bytes=None,
            device=DEVICE,
            verbose=False,
            turn=turn,
        )
        files[place] = on_all_nodes(request, ray)
        if any(file.validation.interrupted for file in files[place]):
            break
    if not any(files.values()):
        return None
    return measured_plan(answer.plan.settings, files)


def finalists(answer: PlanAnswer) -> tuple[int, ...]:
    """The places of the settings that are measured: those that tie for the first rank, else the first."""
    settings = answer.plan.settings
    wanted = answer.plan.undecided or settings[:_MOST]
    return tuple(place for place, setting in enumerate(settings) if setting in wanted)
