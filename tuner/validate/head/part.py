"""The output-head part: every implementation at this model's sizes, its peak beside the memory model's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

from tuner import batching
from tuner.timing.head import head_seconds
from tuner.validate.children.outcome import Failed
from tuner.validate.children.servers import Worker
from tuner.validate.head.judged import judge_heads
from tuner.validate.head.settings import (
    Figures,
    HeadFigures,
    HeadPass,
    HeadShape,
    HeadWork,
    Implementation,
    Scaled,
    Way,
    at_size,
)
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE
from tuner.validate.session import CALL_SHARE, Options, OutOfBudgetError, Planned, Session, Subject
from tuner.workload import HeadKind, Phase, Workload

WORKER = Worker.beside(__package__, "worker.measure", "measure")
WORKERS: tuple[Worker, ...] = (WORKER,)
# What each token takes beside logits: labels, sums, log-probabilities, entropies and their gradients.
# The memory model counts none of it; of a fused head of some MiB it is more than the tolerance.
_NUMBERS_PER_TOKEN = 80
_EXPECTED_S = 25.0  # kernels of all implementations are compiled
_CPU_EXPECTED_S = 40.0  # Triton's interpreter
_TITLES = {HeadPass.FORWARD: "the forward pass alone", HeadPass.BOTH: "forward and backward pass"}


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process that runs all of them."""
    if options.device == "cpu":
        return (Planned(title="output head: every implementation on a tiny shape", seconds=_CPU_EXPECTED_S),)
    shape = update_shape(subject.workload)
    title = f"output head: {shape.tokens:,} tokens, hidden {shape.hidden:,}, vocabulary {shape.vocab:,}"
    return (Planned(title=title, seconds=_EXPECTED_S),)


def run(session: Session) -> None:
    """Measure, compare with the memory model, judge what changes the head."""
    workload = session.subject.workload
    (planned,) = plan(session.subject, session.options)
    work = HeadWork(
        shape=update_shape(workload),
        forward_tokens=log_prob_tokens(workload),
        dtype=workload.actor.head.logits_dtype,
        wanted=wanted_ways(session.subject),
        seconds=CALL_SHARE * session.left_s,
    )
    expected = min(planned.seconds, session.left_s)  # it ends by itself, with fewer implementations
    found = session.call(WORKER, work, title=planned.title, expected_s=expected)
    if isinstance(found, Failed):
        session.note(f"Nothing was measured of the output head: {found.message}.")
        return
    _note(session, found, work)
    for measurement in measurements(found, work, workload):
        session.add(measurement)
    for judged in judge_heads(session.subject, found, work):
        session.judge(judged)
    if found.left_out:
        raise OutOfBudgetError(f"no time for {_shortened(found.left_out)}")


def _shortened(names: Sequence[str]) -> str:
    """The first two, and how many more; names have commas."""
    shown = "; ".join(names[:2])
    return shown if len(names) <= 2 else f"{shown}; and {len(names) - 2} more"


def update_shape(workload: Workload) -> HeadShape:
    """Of the update's largest micro-batch on one GPU."""
    model = workload.model
    tokens = batching.micro_batch_tokens(workload.batch, workload.actor_update)
    return HeadShape(tokens=tokens, hidden=model.hidden, vocab=model.vocab)


def log_prob_tokens(workload: Workload) -> int:
    """Of the log-probability pass's; the update's where the step has no such pass."""
    step_pass = workload.pass_of(Phase.OLD_LOG_PROB) or workload.actor_update
    return batching.micro_batch_tokens(workload.batch, step_pass)


def wanted_ways(subject: Subject) -> tuple[Way, ...]:
    """What is configured, then what recommendations propose."""
    heads = [subject.workload.actor.head]
    heads += [
        found.finding.proposal.actor.head
        for found in subject.advice.recommendations
        if found.finding.proposal is not None
    ]
    actor = subject.workload.actor
    passes = [one_pass for one_pass in (actor.update, actor.log_prob) if one_pass is not None]
    ways = [Way.of(head, entropy=one_pass.entropy) for head in heads for one_pass in passes]
    return tuple(dict.fromkeys(way for way in ways if way.head.kind is not HeadKind.VALUE))


