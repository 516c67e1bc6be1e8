"""What a job has that its estimate does not count."""

from collections.abc import Iterator
from functools import cache, lru_cache

from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut
from tuner.trainers.verl.coverage.no_effect import NO_EFFECT
from tuner.trainers.verl.coverage.not_modelled import NOT_MODELLED
from tuner.trainers.verl.coverage.omission import Omission, OmissionContext
from tuner.trainers.verl.programs import program_of
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload


def left_out(settings: Settings, workload: Workload, *, version: str) -> tuple[LeftOut, ...]:
    """Every part of the job that the workload does not hold, with the key by which the job has it.

    Args:
        settings: the loaded settings.
        workload: what was read from them.
        version: the release that they were read for.
    """
    job = OmissionContext(settings=settings, workload=workload, version=source_of(settings, version).version)
    return tuple(_rows(job))


def _rows(job: OmissionContext) -> Iterator[LeftOut]:
    fine_tunes = program_of(job.settings.defaults).fine_tunes
    keys: dict[int, str] = {}  # the first one of each row that goes by its keys
    for key in job.changed:
        for number in _rows_of(key, job.version, fine_tunes):
            keys.setdefault(number, key)
    for number, omission in _rows_in(job.version, fine_tunes):
        name = keys.get(number) if omission.trigger is None else omission.trigger(job)
        if name is None:
            continue
        apart = omission.elsewhere is not None and omission.elsewhere(job) is not None
        yield LeftOut(
            name=omission.title,
            key=name,
            value=job.settings.get(name),
            origin=job.settings.origin(name),
            reason=_(omission.reason),
            affects=Affects.SECONDS if apart else omission.affects,
        )


def _omissions(fine_tunes: bool) -> tuple[Omission, ...]:
    """The rows of the job's program."""
    if not fine_tunes:
        return NOT_MODELLED
    from tuner.trainers.verl.coverage.fine_tuning import FINE_TUNING  # few jobs are of it

    return FINE_TUNING


@cache
def _rows_in(version: str, fine_tunes: bool) -> tuple[tuple[int, Omission], ...]:
    """The rows that a release has, with their numbers."""
    return tuple(
        (number, omission)
        for number, omission in enumerate(_omissions(fine_tunes))
        if omission.holds(version)
    )


@lru_cache(maxsize=1 << 12)  # many configurations set the same keys
def _rows_of(key: str, version: str, fine_tunes: bool) -> tuple[int, ...]:
    """The numbers of the rows without a trigger that a key belongs to."""
    if any(group.covers(key, version) for group in NO_EFFECT):
        return ()
    return tuple(
        number
        for number, omission in _rows_in(version, fine_tunes)
        if omission.trigger is None
        and omission.covers(key, version)
        and not (omission.rest and _is_covered(key, version))
    )


def _is_covered(key: str, version: str) -> bool:
    from tuner.trainers.verl.coverage.classes import nothing_else_covers  # few jobs come here

    return not nothing_else_covers(key, version)
