"""The host memory that a launch script asks for, beside a job that needs much of it."""

from collections.abc import Iterator

from tuner.consultation.premises import OPTIONS
from tuner.consultation.result import Consultation
from tuner.language import _
from tuner.render.numbers import gib

_MUCH = 0.5  # share of it from which on it bounds what can be proposed


def host_of_script(answer: Consultation) -> Iterator[str]:
    """Where a limit of the host memory comes from that nobody gave as one, where it decides anything."""
    estimate, source = answer.advice.estimate, answer.given.source
    limit = estimate.host_capacity_bytes
    if limit is None or estimate.host_high_bytes < _MUCH * limit:
        return
    for said in answer.from_project:
        if said.option == OPTIONS["host_memory_gib"] and said.location.source == source:
            text = _("Slurm gives {limit} of host memory on a node ({place}); --host-memory says otherwise.")
            yield text.format(limit=gib(limit), place=said.location)
