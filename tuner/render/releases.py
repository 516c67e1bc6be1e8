"""What is not known of a release that is not bundled, and what it comes to."""

from tuner.advise import Advice, ReleaseRange
from tuner.render.numbers import gib, interval


def not_known(advice: Advice) -> str:
    """The fact, the range over what the release may do, and the lengths that fit whatever it does."""
    releases = advice.releases
    assert releases is not None
    least, most = releases.least, releases.most
    text = f"what {releases.release} does: the worst phase peaks at {gib(least.estimate.worst.peak_bytes)} "
    text += least.name
    if most is not least:
        text += f" to {gib(most.estimate.worst.peak_bytes)} {most.name}"
    return f"{text}; {_lengths(releases, longest=advice.workload.batch.sequence_tokens)}"


def _lengths(releases: ReleaseRange, *, longest: int) -> str:
    if releases.certain_tokens == longest:
        return "it fits for certain with each"
    sure = "none" if releases.certain_tokens is None else f"up to {releases.certain_tokens:,}"
    if releases.mean_tokens is None:
        return "no length of sequences fits with each"
    if releases.mean_tokens == longest:
        return f"it fits with each, for certain with sequences of {sure} tokens on average"
    return (
        f"fits with each while sequences average up to {releases.mean_tokens:,} tokens (for certain {sure})"
    )


def against(advice: Advice) -> str:
    """How the job fits, as which release it does not, and which one is meant."""
    releases = advice.releases
    assert releases is not None
    other = releases.against
    assert other is not None
    now, worst = advice.estimate.worst, other.estimate.worst
    peak = f"{now.phase.value} peaks at {gib(now.peak_bytes)} ({interval(now.interval)})"
    text = f"{peak} of {gib(advice.estimate.capacity_bytes)} {releases.considered[0].name}"
    if worst.peak_bytes > other.estimate.capacity_bytes:
        phase = "" if worst.phase is now.phase else f"{worst.phase.value} "
        text += f", but {phase}at {gib(worst.peak_bytes)} {other.name}"
    else:
        text += f", but the job cannot start {other.name}"
    return f"{text}; what {releases.release} does is not known"
