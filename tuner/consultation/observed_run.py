"""What the log of a run adds to its configuration: lengths that no option says, and a comparison."""

from collections.abc import Sequence
from math import ceil

from msgspec.structs import replace

from tuner.advise import Advice
from tuner.advise.observations import observations
from tuner.consultation.premises import Premises
from tuner.consultation.result import RunComparison
from tuner.findings import Finding
from tuner.inputs.log.metrics import StepMetrics
from tuner.language import ngettext
from tuner.trainers.protocol import Loaded
from tuner.workload import P95, Batch
from tuner.workload.group_filter import kept_share_of
from tuner.workload.observed_run import ObservedRun

_SHORTER = ("mean_response", "response_p95")  # than the longest response
_CUT_SHARE = 1 - P95  # of responses: where as many reach the maximum, it is their 95th percentile


def with_lengths(premises: Premises, run: ObservedRun, batch: Batch) -> tuple[Premises, tuple[str, ...]]:
    """The premises with the lengths of a run, and the names of those that are its own.

    What an option says stays, and so does a maximum that is below what the run had: it is of another job.

    Args:
        premises: what the options say.
        run: what was observed.
        batch: of the job, as its configuration has it.
    """
    lengths_of_run: dict[str, float | None] = {
        "mean_prompt": _within(run.mean_prompt_tokens, batch.max_prompt_tokens),
        "mean_response": _within(run.mean_response_tokens, batch.max_response_tokens),
    }
    if lengths_of_run["mean_response"] is not None and premises.mean_response is None:
        lengths_of_run["response_p95"] = _p95(run, batch, round(lengths_of_run["mean_response"]))
    others = (premises.mean_response, premises.response_p95, *map(lengths_of_run.get, _SHORTER))
    lengths_of_run["response_max"] = _longest(run, batch, max(length or 0.0 for length in others))
    lengths_of_run["kept_groups"] = _kept_groups(run, batch)
    if run.tool_seconds:
        lengths_of_run["tool_seconds"] = run.tool_seconds
    if run.turns is not None and (run.turns > 1 or batch.conversation is not None):
        most = None if batch.conversation is None else batch.conversation.most_turns
        lengths_of_run["turns"] = max(1.0, run.turns if most is None else min(run.turns, most))
    added = {
        name: value
        for name, value in lengths_of_run.items()
        if value is not None and getattr(premises, name) is None
    }
    return replace(premises, **added), tuple(added)


def run_comparison(advice: Advice, run: ObservedRun, loaded: Loaded) -> RunComparison:
    """A run beside the model of its job, with the keys that decide what it shows."""
    keys = loaded.keys_of_fields(advice.workload)
    return RunComparison(observations=observations(advice, run), keys=keys)


def with_what_ran(advice: Advice, steps: Sequence[StepMetrics]) -> Advice:
    """The advice with the steps of the run beside what refuses the launch: the job that ran was another.

    Args:
        advice: on the configuration of the log.
        steps: of the log.
    """
    count = len({step.step for step in steps} - {0})  # 0 is what was there before the first
    if not advice.refusals or not count:
        return advice
    return replace(
        advice,
        refusals=tuple(replace(one, finding=_though_it_ran(one.finding, count)) for one in advice.refusals),
        recommendations=tuple(
            replace(one, finding=_though_it_ran(one.finding, count)) if one.finding.refuses else one
            for one in advice.recommendations
        ),
    )


def _though_it_ran(finding: Finding, count: int) -> Finding:
    message = ngettext(
        "{message}; yet the log shows {count} step: what ran was another release of the trainer or the "
        "engine, or other settings",
        "{message}; yet the log shows {count} steps: what ran was another release of the trainer or the "
        "engine, or other settings",
        count,
    ).format(message=finding.message, count=count)
    return replace(finding, message=message)


def _within(observed: float | None, most: int) -> int | None:
    """A mean length as an option would say it; None where the job allows no such length."""
    if observed is None or not 1 <= round(observed) <= most:
        return None
    return round(observed)


def _longest(run: ObservedRun, batch: Batch, least: float) -> int | None:
    """The longest response; None where the job allows no such one, or others are said to be longer."""
    longest = run.longest_response_tokens
    if longest is None or not round(least) <= ceil(longest) <= batch.max_response_tokens:
        return None
    return max(1, ceil(longest))


def _kept_groups(run: ObservedRun, batch: Batch) -> float | None:
    """The share of groups that a filter kept, from the rounds of a step where the run tells these."""
    filtered = batch.group_filter
    if filtered is None:
        return None
    if filtered.round_prompts is None or run.generation_rounds is None:
        return run.kept_groups
    return kept_share_of(batch.prompts, filtered.round_prompts, run.generation_rounds)


def _p95(run: ObservedRun, batch: Batch, mean: int) -> int | None:
    """The length that 95 % of responses do not exceed; None where the mean tells it as well.

    Runs report the mean, the longest and the share at the maximum. The percentile is the maximum where as
    many responses reach it. Elsewhere it is assumed from the mean, and is no longer than the longest.
    """
    most = batch.max_response_tokens
    if run.clip_ratio is not None and run.clip_ratio >= _CUT_SHARE:
        return most if mean >= _CUT_SHARE * most else None
    longest = run.longest_response_tokens
    assumed = mean + (2 * P95 - 1) * min(mean, most - mean)
    if longest is None or longest >= assumed:
        return None
    return max(mean, min(most, ceil(longest)))
