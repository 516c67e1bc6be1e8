"""What our head and the skip bring in verl's worker, and whether the results stay what they were.

Where it is claimed that results agree, the limit is what rounding to 16 bits explains.
"""

from collections.abc import Iterator, Mapping
from math import expm1
from statistics import median
from types import MappingProxyType

from tuner.language import _
from tuner.rules.case import LEAST_GAIN
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import peak_change
from tuner.validate.verl_update.figures import compared_measurements, has_seconds
from tuner.validate.verl_update.plan import PlannedUpdate, left_of, seconds
from tuner.validate.verl_update.settings import SHARES, EngineUpdate, UpdateFigures

_ROUNDING = 2.0**-8  # of a bfloat16 to the nearest, relative to its size
# verl's logits are rounded as they are computed and as they are divided by the temperature; a log-probability
# is the difference of one of them and of a sum that is no further off than the worst of them.
_ROUNDINGS_OF_A_LOGIT = 2 * 2
# Without flash-attn verl takes the logarithm of the softmax in 16 bits: the sum's logarithm, then the result.
_ROUNDINGS_OF_A_RESULT = 2
# The clipped objective grows no faster than this with the ratio: where the advantage is negative it follows
# the ratio up to verl's ``clip_ratio_c``. Source: verl 0.9.1 ``trainer/ppo/core_algos.py``.
_STEEPEST = 3.0
# The gradients of every micro-batch are rounded on either side; four random ones together are about half as
# long as their lengths add up to.
_GRAD_NORM_LIMIT = 2 * 2 * _ROUNDING


def head_measurements(
    update: PlannedUpdate, theirs: EngineUpdate, ours: EngineUpdate
) -> Iterator[Measurement]:
    """What our head makes of the update, and how far its results are from those of verl's."""
    yield from _results(update, theirs, ours)
    first, second = theirs.of(), ours.of()
    yield from _peak_change(update, first, second)
    yield from _saved(
        "tuner_head",
        _("what the head of tuner.inside_verl saves of the update's seconds"),
        (seconds(update.theirs).seconds, seconds(update.ours).seconds),
        (first, second),
    )


def skip_measurements(update: PlannedUpdate, result: EngineUpdate) -> Iterator[Measurement]:
    """The update without the responses that have no advantage, beside the whole one."""
    whole = result.of()
    for share in SHARES:
        one, planned = result.of(share=share, skip=True), left_of(update.theirs, share)
        name, text = (
            f"skip_{share * 100:.0f}",
            _("{share:.0%} without advantage left out").format(share=share),
        )
        before = result.of(share=share)
        yield _grad_norm(
            name,
            _("{what}: difference of the gradient's norm to verl's own update").format(what=text),
            (before.grad_norm, one.grad_norm),
            limit=_GRAD_NORM_LIMIT,
            details={"left_out": one.left_out or 0.0, "loss_difference": one.loss - before.loss},
        )
        yield from compared_measurements(name, text, planned, one)
        yield from _saved(
            name,
            _("{what}: what that saves of the update's seconds").format(what=text),
            (seconds(update.theirs).seconds, seconds(planned).seconds),
            (whole, one),
            most=share,
        )


def _results(update: PlannedUpdate, theirs: EngineUpdate, ours: EngineUpdate) -> Iterator[Measurement]:
    differences = [abs(one - two) for one, two in zip(theirs.log_probs, ours.log_probs, strict=True)]
    first, second, limit = theirs.of(), ours.of(), _log_prob_limit(update, theirs)
    yield Measurement(
        name="verl_update.tuner_head.log_probs",
        what=_("largest difference of a log-probability between verl's head and that of tuner.inside_verl"),
        unit="number",
        measured=max(differences),
        details={"mean": sum(differences) / len(differences), "tokens": len(differences)},
        low=None if limit is None else 0.0,
        high=limit,
    )
    yield Measurement(
        name="verl_update.tuner_head.loss",
        what=_("difference of the loss between both heads"),
        unit="number",
        measured=abs(second.loss - first.loss),
        details={"verl": first.loss, "tuner": second.loss},
        low=None if limit is None else 0.0,
        high=None if limit is None else _STEEPEST * theirs.mean_advantage * expm1(limit),
    )
    yield _grad_norm(
        "tuner_head",
        _("difference of the gradient's norm between both heads"),
        (first.grad_norm, second.grad_norm),
        limit=None if limit is None else expm1(limit) + _GRAD_NORM_LIMIT,  # it is a multiple of the ratio
    )


def _log_prob_limit(update: PlannedUpdate, theirs: EngineUpdate) -> float | None:
    """How far a log-probability may be off by rounding; None where verl's head shows no logits."""
    if theirs.largest_logit is None:
        return None
    largest = theirs.largest_logit / update.theirs.case.temperature
    result = max(map(abs, theirs.log_probs)) if theirs.rounded else 0.0
    return _ROUNDING * (_ROUNDINGS_OF_A_LOGIT * largest + _ROUNDINGS_OF_A_RESULT * result)


def _grad_norm(
    name: str,
    what: str,
    norms: tuple[float, float],
    *,
    limit: float | None,
    details: Mapping[str, float] = MappingProxyType({}),
) -> Measurement:
    before, after = norms
    return Measurement(
        name=f"verl_update.{name}.grad_norm",
        what=what,
        unit="share",
        measured=abs(after / before - 1),
        details={"before": before, "after": after, **details},
        low=None if limit is None else 0.0,
        high=limit,
    )


def _peak_change(update: PlannedUpdate, first: UpdateFigures, second: UpdateFigures) -> Iterator[Measurement]:
    if first.figures.allocated_before_bytes is None:
        return
    one, two = update.theirs.compared(first.figures), update.ours.compared(second.figures)
    what = _("what the head of tuner.inside_verl makes of the update's peak")
    yield peak_change("verl_update.tuner_head.peak_change", what, one, two)


def _saved(
    name: str,
    what: str,
    modelled: tuple[float, float],
    figures: tuple[UpdateFigures, UpdateFigures],
    *,
    most: float = 1.0,
) -> Iterator[Measurement]:
    """The share of an update's seconds that a change saves; claimed where it is modelled to save any.

    Args:
        name: of the change among the figures.
        what: the same to read.
        modelled: seconds without and with the change.
        figures: what was measured without and with it.
        most: that can be saved: no more than what is left out.
    """
    if not all(has_seconds(one) for one in figures):
        return
    before, after = (one.figures.seconds for one in figures)
    predicted = 1 - modelled[1] / modelled[0]
    spread = max(max(repetitions) - min(repetitions) for repetitions in (before, after)) / median(before)
    claimed = predicted > LEAST_GAIN
    yield Measurement(
        name=f"verl_update.{name}.saved",
        what=what,
        unit="share",
        measured=1 - median(after) / median(before),
        predicted=predicted,
        low=0.0 if claimed else None,
        high=most + spread if claimed else None,
        details={"spread": spread},
    )
