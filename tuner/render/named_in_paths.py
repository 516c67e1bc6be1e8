"""Says which models were told by a longer name that contains theirs."""

from collections.abc import Iterator

from tuner.language import _
from tuner.workload import Workload


def named_in_paths(workload: Workload) -> Iterator[str]:
    """One sentence for the actor's model and one for the critic's, where they are another one's."""
    for model in dict.fromkeys([workload.model, *([workload.critic.model] if workload.critic else [])]):
        if model.contained_in:
            yield _("{model} is taken, whose name stands in {part}; --model NAME where it is another").format(
                model=model.name, part=model.contained_in
            )
