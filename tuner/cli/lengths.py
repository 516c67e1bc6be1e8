"""What the options say of responses, held against the configuration."""

from math import isfinite

from tuner.cli.premises import Premises
from tuner.errors import InputError
from tuner.language import _
from tuner.workload import P95, Batch, Lengths

_PROMPT, _RESPONSE, _P95 = "--mean-prompt-length", "--mean-response-length", "--response-p95"
LENGTHS = (
    *("mean_prompt", "mean_response", "response_p95", "tool_seconds", "turns", "tool_tokens"),
    *("images_per_prompt", "image_pixels"),
)
"""The fields of the premises that are about lengths."""

_ZERO_ADVANTAGE = "--zero-advantage-ratio"
_TOOLS, _TURNS, _ANSWERS = "--tool-seconds", "--turns", "--tool-tokens"
_IMAGES, _PIXELS = "--images-per-prompt", "--image-pixels"


def lengths_of(premises: Premises) -> Lengths:
    """The lengths that the options name, in whole tokens.

    Raises:
        InputError: one is no number.
    """
    return Lengths(
        mean_prompt=_whole(_PROMPT, premises.mean_prompt),
        mean_response=_whole(_RESPONSE, premises.mean_response),
        response_p95=_whole(_P95, premises.response_p95),
        tool_seconds=_finite(_TOOLS, premises.tool_seconds),
        turns=_finite(_TURNS, premises.turns),
        tool_tokens=premises.tool_tokens,
        images_per_prompt=premises.images_per_prompt,
        image_pixels=premises.image_pixels,
    )


def _whole(option: str, tokens: float | None) -> int | None:
    """The nearest whole number of tokens; logs have means such as 155.3."""
    if tokens is None:
        return None
    if not isfinite(tokens):
        raise InputError(
            _("{option} {tokens}: expected a number of tokens").format(option=option, tokens=tokens)
        )
    return round(tokens)


def _finite(option: str, said: float | None) -> float | None:
    if said is not None and not isfinite(said):
        expected = (
            _("{option} {seconds}: expected a number of seconds")
            if option == _TOOLS
            else _("{option} {seconds}: expected a number")
        )
        raise InputError(expected.format(option=option, seconds=said))
    return said


def expect_possible(batch: Batch) -> None:
    """Refuse lengths that no responses within the maxima can have, and advantages that are not of groups.

    Raises:
        InputError: one is above its maximum, or the mean and the 95th percentile contradict each other; or
            rewards are not compared within groups.
    """
    lengths = batch.lengths
    if batch.zero_advantage_ratio is not None and not batch.group_advantages:
        raise InputError(
            _("{zero_advantage}: advantages are not 0 here where all rewards of a group are equal").format(
                zero_advantage=_ZERO_ADVANTAGE
            ),
            hint=_("it is for GRPO, RLOO and their like, several responses a prompt, no KL in the reward"),
        )
    _expect_generation(batch)
    prompts = _("{option} {tokens:,}: prompts have at most {most:,} tokens in this configuration")
    if lengths.mean_prompt is not None and not batch.max_prompt_tokens:
        raise InputError(
            _("{option} {tokens:,}: this job learns from whole sequences and has no prompts apart").format(
                option=_PROMPT, tokens=lengths.mean_prompt
            ),
            hint=_("give {option}, the mean length of a whole sequence").format(option=_RESPONSE),
        )
    responses = _("{option} {tokens:,}: responses have at most {most:,} tokens in this configuration")
    for option, tokens, most, text in (
        (_PROMPT, lengths.mean_prompt, batch.max_prompt_tokens, prompts),
        (_RESPONSE, lengths.mean_response, batch.max_response_tokens, responses),
        (_P95, lengths.response_p95, batch.max_response_tokens, responses),
    ):
        if tokens is not None and tokens > most:
            raise InputError(text.format(option=option, tokens=tokens, most=most))
    _expect_room_for_images(batch)
    mean, p95 = lengths.mean_response, lengths.response_p95
    if mean is None or p95 is None:
        return
    if p95 < mean:
        raise InputError(
            _("{option} {p95:,} is below {response} {mean:,}").format(
                option=_P95, p95=p95, response=_RESPONSE, mean=mean
            ),
            hint=_("give both in tokens of responses, over the same steps"),
        )
    if mean < (1 - P95) * p95:
        least = (1 - P95) * p95
        raise InputError(
            _("{response} {mean:,} and {option} {p95:,} contradict each other").format(
                response=_RESPONSE, mean=mean, option=_P95, p95=p95
            ),
            hint=_(
                "with 5 % of responses of at least {p95:,} tokens the mean is at least {least:,.0f}"
            ).format(p95=p95, least=least),
        )


def _expect_generation(batch: Batch) -> None:
    """Refuse what is said of tools and turns where there are none.

    Raises:
        InputError: the job generates nothing, or its settings allow fewer turns.
    """
    lengths = batch.lengths
    told = ((_TOOLS, lengths.tool_seconds), (_TURNS, lengths.turns), (_ANSWERS, lengths.tool_tokens))
    for option, said in told:
        if said is not None and not batch.max_prompt_tokens:
            raise InputError(
                _("{option} {seconds}: this job generates no responses").format(option=option, seconds=said),
                hint=_("leave it out"),
            )
    most = None if batch.conversation is None else batch.conversation.most_turns
    if lengths.turns is not None and most is not None and lengths.turns > most:
        raise InputError(
            _("{option} {turns:g}: a response has at most {most} turns in this configuration").format(
                option=_TURNS, turns=lengths.turns, most=most
            )
        )


def _expect_room_for_images(batch: Batch) -> None:
    """Refuse images that a prompt has no room for.

    Raises:
        InputError: they alone are more tokens than a prompt may have.
    """
    images, lengths = batch.images, batch.lengths
    if lengths.image_pixels is not None and images is None and lengths.images_per_prompt != 0:
        raise InputError(
            _("{pixels} {image_pixels:,}: no image reaches a vision tower of known dimensions here").format(
                pixels=_PIXELS, image_pixels=lengths.image_pixels
            ),
            hint=_("leave it out, or give {images} where the configuration has none").format(images=_IMAGES),
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
            hint=_("{pixels} are those of an image that the processor has resized").format(pixels=_PIXELS),
        )
