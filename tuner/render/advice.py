"""The advice as a document: in short, or all of it."""

from collections.abc import Iterator
from functools import partial

from tuner.advise import Advice, Verdict
from tuner.advise.expected import expected_passes
from tuner.advise.usual_host import is_usual, may_lack_host
from tuner.consultation.result import Consultation
from tuner.counted import counted
from tuner.language import _
from tuner.memory import Estimate, RolloutMemory, Term
from tuner.memory.host.loading import is_kept_of_loading
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.render.bars import chart
from tuner.render.block import block, contributions
from tuner.render.brief import brief
from tuner.render.document.parts import AnswerDocument, Drawing, Entry, Heading, Paragraph, Part
from tuner.render.host_words import in_all, kept_of_loading, starts_where, states_and_copies
from tuner.render.input_notes import host_of_script, side_servers
from tuner.render.numbers import gib
from tuner.render.premises import premises, premises_in_short
from tuner.render.recommendations import recommendations
from tuner.render.releases import elsewhere, guessed
from tuner.render.verdict import verdict
from tuner.render.words import full_stop
from tuner.rules.wording import up_to
from tuner.units import GIB
from tuner.workload import Images, RolloutEngine

_TELLING_BYTES = GIB  # less between a full micro-batch and one as expected is not told


def advice_document(answer: Consultation, *, full: bool = False, explain: bool = False) -> AnswerDocument:
    """The answer in short: verdict, phases, what to paste, three findings.

    Args:
        answer: to be told.
        full: all premises, findings and prices instead.
        explain: the sum of every phase, written out, as well.
    """
    if full or explain:
        return AnswerDocument(sections=tuple(_full(answer, explain=explain)))
    advice = answer.advice
    return AnswerDocument(
        sections=(
            failed_allocation(answer),
            (
                *judgement(answer, full=False),
                *(Paragraph(text=text, level=1) for text in _beside_verdict(answer)),
            ),
            tuple(premises_in_short(answer)),
            bars(advice),
            tuple(
                Paragraph(text=text, level=1)
                for text in (
                    *shown_by_driver(advice),
                    *not_full(advice),
                    *unsure(advice),
                    *hours(answer),
                    *checkpoints(advice),
                )
            ),
            observed_run(answer),
            *to_paste(answer),
            *brief(advice, between=between_steps(answer), ending=rows_nobody_says(answer)),
        )
    )


def _full(answer: Consultation, *, explain: bool) -> Iterator[tuple[Part, ...]]:
    advice = answer.advice
    yield failed_allocation(answer)
    yield judgement(answer)
    yield tuple(premises(answer))
    yield (Heading(text=_("GPU memory by phase, per GPU")), *bars(advice)) if advice.estimate.phases else ()
    beside = (
        *engine_memory(advice),
        *seconds(advice),
        *validation(answer),
        *hours(answer),
        *carried(answer, full=True),
        *memory_aside(advice),
        *host_of_script(answer),
    )
    yield tuple(Paragraph(text=text, level=1, further=1) for text in beside)
    yield observed_run(answer)
    if explain:
        yield (sums(advice),)
    if not advice.workload.unmodelled_engine:
        yield Heading(text=_("Batch sizes, in sequences")), batches(advice)
    yield from recommendations(advice)
    yield tuple(contributions(advice))
    yield from to_paste(answer)


def judgement(answer: Consultation, *, full: bool = True) -> tuple[Part, ...]:
    """How the job ended; where nothing says that, what is expected.

    Args:
        answer: to be told.
        full: with what some of the releases alone refuse that the launch may be of.
    """
    if answer.ran_out is not None:
        from tuner.render.ran_out import ran_out_parts  # few inputs are logs that end so

        return tuple(ran_out_parts(answer, answer.ran_out))
    return (
        *verdict(
            answer.advice,
            answer.left_out,
            node_said=answer.node_said,
            missing=answer.given.missing,
            full=full,
        ),
        *guessed(answer),
        *(Paragraph(text=text, level=1) for text in side_servers(answer.given)),
    )


def to_paste(answer: Consultation) -> Iterator[tuple[Part, ...]]:
    """The block to paste, or why there is none; for a job that ran out of memory, what makes room."""
    if answer.ran_out is not None:
        from tuner.render.failure import room_parts

        yield tuple(room_parts(answer.ran_out.failure))
    elif answer.given.missing is None:
        yield from block(answer.advice, answer.left_out)
        yield tuple(elsewhere(answer.elsewhere))


def failed_allocation(answer: Consultation) -> tuple[Part, ...]:
    """What failed to be allocated; empty where nobody asks."""
    if answer.allocation is None:
        return ()
    from tuner.render.allocation import allocation_parts  # few runs ask for it, and it has much behind it

    return tuple(allocation_parts(answer.allocation))


def observed_run(answer: Consultation) -> tuple[Part, ...]:
    """The run beside the model; empty where the input is no log."""
    if answer.given.log is None:
        return ()
    from tuner.render.observations import observation_parts  # no other input asks for it

    return observation_parts(answer)


