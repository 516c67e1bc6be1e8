"""The verdict in words: whether the job starts and fits, where it is tightest, and by how much."""

from collections.abc import Iterator, Sequence

from tuner.advise import Advice, Condition, Verdict
from tuner.consultation.verdicts import is_node_too_large
from tuner.hardware import Cluster
from tuner.inputs.user_input import MissingConfiguration
from tuner.language import _
from tuner.memory import Estimate
from tuner.render.bars import PARTS
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Headline, Paragraph, Part
from tuner.render.left_out import seconds_without, without
from tuner.render.lengths import average
from tuner.render.numbers import gib, peak, percent
from tuner.render.refusals import refusal_codes, refusal_parts
from tuner.render.releases import against, refused_text
from tuner.render.terminal import plain
from tuner.render.verdict_words import judgement_text, marked_word, memory_line, unsaid_reasons
from tuner.render.words import (
    clauses,
    full_stop,
    listed,
    sentence,
)
from tuner.trainers.protocol import LeftOut

_LARGEST = 3  # parts named when the job does not fit


def verdict(
    advice: Advice,
    left_out: Sequence[LeftOut] = (),
    *,
    node_said: bool = True,
    missing: MissingConfiguration | None = None,
    full: bool = True,
) -> Iterator[Part]:
    """The verdict in a line, with what refuses the launch; then the reasons, with what lifts them.

    Args:
        advice: the answer.
        left_out: parts of the job that the verdict does not count.
        node_said: whether somebody says that such nodes are there, and not the configuration alone.
        missing: the configuration that the launch names and that is not here.
        full: with what some of the releases alone refuse that the launch may be of.
    """
    cluster = advice.workload.cluster
    nodes = is_node_too_large(cluster) and not node_said
    text = memory_text(advice, left_out)
    if advice.is_refused:
        text = _("refused by {codes}").format(codes=refusal_codes(advice))
    elif missing is not None:
        text = user_text(_missing_text(missing))
    elif nodes:
        text = too_large_a_node(cluster)
    elif advice.refusals and advice.verdict is Verdict.CANNOT_SAY:
        text = refused_text(advice.refusals)
    yield Headline(word=marked_word(advice.verdict), about=subject(advice), text=text)
    if advice.validates_only:
        only = (
            _("generates only: no update runs")
            if advice.generates_only
            else _("validates only: no update runs")
        )
        yield Paragraph(text=only, level=1)
    yield from refusal_parts(advice, full=full)
    yield from without_the_rest(advice, missing)
    if nodes:
        text = _("Where larger nodes are there, --gpus-per-node {gpus} says so.")
        yield Paragraph(text=text.format(gpus=cluster.gpus_per_node), level=1)
    told = full or advice.is_refused or advice.verdict is Verdict.CANNOT_SAY
    if (advice.refusals and told) or missing is not None or nodes:
        yield Paragraph(text=_otherwise(advice, left_out, known=missing is None), level=1)
    yield from _reasons(advice, left_out)


def memory_text(advice: Advice, left_out: Sequence[LeftOut] = ()) -> str:
    """What is needed, what there is and one condition; then what is not counted."""
    return memory_line(advice.memory, advice.estimate, advice.releases) + _uncounted(advice, left_out)


def without_the_rest(advice: Advice, missing: MissingConfiguration | None) -> Iterator[Paragraph]:
    """What follows from a configuration that is not here."""
    if missing is None:
        return
    text = _(
        "What follows is said of the trainer's own configuration with what the launch itself sets, and may "
        "not hold of the job: there is nothing to paste. Give the file, or what a run has left of it "
        "(.hydra/config.yaml)."
    )
    if advice.refusals or advice.verdict is Verdict.RAN_OUT:  # no headline has it
        text = f"{sentence(_missing_text(missing))} {text}"
    yield Paragraph(text=user_text(text), level=1)


def _missing_text(missing: MissingConfiguration) -> str:
    from tuner.inputs.missing_configuration import missing_text  # of few launches

    return plain(missing_text(missing))


def subject(advice: Advice) -> str:
    """The model and the cards."""
    cluster = advice.workload.cluster
    return _("{model} on {gpus} x {gpu}").format(
        model=user_text(advice.workload.model.name), gpus=cluster.gpus, gpu=user_text(cluster.gpu.name)
    )


