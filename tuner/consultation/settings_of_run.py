"""Settings that a configuration leaves open and the metrics of its run show."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.errors import Location
from tuner.inputs.overrides import Argument
from tuner.inputs.user_input import Remark, UserInput
from tuner.language import _
from tuner.trainers.protocol import ShownSetting


def with_settings_of_run(given: UserInput, job: JobReading, premises: Premises) -> UserInput:
    """What was given, with what the metrics of its log show and neither it nor an option says.

    Args:
        given: with the log of its run, which holds no settings of its own.
        job: as it is read without that.
        premises: what the options say.
    """
    runs, settings = job.loaded.trainer.runs, job.loaded.settings
    if given.log is None or runs is None or job.reading.workload.rollout is None:
        return given
    said = premises.gpus_per_node is not None or premises.nodes is not None or job.card.per_node is not None
    shown = [one for one in runs.shown_settings(given.log.steps, job.loaded) if not (one.of_cluster and said)]
    taken = [one for one in shown if not settings.is_set(one.key)]
    place = Location(source=given.log_source or given.source)
    remarks = [_remark(one, place) for one in taken] + _differing(
        job, [one for one in shown if one.of_cluster]
    )
    keys = {one.key for one in taken}
    return replace(
        given,
        arguments=(
            *given.arguments,
            *(Argument(text=f"{one.key}={one.value}", location=place) for one in taken),
        ),
        unsettled=tuple(one for one in given.unsettled if one.key not in keys),
        of_log=(*given.of_log, *(replace(remark, location=place) for remark in remarks)),
    )


def _remark(setting: ShownSetting, place: Location) -> Remark:
    text = _("{key}={value} is not set, and taken from {metric}").format(
        key=setting.key, value=setting.value, metric=setting.metric
    )
    return Remark(text=text, location=place)


def _differing(job: JobReading, shown: Sequence[ShownSetting]) -> list[Remark]:
    """A remark where the run had another number of GPUs than the configuration sets."""
    settings = job.loaded.settings
    differing = [one for one in shown if settings.is_set(one.key) and settings.integer(one.key) != one.value]
    return [
        Remark(
            text=_("{metric} shows {key}={value}, and {place} has {other}").format(
                metric=one.metric,
                key=one.key,
                value=one.value,
                place=settings.origin(one.key) or job.given.source,
                other=settings.integer(one.key),
            ),
            location=Location(source=job.given.source),
        )
        for one in differing
    ]
