"""What implementations of the output head came to, as figures of the report."""

import re
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

from tuner.language import N_, _
from tuner.timing.head import head_seconds
from tuner.validate.head.settings import (
    HeadFigures,
    HeadPass,
    HeadShape,
    HeadWork,
    ImplementationFigures,
    Scaled,
    SizeFigures,
    at_size,
    update_shape,
)
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE
from tuner.workload import Workload
from tuner.workload.head import head_label

# What each token takes beside logits: labels, sums, log-probabilities, entropies and their gradients.
# The memory model counts none of it; of a fused head of some MiB it is more than the tolerance.
_NUMBERS_PER_TOKEN = 80
_TITLES = {HeadPass.FORWARD: N_("the forward pass alone"), HeadPass.BOTH: N_("forward and backward pass")}


def measurements(figures: HeadFigures, work: HeadWork, workload: Workload) -> Iterator[Measurement]:
    """What was measured of every implementation: whether it is right, its peaks, its seconds."""
    for implementation in figures.found:
        if implementation.errors:
            yield _right(implementation)
        tokens = work.shape.tokens
        if work.wanted and implementation.way in work.wanted:
            yield from _passes(
                implementation, implementation.forward, work.forward_tokens, workload, "log_prob_"
            )
        yield from _passes(implementation, implementation.sizes, tokens, workload, "")


def slug(name: str) -> str:
    """A name as measurements have it: ``eager-chunked``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _right(implementation: ImplementationFigures) -> Measurement:
    """How much of its results is right, which is claimed of the trainer's and our kernels alone."""
    right = len(implementation.errors) - len(implementation.wrong)
    claimed = None if implementation.foreign else 1.0
    return Measurement(
        name=f"output_head.{slug(implementation.name)}.right",
        what=_("{implementation}: results within their limits of float64").format(
            implementation=head_label(implementation.name)
        ),
        unit="share",
        measured=right / len(implementation.errors),
        low=claimed,
        high=claimed,
        details={
            name: error if isfinite(error) else str(error) for name, error in implementation.errors.items()
        }
        | {
            f"{name}_limit": limit
            for name, limit in implementation.limits.items()
            if name in implementation.errors
        },
    )


def _passes(
    implementation: ImplementationFigures,
    sizes: tuple[SizeFigures, ...],
    tokens: int,
    workload: Workload,
    prefix: str,
) -> Iterator[Measurement]:
    """Peak and seconds of the forward pass and of both."""
    label = f"output_head.{slug(implementation.name)}.{prefix}"
    for one_pass in HeadPass:
        peak = at_size(
            tokens, [(one.tokens, one.peak_bytes[one_pass]) for one in sizes if one_pass in one.peak_bytes]
        )
        if peak is not None:
            name = "peak" if one_pass is HeadPass.BOTH else "forward_peak"
            yield _peak(
                implementation, peak, replace(update_shape(workload), tokens=tokens), one_pass, label + name
            )
        taken = at_size(
            tokens, [(one.tokens, one.seconds[one_pass]) for one in sizes if one_pass in one.seconds]
        )
        if taken is not None:
            rounds = sizes[0].rounds
            yield _seconds(
                implementation, taken, tokens, workload, one_pass, f"{label}{one_pass.value}", rounds
            )


def _peak(
    implementation: ImplementationFigures, peak: Scaled, shape: HeadShape, one_pass: HeadPass, name: str
) -> Measurement:
    numbers = _NUMBERS_PER_TOKEN * shape.tokens
    details: dict[str, float | int | str | bool] = {"tokens": shape.tokens}
    predicted = tolerance = None
    if implementation.way is not None:
        predicted = implementation.way.peak_bytes(shape, training=one_pass is HeadPass.BOTH)
        tolerance = PEAK_TOLERANCE
        if numbers > PEAK_TOLERANCE * peak.value:
            tolerance = numbers / peak.value
            details["tolerance_is"] = _(
                "{numbers_per_token} bytes per token, which the prediction leaves out"
            ).format(numbers_per_token=_NUMBERS_PER_TOKEN)
    return Measurement(
        name=name,
        what=_("{implementation}: peak of {direction} beyond its inputs, results included").format(
            implementation=head_label(implementation.name), direction=_(_TITLES[one_pass])
        ),
        unit="bytes",
        measured=peak.value,
        predicted=predicted,
        tolerance=tolerance,
        extrapolated=peak.how,
        details=details,
    )


def _seconds(
    implementation: ImplementationFigures,
    taken: Scaled,
    tokens: int,
    workload: Workload,
    one_pass: HeadPass,
    name: str,
    rounds: int,
) -> Measurement:
    """Beside the time model's, which claims no accuracy."""
    predicted = None
    if implementation.way is not None:
        predicted = head_seconds(
            implementation.way.head,
            tokens=tokens,
            hidden=workload.model.hidden,
            vocab=workload.model.vocab,
            gpu=workload.cluster.gpu,
            dtype=implementation.way.head.logits_dtype,
            entropy=implementation.way.entropy,
            trains=one_pass is HeadPass.BOTH,
        )
    return Measurement(
        name=name,
        what=_("{implementation}: {direction}, median of interleaved rounds").format(
            implementation=head_label(implementation.name), direction=_(_TITLES[one_pass])
        ),
        unit="seconds",
        measured=taken.value,
        predicted=predicted,
        extrapolated=taken.how,
        details={"tokens": tokens, "rounds": rounds},
    )
