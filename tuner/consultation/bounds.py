"""What no job has is refused: lengths that contradict the configuration, and sizes beyond all machines."""

from math import isfinite

from tuner.consultation.premises import OPTIONS, Premises
from tuner.errors import InputError, UnsupportedError
from tuner.language import _
from tuner.workload import P95, Batch, Lengths, Workload

MOST_GPUS = 131_072  # about the largest cluster that was ever built
MOST_SEQUENCES = 4_194_304  # of one step; 1,024 prompts with 16 responses have 16,384
MOST_TOKENS = 16_777_216  # of one sequence
_ZERO_ADVANTAGE = "--zero-advantage-ratio"


def lengths_of(premises: Premises) -> Lengths:
    """The lengths that the options name, in whole tokens.

    Raises:
        InputError: one is no number.
    """
    return Lengths(
        mean_prompt=_whole_tokens(premises, "mean_prompt", premises.mean_prompt),
        mean_response=_whole_tokens(premises, "mean_response", premises.mean_response),
        response_p95=_whole_tokens(premises, "response_p95", premises.response_p95),
        response_max=_whole_tokens(premises, "response_max", premises.response_max),
        kept_groups=_finite(premises, "kept_groups", premises.kept_groups),
        tool_seconds=_finite(premises, "tool_seconds", premises.tool_seconds),
        turns=_finite(premises, "turns", premises.turns),
        tool_tokens=premises.tool_tokens,
        images_per_prompt=premises.images_per_prompt,
        image_pixels=premises.image_pixels,
    )


def _whole_tokens(premises: Premises, name: str, tokens: float | None) -> int | None:
    """The nearest whole number of tokens; logs have means such as 155.3."""
    if tokens is None:
        return None
    if not isfinite(tokens):
        message = _("{option} {tokens}: expected a number of tokens")
        raise premises.error(message.format(option=OPTIONS[name], tokens=tokens), name)
    return round(tokens)


def _finite(premises: Premises, name: str, number: float | None) -> float | None:
    if number is not None and not isfinite(number):
        message = (
            _("{option} {seconds}: expected a number of seconds")
            if name == "tool_seconds"
            else _("{option} {seconds}: expected a number")
        )
        raise premises.error(message.format(option=OPTIONS[name], seconds=number), name)
    return number


def expect_possible(workload: Workload, premises: Premises) -> None:
    """Refuse a job beyond all sizes, or with lengths or advantages that its own settings exclude.

    Raises:
        UnsupportedError: it has more GPUs, sequences in a step or tokens in a sequence than any.
        InputError: a length is above its maximum, or the mean and the 95th percentile contradict each other;
            or rewards are not compared within groups.
    """
    _expect_modelled(workload)
    batch = workload.batch
    if batch.zero_advantage_ratio is not None and not batch.group_advantages:
        raise InputError(
            _("{zero_advantage}: advantages are not 0 here where all rewards of a group are equal").format(
                zero_advantage=_ZERO_ADVANTAGE
            ),
            hint=_("it is for GRPO, RLOO and their like, several responses a prompt, no KL in the reward"),
        )
    _expect_generation(batch, premises)
    _expect_within_maxima(batch, premises)
    _expect_room_for_images(batch, premises)
    _expect_agreement(batch.lengths, premises)
    _expect_longest(batch.lengths, premises)
    _expect_filter(batch, premises)


def _expect_modelled(workload: Workload) -> None:
    """Refuse a job beyond all sizes, which would take minutes and gigabytes to think through.

    Raises:
        UnsupportedError: it has more GPUs, sequences in a step or tokens in a sequence than any.
    """
    batch = workload.batch
    for number, most, text in (
        (
            workload.cluster.gpus,
            MOST_GPUS,
            _("a job of {number:,} GPUs is not modelled, at most {most:,} are"),
        ),
        (
            batch.sequences,
            MOST_SEQUENCES,
            _("{number:,} sequences in a step are not modelled, at most {most:,} are"),
        ),
        (
            batch.sequence_tokens,
            MOST_TOKENS,
            _("{number:,} tokens in a sequence are not modelled, at most {most:,} are"),
        ),
    ):
        if number > most:
            raise UnsupportedError(
                text.format(number=number, most=most),
                hint=_("check the batch sizes, the lengths and the number of GPUs"),
            )


def expect_trainer_modelled(workload: Workload, hint: str) -> None:
    """Refuse what rests on the bytes and seconds of a trainer of which none are known.

    Args:
        workload: the job.
        hint: what can be done instead.

    Raises:
        UnsupportedError: an engine trains one of its models that is not modelled.
    """
    if engine := workload.unmodelled_engine:
        raise UnsupportedError(_("what {engine} takes is not modelled").format(engine=engine), hint=hint)


def _expect_generation(batch: Batch, premises: Premises) -> None:
    """Refuse what is said of tools and turns where there are none.

    Raises:
        InputError: the job generates nothing, or its settings allow fewer turns.
    """
    lengths = batch.lengths
    stated = {
        "tool_seconds": lengths.tool_seconds,
        "turns": lengths.turns,
        "tool_tokens": lengths.tool_tokens,
    }
    for name, number in stated.items():
        if number is not None and not batch.max_prompt_tokens:
            message = _("{option} {seconds}: this job generates no responses")
            raise premises.error(
                message.format(option=OPTIONS[name], seconds=number), name, hint=_("leave it out")
            )
    most = None if batch.conversation is None else batch.conversation.most_turns
    if lengths.turns is not None and most is not None and lengths.turns > most:
        message = _("{option} {turns:g}: a response has at most {most} turns in this configuration")
        raise premises.error(message.format(option=OPTIONS["turns"], turns=lengths.turns, most=most), "turns")


