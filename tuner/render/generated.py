"""What is generated for a step, in words: the longest response, and the groups that a filter keeps."""

from collections.abc import Collection

from tuner.consultation.premises import OPTIONS
from tuner.language import _
from tuner.render.numbers import tokens
from tuner.rules.wording import around
from tuner.timing.responses import evenly_longest, longest_response
from tuner.workload import KEPT_GROUPS_ENDS, Batch, GroupFilter


def longest(batch: Batch, of_run: Collection[str]) -> str:
    """The longest response, and the option that would say it; empty where it is as long as it may be."""
    option, most = OPTIONS["response_max"], round(batch.longest_response_tokens)
    expected = tokens(round(longest_response(batch)))
    if batch.lengths.response_max is not None:
        origin = _("the run") if "response_max" in of_run else option
        return _("longest response {longest} ({reason})").format(longest=expected, reason=origin)
    least = evenly_longest(batch)
    if round(least) >= most:
        return ""
    note = _("expected of {sequences:,}").format(sequences=batch.generated_at_a_time)
    said = around(expected, tokens(round(least)), tokens(most), note)
    return _("longest response {longest}; give {option}").format(longest=said, option=option)


def _generated_for_groups(batch: Batch, filtered: GroupFilter) -> str:
    """The form of the sentence on what is generated for the groups that a step trains on."""
    if filtered.round_prompts is None:
        return _(
            "{share} of the groups are kept: {generated:.3g} times the responses of a step are generated"
        )
    if f"{batch.filter_rounds:.3g}" == "1":
        return _("{share} of the groups are kept: {rounds:.3g} round of {prompts:,} prompts a step")
    return _("{share} of the groups are kept: {rounds:.3g} rounds of {prompts:,} prompts a step")


def kept_groups(batch: Batch, filtered: GroupFilter, of_run: Collection[str]) -> str:
    """The groups that a filter keeps, what is generated for that, and the option that would say it."""
    if filtered.once and filtered.round_prompts is not None:
        return _("{generated:,} prompts are generated for a step, and {kept:,} of them trained on").format(
            generated=filtered.round_prompts, kept=batch.prompts
        )
    option, share = OPTIONS["kept_groups"], f"{filtered.kept_share:.2g}"
    origin = _("the run") if "kept_groups" in of_run else option
    low, high = (f"{end:.2g}" for end in KEPT_GROUPS_ENDS)
    said = around(share, low, high, _("assumed")) if filtered.assumed else f"{share} ({origin})"
    told = _generated_for_groups(batch, filtered).format(
        share=said,
        generated=batch.generated_share,
        rounds=batch.filter_rounds,
        prompts=filtered.round_prompts,
    )
    if filtered.stops(batch.prompts):
        told = _("{told}, and verl stops with an error after {most:,}").format(
            told=told, most=filtered.most_rounds
        )
    return _("{told}; give {option}").format(told=told, option=option) if filtered.assumed else told
