"""What a job has that its estimate does not count."""

from collections.abc import Iterator

from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.protocol import Affects, KeyClass, LeftOut
from tuner.trainers.verl.coverage.no_effect import NO_EFFECT
from tuner.trainers.verl.coverage.not_modelled import NOT_MODELLED
from tuner.trainers.verl.coverage.omission import Job, Omission
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
    job = Job(settings=settings, workload=workload, version=source_of(settings, version).version)
    return tuple(_rows(job))


def key_classes(version: str) -> tuple[KeyClass, ...]:
    """Every key of a bundled release's configurations once, by what the estimate makes of it."""
    from tuner.trainers.verl.coverage.classes import of_release  # the documentation alone asks

    return of_release(version)


def _rows(job: Job) -> Iterator[LeftOut]:
    for omission in _omissions(job):
        key = _key(omission, job)
        if key is None:
            continue
        apart = omission.elsewhere is not None and omission.elsewhere(job) is not None
        yield LeftOut(
            name=omission.title,
            key=key,
            value=job.settings.get(key),
            origin=job.settings.origin(key),
            reason=_(omission.reason),
            affects=Affects.SECONDS if apart else omission.affects,
        )


def _omissions(job: Job) -> tuple[Omission, ...]:
    """The rows of the job's program."""
    if not program_of(job.settings.defaults).fine_tunes:
        return NOT_MODELLED
    from tuner.trainers.verl.coverage.fine_tuning import FINE_TUNING  # few jobs are of it

    return FINE_TUNING


def _key(omission: Omission, job: Job) -> str | None:
    """The key by which the job has what is left out."""
    if not omission.holds(job.version):
        return None
    if omission.trigger is not None:
        return omission.trigger(job)
    covered = (key for key in job.changed if omission.covers(key, job.version))
    keys = (key for key in covered if not any(group.covers(key, job.version) for group in NO_EFFECT))
    if omission.rest:
        from tuner.trainers.verl.coverage.classes import nothing_else_covers  # few jobs come here

        keys = (key for key in keys if nothing_else_covers(key, job.version))
    return next(keys, None)
