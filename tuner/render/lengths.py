"""How long sequences are, in words: what was given and what is assumed."""

from collections.abc import Collection

from tuner.advise import Advice
from tuner.language import _
from tuner.memory.fitting.lengths import length_decides
from tuner.render.generated import kept_groups, longest
from tuner.render.numbers import tokens
from tuner.render.words import clauses, listed
from tuner.rules.wording import around
from tuner.workload import Conversation, Images, Workload


def premise(workload: Workload, of_run: Collection[str] = ()) -> str:
    """The lengths that the answer rests on, and the options that would make it sharper.

    Args:
        workload: the job.
        of_run: names of the lengths that the log of a run tells.
    """
    waiting, filtered = workload.batch.lengths.tool_seconds, workload.batch.group_filter
    lengths = _lengths(workload, of_run)
    if workload.rollout is not None:
        lengths = clauses(filter(None, [lengths, longest(workload.batch, of_run)]))
    if filtered is not None:
        lengths = clauses([lengths, kept_groups(workload.batch, filtered, of_run)])
    if workload.batch.conversation is not None:
        lengths = _("{lengths}; {turns}").format(
            lengths=lengths, turns=_turns(workload.batch.conversation, of_run)
        )
    if waiting is None:
        return lengths
    return _("{lengths}; the last response waits {waiting} s for tools ({reason})").format(
        lengths=lengths,
        waiting=f"{waiting:g}",
        reason=_("the run") if "tool_seconds" in of_run else "--tool-seconds",
    )


def _turns(conversation: Conversation, of_run: Collection[str]) -> str:
    """The turns of a response and what comes back between them, and the options that would say it."""
    origin = _("the run") if "turns" in of_run else "--turns"
    turns = _("{turns:.3g} turns a response ({reason})").format(
        turns=conversation.turns, reason=_("assumed") if conversation.turns_assumed else origin
    )
    if conversation.turns <= 1:
        return turns
    answers = _("{turns}, {tool_tokens:,.0f} tokens from tools between two ({reason})").format(
        turns=turns,
        tool_tokens=conversation.tool_tokens,
        reason=_("assumed") if conversation.tokens_assumed else "--tool-tokens",
    )
    if not conversation.turns_assumed:
        return answers
    return _("{answers}; give --turns").format(answers=answers)


def _lengths(workload: Workload, of_run: Collection[str]) -> str:
    batch = workload.batch
    if not length_decides(workload):
        return _("all sequences are padded to {most}").format(most=tokens(batch.sequence_tokens))
    lengths = batch.lengths
    words = []
    missing = []
    for name, mean, text, option, average in (
        (
            "mean_prompt",
            lengths.mean_prompt,
            _("mean prompt {average} ({reason})"),
            "--mean-prompt-length",
            batch.mean_prompt_tokens,
        ),
        (
            "mean_response",
            lengths.mean_response,
            _("mean response {average} ({reason})")
            if batch.max_prompt_tokens
            else _("mean sequence {average} ({reason})"),
            "--mean-response-length",
            batch.mean_response_tokens,
        ),
    ):
        origin = _("the run") if name in of_run else option
        if not batch.max_prompt_tokens and name == "mean_prompt":
            continue  # of given sequences, which are one piece
        reason = origin if mean is not None else _("assumed")
        words.append(text.format(average=tokens(round(average)), reason=reason))
        missing += [] if mean is not None else [option]
    if not batch.max_prompt_tokens and batch.known_mean_tokens is None:
        half = tokens(round(batch.mean_sequence_tokens))
        return _("half of the maximum assumed ({half}); give --mean-response-length").format(half=half)
    if lengths.mean_prompt is None and lengths.mean_response is None and lengths.response_p95 is None:
        halves = f"{tokens(round(batch.mean_prompt_tokens))} + {tokens(round(batch.mean_response_tokens))}"
        return _("half of the maxima assumed ({halves}); give --mean-response-length").format(halves=halves)
    if lengths.response_p95 is not None:
        origin = _("the run") if "response_p95" in of_run else "--response-p95"
        words.append(
            _("95 % of responses up to {response_p95} ({reason})").format(
                response_p95=tokens(lengths.response_p95), reason=origin
            )
        )
    return listed(words) + (_("; give {missing}").format(missing=_(" and ").join(missing)) if missing else "")


def assumed_lengths(workload: Workload) -> tuple[str, ...]:
    """What seconds rest on beside their interval: lengths that nobody gave; empty where they are known."""
    known = workload.batch.known_mean_tokens is not None or not length_decides(workload)
    return () if known else (_("at assumed lengths"),)


def images(assumed_images: Images) -> str:
    """The images that the answer rests on, what is assumed of them, and the options that would say it."""
    number = (
        _("{per_prompt:,} of {pixels:,} pixels each")
        if assumed_images.per_prompt > 1
        else _("{per_prompt:,} of {pixels:,} pixels")
    ).format(per_prompt=assumed_images.per_prompt, pixels=assumed_images.pixels)
    size = _("{number}, {tokens} tokens of a prompt").format(
        number=number, tokens=tokens(assumed_images.tokens)
    )
    if not assumed_images.assumed:
        return size
    assumed = around(_("assumed"), tokens(assumed_images.least_tokens), tokens(assumed_images.most_tokens))
    return _("{size}, {assumed}; give --image-pixels").format(size=size, assumed=assumed)


def average(advice: Advice) -> str:
    """The mean length up to which the job fits, beside that of its sequences where it is known."""
    batch, known = advice.workload.batch, advice.workload.batch.known_mean_tokens
    assert advice.mean_tokens is not None  # else no length decides
    may = _("sequences may average {mean_tokens:,} of at most {sequence_tokens:,} tokens").format(
        mean_tokens=advice.mean_tokens, sequence_tokens=batch.reached_tokens
    )
    if known is None:
        return may
    does = _("{may}, and average {known:,.0f}").format(may=may, known=known)
    return (
        does if known > advice.mean_tokens else _("{does}, so it fits while they stay so").format(does=does)
    )
