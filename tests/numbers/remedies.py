"""What each rung of the rules would change in a job, and the sizes that rules choose from, as text."""

from collections.abc import Iterator

from tests.tables import HEADROOM
from tuner.advise.differences import changes
from tuner.rules import reward_engine
from tuner.rules.case import Case
from tuner.rules.ladder import LADDERS
from tuner.rules.passes import all_passes, larger, smaller
from tuner.rules.rollout_engine import (
    largest_fraction,
    sequences_per_replica,
    starts,
    step_waits_for_host,
    tensor_sizes,
    with_matching_limit,
)
from tuner.rules.sequence_sharing import fewer_ranks, paying_together, sequence_splits
from tuner.workload import Workload


def remedies(workload: Workload) -> Iterator[str]:
    """Every rung in every phase, whether it is due there or not; and sizes of passes and of the engine."""
    case = Case.of(workload, headroom=HEADROOM)
    for phase in case.phases:
        yield f"{phase.phase.value} lacks {case.missing_bytes(phase)} {case.severity(phase.phase).value}"
    yield from _cures(case)
    for site in all_passes(workload):
        sizes = site.sizes(workload)
        chosen, less = larger(case, site), smaller(case, site)
        yield (
            f"pass {site.phase.value} of {site.sequences(workload)} by {site.size(workload):.6g}:"
            f" {site.share(workload)} tokens, {len(sizes)} sizes to {sizes[-1]}, larger {chosen},"
            f" smaller {_changed(workload, less)},"
            f" shared by {sequence_splits(workload, site.phase)} {fewer_ranks(workload, site.engine)}"
        )
    yield from (f"shared by fewer: {_changed(workload, proposal)}" for proposal in paying_together(case))
    if workload.rollout is not None:
        yield from _engine(case)
    if workload.reward is not None and workload.reward.server is not None:
        yield from _reward_engine(case)


def _cures(case: Case) -> Iterator[str]:
    """What each rung of a ladder changes, with the phases in which it is that."""
    phases: dict[tuple[str, str], list[str]] = {}
    for ladder in LADDERS:
        for phase in ladder.phases:
            for rung in ladder.rungs if case.phase(phase) is not None else ():
                changed = _changed(case.workload, rung(case.workload, phase))
                phases.setdefault((rung.__name__, changed), []).append(phase.value)
    for (cure_name, changed), names in phases.items():
        yield f"rung {cure_name} in {' '.join(names)}: {changed}"


def _engine(case: Case) -> Iterator[str]:
    workload = case.workload
    sizes = tensor_sizes(workload.model, workload.generator, workload.cluster.gpus_per_node)
    yield (
        f"engine of {sequences_per_replica(workload)} sequences, over {sizes}, starts {starts(workload)},"
        f" waits {step_waits_for_host(workload)}, at most {_changed(workload, largest_fraction(case))},"
        f" matching {_changed(workload, with_matching_limit(workload))}"
    )


def _reward_engine(case: Case) -> Iterator[str]:
    workload = case.workload
    for hundredths in (5, 20, 50, 80, 95):
        proposal = reward_engine.with_fraction(workload, hundredths)
        started = reward_engine.starting_fraction(case.with_workload(proposal), now=hundredths / 100)
        largest = reward_engine.largest_reward_fraction(case, below=hundredths / 100)
        yield (
            f"reward engine with {hundredths}: {reward_engine.problem(proposal)}, starts with"
            f" {_changed(workload, started)}, largest below {_changed(workload, largest)}"
        )
    for size, proposal in reward_engine.tensor_proposals(workload):
        yield f"reward engine over {size}: {_changed(workload, proposal)}"


def _changed(workload: Workload, proposal: Workload | None) -> str:
    """The fields that a proposal changes; a hyphen where there is none."""
    if proposal is None:
        return "-"
    return " ".join(f"{'.'.join(path)}={value}" for path, value in changes(workload, proposal).items())
