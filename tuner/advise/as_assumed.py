"""What advice that is withheld at lengths that nobody gives would bring if they are as assumed."""

from math import ceil

from msgspec.structs import replace

from tuner import rules
from tuner.advise.pricing import helps
from tuner.findings import Goal
from tuner.rules.case import Case
from tuner.rules.rollout_engine import sequences_per_replica


def share_as_assumed(case: Case, least_gain: float) -> float | None:
    """The largest share of the step that one finding brings if sequences are as long as is assumed.

    None where the lengths are given, or nothing brings as much as a line of the block has to.

    Args:
        case: the job, with its block where it has one; rules say nothing of it that rests on lengths that
            nobody gives.
        least_gain: share of the step that a line of the block has to bring.
    """
    batch = case.workload.batch
    if batch.known_mean_tokens is not None or case.workload.rollout is None or not case.time.seconds:
        return None
    if case.rollout.concurrent_sequences >= sequences_per_replica(case.workload):
        return None  # only room in the cache is withheld, and it holds all
    lengths = replace(batch.lengths, mean_response=ceil(batch.mean_response_tokens))
    given = case.with_workload(replace(case.workload, batch=replace(batch, lengths=lengths)))
    withheld = rules.of_generation(given)  # no other rule withholds what lengths decide
    if not withheld:
        return None
    said = {finding.rule.code for finding in rules.run(case)}
    shares = [
        1 - given.seconds(finding.proposal) / given.time.seconds
        for finding in withheld
        if finding.proposal is not None and finding.rule.goal is Goal.TIME and not finding.rule.package
        if finding.rule.code not in said and helps(given, finding, finding.proposal)
    ]
    most = max(shares, default=0.0)
    return most if most >= least_gain else None
