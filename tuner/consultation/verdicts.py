"""What no memory decides of a verdict: a configuration that is not here, and nodes that nobody has."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.advise import Advice, Verdict
from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.hardware import Cluster
from tuner.override_text import override_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.advise import Recommendation
    from tuner.advise.comparison import JudgedJob
    from tuner.inputs.user_input import UnreadFile


def is_node_said(job: JobReading, premises: Premises) -> bool:
    """Whether somebody says that such nodes are there, and not the configuration alone."""
    return job.card.per_node is not None or premises.gpus_per_node is not None


def is_node_too_large(cluster: Cluster) -> bool:
    """Whether a job wants more GPUs on a node than the largest known ones have."""
    most = cluster.gpu.per_node
    return most is not None and cluster.gpus_per_node > most


def advice_beyond_memory(advice: Advice, job: JobReading, premises: Premises) -> Advice:
    """The advice with the verdicts on the job and its block, and no block where it could undo a setting."""
    together = advice.combination
    if job.given.missing is not None:  # what it sets is not known, and a block could undo it
        together = None
    elif together is not None:
        together = replace(together, verdict=_beyond_memory(together.verdict, job, premises))
    if job.given.missing is not None:
        kept = tuple(one for one in advice.recommendations if _is_of_launch(one, job))
        advice = replace(advice, recommendations=kept)
        if job.given.settings_file is not None:
            kept = tuple(_without_proposals(advice, job.given.settings_file))
            advice = replace(advice, recommendations=kept)
    return replace(
        advice,
        verdict=_beyond_memory(advice.verdict, job, premises, refused=advice.is_refused),
        combination=together,
        additions=() if job.given.missing is not None else advice.additions,
        if_reweighted=None if job.given.missing is not None else advice.if_reweighted,
    )


def _is_of_launch(one: "Recommendation", job: JobReading) -> bool:
    """Whether a proposal changes what the launch itself sets, and not a default that the missing file may.

    What proposes nothing says by itself what it rests on.
    """
    settings = job.loaded.settings
    if one.finding.proposal is None:
        return True
    return any(settings.is_set(override_key(text)) for text in one.overrides)


def _without_proposals(advice: Advice, file: "UnreadFile") -> "Iterator[Recommendation]":
    """What is said of a job whose sizes a file tells that is not read: nothing that is priced for others."""
    for one in advice.recommendations:
        if not one.overrides and file.settings.isdisjoint(one.finding.keys):
            yield one


def judged_beyond_memory(judged: "JudgedJob", job: JobReading, premises: Premises) -> "JudgedJob":
    """A job of several that are laid side by side, with its verdict."""
    refused = any(refusal.is_sure for refusal in judged.refusals)
    verdict = _beyond_memory(judged.verdict, job, premises, refused=refused)
    return replace(judged, verdict=verdict)


def _beyond_memory(
    verdict: Verdict, job: JobReading, premises: Premises, *, refused: bool = False
) -> Verdict:
    if refused:
        return verdict
    if job.given.missing is not None:
        return Verdict.CANNOT_SAY
    if job.loaded.card_vendor not in (None, job.card.gpu.vendor) and premises.gpu is None:
        return Verdict.CANNOT_SAY  # no profile is of such a card
    if is_node_too_large(job.reading.workload.cluster) and not is_node_said(job, premises):
        return Verdict.WILL_NOT_START
    return verdict