def bars(advice: Advice) -> tuple[Drawing, ...]:
    """The phases as bars; nothing of a job no phase of which is modelled."""
    return (Drawing(draw=partial(chart, advice.estimate)),) if advice.estimate.phases else ()


def batches(advice: Advice) -> Drawing:
    """The batch sizes of every pass."""
    from tuner.render.batches import batch_table  # an answer in short has none of it

    return Drawing(draw=partial(batch_table, advice.workload, updates=not advice.validates_only))


def sums(advice: Advice) -> Drawing:
    """The sum of every phase, written out."""
    from tuner.render.explain import explanation  # the same

    return Drawing(draw=partial(explanation, advice.workload, advice.estimate))


def engine_memory(advice: Advice) -> Iterator[str]:
    """The KV cache of the rollout engine, and what its memory fraction is a share of."""
    if advice.rollout is None:
        return
    yield from _cache(advice.rollout, advice)
    rollout_engine = advice.workload.generator
    if rollout_engine.engine is not RolloutEngine.TRANSFORMERS:
        means = FRACTION_MEANS[rollout_engine.fraction_of]
        yield _("The engine's memory fraction of {memory_fraction:.2f} is {means}.").format(
            memory_fraction=rollout_engine.memory_fraction, means=_(means)
        )


def _cache(rollout: RolloutMemory, advice: Advice) -> Iterator[str]:
    """How many tokens and sequences the KV cache holds; empty where there is none."""
    room, longest = advice.workload.batch.room_tokens, advice.workload.batch.reached_tokens
    length = _("full length") if room == longest else _("{room:,} tokens").format(room=room)
    if rollout.kv_tokens > 0:
        cache = _(
            "KV cache: {kv} hold {kv_tokens:,} tokens per replica, {sequences} of {length} at a time (at "
            "most {max_sequences:,} are admitted)."
        ).format(
            kv=gib(rollout.kv_bytes),
            kv_tokens=rollout.kv_tokens,
            sequences=counted(rollout.concurrent_sequences, "sequence"),
            length=length,
            max_sequences=advice.workload.generator.max_sequences,
        )
        if rollout.preempted_sequences:
            cache += _(
                " When all {running_sequences:,} that run grow to {length}, {preempted_sequences:,} "
                "are preempted and computed again."
            ).format(
                running_sequences=rollout.running_sequences,
                length=length,
                preempted_sequences=rollout.preempted_sequences,
            )
        yield cache


def seconds(advice: Advice) -> Iterator[str]:
    """What a step and a checkpoint take; empty for a job without seconds."""
    from tuner.render.step_seconds import narrower, saving_seconds, step_seconds  # the short answer has none

    texts = [step_seconds(advice), narrower(advice), *unsure(advice), saving_seconds(advice)]
    yield from filter(None, texts)


def unsure(advice: Advice) -> Iterator[str]:
    """What halves the interval of the phase that is the least sure; empty where all are sure enough."""
    if advice.time.seconds > 0 and not advice.validates_only:
        from tuner.render.step_seconds import halved  # of a job with seconds

        yield from filter(None, [halved(advice)])


def hours(answer: Consultation) -> Iterator[str]:
    """What all steps of a job take, where a setting says how many there are."""
    steps = answer.steps
    if steps is not None:
        from tuner.render.step_seconds import whole_run  # few jobs say

        yield from filter(None, [whole_run(answer.advice, steps, answer.validation)])


def carried(answer: Consultation, *, full: bool = False) -> Iterator[str]:
    """How long responses may get; in short where the job may not fit at its longest alone."""
    if full:
        from tuner.render.carrying import carried as in_full  # the short answer has none of a job that fits

        yield from in_full(answer)
    elif answer.advice.memory_verdict is Verdict.MAY_NOT_FIT:
        from tuner.render.carrying import carried_in_short

        yield from carried_in_short(answer)


def validation(answer: Consultation) -> Iterator[str]:
    """What a validation takes; empty for a job without one."""
    if answer.validation is not None:
        from tuner.render.between_steps import validation_seconds

        yield validation_seconds(answer)


def between_steps(answer: Consultation) -> tuple[Entry, ...]:
    """What comes between steps so often that the user may want it less often."""
    if answer.validation is None or answer.given.missing is not None:
        return ()
    from tuner.render.between_steps import frequent_validation

    return frequent_validation(answer)


def rows_nobody_says(answer: Consultation) -> tuple[Paragraph, ...]:
    """What a validation takes of rows that nobody counts; empty for a job without one."""
    if answer.validation is None or answer.given.missing is not None:
        return ()
    from tuner.render.between_steps import validation_of_unknown_rows

    return validation_of_unknown_rows(answer)


def checkpoints(advice: Advice) -> Iterator[str]:
    """What checkpoints add, where they are written so often that a step is much longer with them."""
    if advice.saving is not None:
        from tuner.render.step_seconds import frequent_saving  # few jobs write them that often

        yield from filter(None, [frequent_saving(advice)])