def _note(session: Session, found: HeadFigures, work: HeadWork) -> None:
    if session.options.device == "cpu":
        shape = found.shape
        session.note(
            f"On a CPU the output head is checked with {shape.tokens} tokens, hidden {shape.hidden} and "
            f"vocabulary {shape.vocab} in {found.dtype}: right or wrong, no bytes and no seconds."
        )
    missing = [each for each in found.found if each.missing]
    for each in missing:
        session.note(f"Output head, {each.name}: not measured ({each.missing}).")
    for each in found.found:
        if each.foreign and each.wrong:
            session.note(
                f"Output head, {each.name}: {len(each.wrong)} of {len(each.errors)} results are further off "
                "than their limits; the trainer does not call it, so it refutes nothing."
            )
    scaled = [each.name for each in found.found if each.sizes and each.sizes[0].tokens != work.shape.tokens]
    if scaled and session.options.device != "cpu":
        session.note(
            f"Output head, {'; '.join(scaled)}: {work.shape.tokens:,} tokens do not fit, figures are "
            "extrapolated from fewer."
        )


def measurements(found: HeadFigures, work: HeadWork, workload: Workload) -> Iterator[Measurement]:
    """Of all implementations: whether they are right, peaks, seconds."""
    for each in found.found:
        if each.errors:
            yield _right(each)
        tokens = work.shape.tokens
        if work.wanted and each.way in work.wanted:
            yield from _passes(each, each.forward, work.forward_tokens, workload, "log_prob_")
        yield from _passes(each, each.sizes, tokens, workload, "")


def slug(name: str) -> str:
    """A name as measurements have it: ``eager-chunked``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _right(each: Implementation) -> Measurement:
    """Of another package's kernel it is measured and not claimed: nothing of this job depends on it."""
    right = len(each.errors) - len(each.wrong)
    claimed = None if each.foreign else 1.0
    return Measurement(
        name=f"output_head.{slug(each.name)}.right",
        what=f"{each.name}: results within their limits of float64",
        unit="share",
        measured=right / len(each.errors),
        low=claimed,
        high=claimed,
        details={name: error if isfinite(error) else str(error) for name, error in each.errors.items()}
        | {f"{name}_limit": limit for name, limit in each.limits.items() if name in each.errors},
    )


def _passes(
    each: Implementation, sizes: tuple[Figures, ...], tokens: int, workload: Workload, prefix: str
) -> Iterator[Measurement]:
    """Peak and seconds of the forward pass and of both."""
    label = f"output_head.{slug(each.name)}.{prefix}"
    for one_pass in HeadPass:
        peak = at_size(
            tokens, [(one.tokens, one.peak_bytes[one_pass]) for one in sizes if one_pass in one.peak_bytes]
        )
        if peak is not None:
            name = "peak" if one_pass is HeadPass.BOTH else "forward_peak"
            yield _peak(each, peak, replace(update_shape(workload), tokens=tokens), one_pass, label + name)
        taken = at_size(
            tokens, [(one.tokens, one.seconds[one_pass]) for one in sizes if one_pass in one.seconds]
        )
        if taken is not None:
            rounds = sizes[0].rounds
            yield _seconds(each, taken, tokens, workload, one_pass, f"{label}{one_pass.value}", rounds)


def _peak(each: Implementation, peak: Scaled, shape: HeadShape, one_pass: HeadPass, name: str) -> Measurement:
    numbers = _NUMBERS_PER_TOKEN * shape.tokens
    details: dict[str, float | int | str | bool] = {"tokens": shape.tokens}
    predicted = tolerance = None
    if each.way is not None:
        predicted = each.way.peak_bytes(shape, training=one_pass is HeadPass.BOTH)
        tolerance = PEAK_TOLERANCE
        if numbers > PEAK_TOLERANCE * peak.value:
            tolerance = numbers / peak.value
            details["tolerance_is"] = f"{_NUMBERS_PER_TOKEN} bytes per token, which the prediction leaves out"
    return Measurement(
        name=name,
        what=f"{each.name}: peak of {_TITLES[one_pass]} beyond its inputs, results included",
        unit="bytes",
        measured=peak.value,
        predicted=predicted,
        tolerance=tolerance,
        extrapolated=peak.how,
        details=details,
    )


def _seconds(
    each: Implementation,
    taken: Scaled,
    tokens: int,
    workload: Workload,
    one_pass: HeadPass,
    name: str,
    rounds: int,
) -> Measurement:
    """Beside the time model's, which claims no accuracy."""
    predicted = None
    if each.way is not None:
        predicted = head_seconds(
            each.way.head,
            tokens=tokens,
            hidden=workload.model.hidden,
            vocab=workload.model.vocab,
            gpu=workload.cluster.gpu,
            dtype=each.way.head.logits_dtype,
            entropy=each.way.entropy,
            trains=one_pass is HeadPass.BOTH,
        )
    return Measurement(
        name=name,
        what=f"{each.name}: {_TITLES[one_pass]}, median of interleaved rounds",
        unit="seconds",
        measured=taken.value,
        predicted=predicted,
        extrapolated=taken.how,
        details={"tokens": tokens, "rounds": rounds},
    )