def too_large_a_node(cluster: Cluster) -> str:
    """Why the job does not start on the machines that the card comes in."""
    return _("it wants {gpus} GPUs on one node, and the largest known ones have {most} {gpu}").format(
        most=cluster.gpu.per_node, gpu=user_text(cluster.gpu.name), gpus=cluster.gpus_per_node
    )


def _uncounted(advice: Advice, left_out: Sequence[LeftOut]) -> str:
    if advice.memory_condition is Condition.ENGINE:  # the line is about that
        return ""
    return without(left_out, fits=advice.memory_verdict is not Verdict.DOES_NOT_FIT)


def _otherwise(advice: Advice, left_out: Sequence[LeftOut], *, known: bool) -> str:
    """What memory says of the job that nothing stops, so that nobody fixes it twice."""
    of_memory = judgement_text(advice.memory, advice.estimate, advice.releases) + _uncounted(advice, left_out)
    if any(refusal.stands and refusal.is_sure for refusal in advice.refusals):
        text = _("Nothing is known to lift all of it. As it is read: {of_memory}.")
    elif advice.refusals:
        text = _("With that lifted: {of_memory}.")
    elif not known:
        text = _("As far as it is known: {of_memory}.")
    else:
        text = _("On such nodes: {of_memory}.")
    return text.format(of_memory=of_memory)


def _reasons(advice: Advice, left_out: Sequence[LeftOut]) -> Iterator[Paragraph]:
    """How far the peak is from the card, what takes most where it is beyond, and what else is not sure."""
    estimate = advice.estimate
    if not estimate.phases:  # nothing of the job is modelled
        return
    yield Paragraph(text=f"{full_stop(_distance(advice))}{seconds_without(left_out)}", level=1)
    if estimate.worst.peak_bytes > estimate.capacity_bytes:
        yield Paragraph(text=_largest_parts(estimate), level=1)
    for reason in unsaid_reasons(advice.memory, estimate):
        yield Paragraph(text=user_text(reason), level=1)


def _distance(advice: Advice) -> str:
    """The expected peak with its interval, and what is free beside it or too much."""
    estimate, condition = advice.estimate, advice.memory_condition
    if condition is Condition.RELEASE:
        return against(advice)
    worst, capacity = estimate.worst, estimate.capacity_bytes
    where = _("{phase} is expected at {peak}").format(
        phase=worst.phase.value, peak=peak(worst.peak_bytes, worst.interval)
    )
    free = capacity - worst.peak_bytes
    short = [] if advice.mean_tokens is None else [average(advice)]
    if free < 0:
        return clauses([_("{where}, {free} too much").format(where=where, free=gib(-free)), *short])
    if condition is Condition.MEAN_LENGTH:
        return clauses([where, *short])
    return clauses([where, _free(advice, free), *_doubtful(estimate)])


def _free(advice: Advice, free: int) -> str:
    """What stays free beside the expected peak and at least, and whether it is less than the headroom."""
    capacity, least = (
        advice.estimate.capacity_bytes,
        advice.estimate.capacity_bytes - advice.estimate.high_bytes,
    )
    text = _("{free} ({share}) stay free").format(free=gib(free), share=percent(free / capacity))
    if least >= 0:
        text = _("{text}, {least} at least").format(text=text, least=gib(least))
    if free >= capacity * advice.headroom:
        return text
    return _("{text}, less than the headroom of {headroom}").format(
        text=text, headroom=percent(advice.headroom)
    )


def _doubtful(estimate: Estimate) -> list[str]:
    """The other phases that exceed the card at the high end of their intervals."""
    words = [
        _("{phase} may take up to {most}").format(phase=phase.phase.value, most=gib(phase.interval[1]))
        for phase in estimate.phases
        if phase is not estimate.worst and phase.interval[1] > estimate.capacity_bytes
    ]
    return [listed(words)] if words else []


def _largest_parts(estimate: Estimate) -> str:
    worst = estimate.worst
    amounts = sorted(((worst.bytes_of(part.item), _(part.label)) for part in PARTS), reverse=True)[:_LARGEST]
    largest = listed(f"{label} {gib(amount)}" for amount, label in amounts if amount)
    others = [
        f"{phase.phase.value} {gib(phase.peak_bytes)}"
        for phase in estimate.phases
        if phase is not worst and phase.peak_bytes > estimate.capacity_bytes
    ]
    return _("Largest parts: {largest}.").format(largest=largest) + (
        _(" Too large as well: {others}.").format(others=listed(others)) if others else ""
    )