def shown_by_driver(advice: Advice) -> Iterator[str]:
    """What ``nvidia-smi`` may show beyond the peak; empty where PyTorch has freed nothing."""
    estimate = advice.estimate
    widest = max(estimate.phases, key=lambda phase: phase.shown_high_bytes, default=None)
    if widest is not None and widest.kept_bytes > 0 and estimate.fits():
        yield _(
            "nvidia-smi may show up to {shown} in {phase}, {peak} of it in use: PyTorch keeps freed blocks, "
            "and gives them back before a request of its own fails."
        ).format(
            shown=gib(min(widest.shown_high_bytes, max(estimate.capacity_bytes, widest.interval[1]))),
            phase=widest.phase.value,
            peak=up_to(widest.peak_bytes, widest.interval[1]),
        )


def memory_aside(advice: Advice) -> Iterator[str]:
    """Memory that the bars do not show: freed blocks that PyTorch keeps, the host."""
    if advice.workload.unmodelled_engine:
        return
    yield from shown_by_driver(advice)
    yield from not_full(advice)
    if advice.estimate.host_bytes > 0:
        yield _host(advice.estimate)


def not_full(advice: Advice) -> Iterator[str]:
    """What the worst pass takes where no budget of tokens is filled, if that is a difference to see."""
    worst = advice.estimate.worst
    expected = expected_passes(advice.workload).get(worst.phase)
    if expected is not None and expected.full_bytes - expected.estimate.peak_bytes >= _TELLING_BYTES:
        yield _(
            "{phase} is judged with a full micro-batch of {full}; with lengths as expected the largest of a "
            "step has {tokens}, and {peak} are in use."
        ).format(
            phase=worst.phase.value,
            full=counted(expected.full_tokens, "token"),
            tokens=counted(expected.tokens, "token"),
            peak=gib(expected.estimate.peak_bytes),
        )


def _beside_verdict(answer: Consultation) -> Iterator[str]:
    """What a reader has to know with the verdict: what fits at all, and what is asked of the host."""
    yield from carried(answer)
    yield from wanted_host(answer.advice)
    yield from kept_of_loading(answer.advice.estimate, answer.advice.workload.cluster.gpus_per_node)
    yield from host_of_script(answer)


def wanted_host(advice: Advice) -> Iterator[str]:
    """The host memory without which a job does not start, where few nodes have it and nobody says.

    What images of an assumed size take is no condition: it is said with what is assumed.
    """
    estimate, assumed = advice.estimate, _assumed_images(advice)
    known = [one for one in estimate.host_terms if one not in assumed and not is_kept_of_loading(one)]
    if advice.workload.unmodelled_engine or estimate.host_capacity_bytes is not None:
        return
    sure, most = sum(term.bytes for term in known), sum(term.high for term in known)
    gpus = advice.workload.cluster.gpus_per_node
    if not is_usual(sure, most, gpus):
        yield _("{text}; --host-memory says what yours have.").format(text=starts_where(known))
    shown = advice.workload.batch.images
    if shown is not None and may_lack_host(estimate, gpus):
        yield from (_of_images(shown, term) for term in assumed)


def _assumed_images(advice: Advice) -> tuple[Term, ...]:
    """What a node's host memory holds of images whose size is assumed."""
    shown = advice.workload.batch.images
    if shown is None or not shown.assumed:
        return ()
    return tuple(term for term in advice.estimate.host_terms if term.name == "controller_images")


def _of_images(shown: Images, term: Term) -> str:
    """Host memory of images, with what is assumed of them in the same sentence."""
    return _(
        "Images take {host} more of a node's host memory ({low} to {most}) if a prompt has {number} of "
        "{pixels:,} pixels, which is assumed; --image-pixels says how large they are."
    ).format(
        host=gib(term.bytes),
        low=gib(term.low),
        most=gib(term.high),
        number=shown.per_prompt,
        pixels=shown.pixels,
    )


def _host(estimate: Estimate) -> str:
    """Host memory of a node, and whether it may be more than there is."""
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    states = states_and_copies(estimate.host_terms)
    if not states or len(states) == len(estimate.host_terms):
        return _of_one_kind(estimate)
    text = in_all(estimate)
    if limit is None or estimate.host_is_short or most <= limit:
        return full_stop(text)
    return _("{pinned}, which is more than a node has.").format(pinned=text)


def _of_one_kind(estimate: Estimate) -> str:
    """Host memory where there are no processes to be counted, or nothing but them."""
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    host = gib(estimate.host_bytes)
    if limit is None:
        text = _("Host memory per node: {host} for offloaded states and copies").format(host=host)
    else:
        text = _("Host memory per node: {host} of {limit} for offloaded states and copies").format(
            host=host, limit=gib(limit)
        )
    if most == estimate.host_bytes:
        return full_stop(text)
    pinned = _("{text}, up to {most} where pinned memory is rounded up to powers of two").format(
        text=text, most=gib(most)
    )
    if limit is None or estimate.host_is_short or most <= limit:
        return full_stop(pinned)
    return _("{pinned}, which is more than a node has.").format(pinned=pinned)
