"""The metrics of a step that a run may be sent with: what is read of it, and no name that a user made up.

Rewards and validation are logged under names of data sets and functions, which are nobody else's business.
"""

from collections.abc import Mapping

_READ = (
    *("timing_s/", "timing/", "perf/", "actor/perf/", "critic/perf/", "global_seqlen/"),
    *("prompt_length/", "response_length/", "num_turns/"),
)


def sent_metrics(values: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step that tell seconds, lengths and memory."""
    return {name: value for name, value in values.items() if name.startswith(_READ)}