def _expect_within_maxima(batch: Batch, premises: Premises) -> None:
    """Refuse lengths above the configuration's maxima.

    Raises:
        InputError: one is.
    """
    lengths = batch.lengths
    if lengths.mean_prompt is not None and not batch.max_prompt_tokens:
        raise premises.error(
            _("{option} {tokens:,}: this job learns from whole sequences and has no prompts apart").format(
                option=OPTIONS["mean_prompt"], tokens=lengths.mean_prompt
            ),
            "mean_prompt",
            hint=_("give {option}, the mean length of a whole sequence").format(
                option=OPTIONS["mean_response"]
            ),
        )
    prompts = _("{option} {tokens:,}: prompts have at most {most:,} tokens in this configuration")
    responses = _("{option} {tokens:,}: responses have at most {most:,} tokens in this configuration")
    for name, tokens, most, text in (
        ("mean_prompt", lengths.mean_prompt, batch.max_prompt_tokens, prompts),
        ("mean_response", lengths.mean_response, batch.max_response_tokens, responses),
        ("response_p95", lengths.response_p95, batch.max_response_tokens, responses),
        ("response_max", lengths.response_max, batch.max_response_tokens, responses),
    ):
        if tokens is not None and tokens > most:
            raise premises.error(text.format(option=OPTIONS[name], tokens=tokens, most=most), name)


def _expect_room_for_images(batch: Batch, premises: Premises) -> None:
    """Refuse images that a prompt has no room for.

    Raises:
        InputError: they alone are more tokens than a prompt may have.
    """
    images, lengths = batch.images, batch.lengths
    per_prompt, pixels = OPTIONS["images_per_prompt"], OPTIONS["image_pixels"]
    if lengths.image_pixels is not None and images is None and lengths.images_per_prompt != 0:
        raise premises.error(
            _("{pixels} {image_pixels:,}: no image reaches a vision tower of known dimensions here").format(
                pixels=pixels, image_pixels=lengths.image_pixels
            ),
            "image_pixels",
            hint=_("leave it out, or give {images} where the configuration has none").format(
                images=per_prompt
            ),
        )
    if images is not None and images.tokens > batch.max_prompt_tokens:
        raise InputError(
            _(
                "{per_prompt:,} images of {pixels:,} pixels are {tokens:,} tokens: prompts have at "
                "most {max_prompt_tokens:,} tokens in this configuration"
            ).format(
                per_prompt=images.per_prompt,
                pixels=images.pixels,
                tokens=images.tokens,
                max_prompt_tokens=batch.max_prompt_tokens,
            ),
            hint=_("{pixels} are those of an image that the processor has resized").format(pixels=pixels),
        )


def _expect_agreement(lengths: Lengths, premises: Premises) -> None:
    """Refuse a mean and a 95th percentile that no distribution of lengths has together.

    Raises:
        InputError: the percentile is below the mean, or so far above it that the mean would be larger.
    """
    mean, p95 = lengths.mean_response, lengths.response_p95
    if mean is None or p95 is None:
        return
    names = "mean_response", "response_p95"
    response, percentile = (OPTIONS[name] for name in names)
    if p95 < mean:
        message = _("{option} {p95:,} is below {response} {mean:,}")
        raise premises.error(
            message.format(option=percentile, p95=p95, response=response, mean=mean),
            *names,
            hint=_("give both in tokens of responses, over the same steps"),
        )
    least = (1 - P95) * p95
    if mean < least:
        message = _("{response} {mean:,} and {option} {p95:,} contradict each other")
        raise premises.error(
            message.format(response=response, mean=mean, option=percentile, p95=p95),
            *names,
            hint=_(
                "with 5 % of responses of at least {p95:,} tokens the mean is at least {least:,.0f}"
            ).format(p95=p95, least=least),
        )


def _expect_longest(lengths: Lengths, premises: Premises) -> None:
    """Refuse a longest response that is shorter than what others are said to be.

    Raises:
        InputError: it is below the mean or the 95th percentile.
    """
    longest = lengths.response_max
    for name, tokens in (("mean_response", lengths.mean_response), ("response_p95", lengths.response_p95)):
        if longest is not None and tokens is not None and longest < tokens:
            message = _("{option} {longest:,} is below {response} {tokens:,}")
            raise premises.error(
                message.format(
                    option=OPTIONS["response_max"], longest=longest, response=OPTIONS[name], tokens=tokens
                ),
                "response_max",
                name,
                hint=_("give both in tokens of responses, over the same steps"),
            )


def _expect_filter(batch: Batch, premises: Premises) -> None:
    """Refuse a share of kept groups that is none, or of a job that keeps all of them.

    Raises:
        InputError: it is 0, or nothing filters groups.
    """
    share = batch.lengths.kept_groups
    if share is None:
        return
    option = OPTIONS["kept_groups"]
    if share <= 0:
        message = _("{option} {share:g}: a step of which no group is kept never ends")
        raise premises.error(message.format(option=option, share=share), "kept_groups")
    if batch.group_filter is None or batch.group_filter.once:
        message = _("{option} {share:g}: this job filters no groups")
        raise premises.error(
            message.format(option=option, share=share), "kept_groups", hint=_("leave it out")
        )
