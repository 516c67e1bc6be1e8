"""Makes a bundle of a run: its settings, what was measured of it and what is predicted today."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tuner import __version__
from tuner.consultation.bundled_settings import sent_settings
from tuner.consultation.consult import consult_job
from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.errors import InputError
from tuner.gpus import find_gpu
from tuner.inputs.record.bundle import Bundle, BundledStep, PredictedPhase
from tuner.inputs.record.form import Ended, RecordProcess, Step
from tuner.inputs.record.read import RunRecord, WorkerRecord
from tuner.language import N_, _, ngettext
from tuner.timing import phase_interval
from tuner.trainers.protocol import RunReader

STEP = "step"
_MOST_LINES = 1000  # of a worker: the last ones, and those with the highest peaks before them
_NODE = "node"
_PEAKS = ("allocated_bytes", "reserved_bytes", "process_bytes", "card_bytes")
_RELEASE = re.compile(r"[\w.+-]{1,40}")
_RATE = re.compile(r"[\w.+/ -]{1,40}")
# What an option may say that is a number or a rate, and no name.
_SAID = (
    *("engine_version", "gpu_memory", "network", "storage", "mean_prompt", "mean_response", "response_p95"),
    *("tool_seconds", "turns", "tool_tokens", "images_per_prompt", "image_pixels", "host_memory_gib"),
)
#: What a record names and a bundle does not.
OF_RECORD = N_("names of nodes, numbers of processes and times of day")
OF_METRICS = N_("metrics that are no seconds, lengths or bytes")


def bundle(source: str, words: Sequence[str], premises: Premises, *, log: str | None = None) -> Bundle:
    """Put a run into a bundle.

    Args:
        source: as :func:`~tuner.consultation.consult.consult` takes it.
        words: what follows it.
        premises: what is said beside it.
        log: the file of the log of the run.

    Raises:
        TunerError: the run cannot be predicted, nothing of it was measured, or nobody names its card.
    """
    answer, job = consult_job(source, words, premises, log=log)
    if answer.run is None:
        raise InputError(
            _("nothing in it is of a run that has ended a step"),
            hint=_("give the folder of a record, or a log, or a configuration with --log"),
        )
    if answer.gpu_assumed:
        raise InputError(_("nobody says which card it ran on"), hint=_("give --gpu NAME"))
    settings = sent_settings(job, premises.model)
    reader = job.loaded.trainer.runs
    assert reader is not None  # which has read the run
    record, given = job.given.record, job.given
    steps = () if given.log is None or record is not None else given.log.steps
    logged = [step.values for step in (steps if record is None else record.steps)]
    hidden = list(settings.hidden)
    if settings.unnamed:
        text = ngettext(
            "{count} setting whose key the release does not have",
            "{count} settings whose keys the release does not have",
            settings.unnamed,
        )
        hidden.append(text.format(count=settings.unnamed))
    if record is not None:
        hidden.append(_(OF_RECORD))
    if any(reader.sent_metrics(values) != values for values in logged):
        hidden.append(_(OF_METRICS))
    return Bundle(
        tuner_version=__version__,
        trainer=job.loaded.trainer.name,
        program=settings.program,
        overrides=settings.overrides,
        premises=_stated_premises(job, premises),
        models=settings.models,
        software=_software(record),
        record=() if record is None else tuple(map(msgspec.to_builtins, _lines(record, reader))),
        steps=tuple(BundledStep(step=one.step, metrics=reader.sent_metrics(one.values)) for one in steps),
        predicted=tuple(_predicted(answer)),
        hidden=tuple(hidden),
    )


def _stated_premises(job: JobReading, premises: Premises) -> dict[str, Any]:
    """Release, card and their number as they were taken, and the numbers that options say.

    Raises:
        InputError: the card is none that others know.
    """
    cluster, release = job.reading.workload.cluster, job.release
    try:
        find_gpu(cluster.gpu.name)
    except InputError:
        raise InputError(
            _("the card {name} is described by a file of yours, which others do not have").format(
                name=cluster.gpu.name
            ),
            hint=_("give the name of a bundled profile: --gpu NAME"),
        ) from None
    options = {name: getattr(premises, name) for name in _SAID}
    return {
        "verl_version": release.unbundled or release.version,
        "gpu": cluster.gpu.name,
        "gpus_per_node": cluster.gpus_per_node,
        "nodes": cluster.nodes,
        **{name: value for name, value in options.items() if _is_plain(value)},
    }


def _is_plain(value: object) -> bool:
    """Whether an option says a number, a release or a rate."""
    return isinstance(value, int | float) or (isinstance(value, str) and bool(_RATE.fullmatch(value)))


def _software(record: RunRecord | None) -> dict[str, str]:
    """The releases that a record tells."""
    if record is None:
        return {}
    process = record.process
    told = {job: release for job, release in (("torch", process.torch), ("tuner", process.tuner)) if release}
    told |= {} if record.run is None else record.run.software
    return {
        name: text for name, text in told.items() if _RELEASE.fullmatch(name) and _RELEASE.fullmatch(text)
    }


def _lines(record: RunRecord, reader: RunReader) -> Iterator[RecordProcess | Ended | Step]:
    """The lines of a record without names of nodes, and with times from its own begin."""
    processes = [worker.process for worker in record.workers]
    processes += [] if record.trainer is None else [record.trainer]
    zero = min(process.begun for process in processes)
    nodes: dict[str, str] = {}
    for process in processes:
        nodes.setdefault(process.host, f"{_NODE}-{len(nodes) + 1}")

    def nameless(process: RecordProcess) -> RecordProcess:
        return replace(
            process,
            host=nodes[process.host],
            pid=0,
            begun=process.begun - zero,
            role=process.role if _RELEASE.fullmatch(process.role) else "worker",
            gpu=None,  # the premises name its profile
            **{name: _release(getattr(process, name)) for name in ("verl", "torch")},
        )

    if record.trainer is not None:
        yield nameless(record.trainer)
        for step in record.steps:
            yield Step(step=step.step, metrics=reader.sent_metrics(step.values))
    for worker in record.workers:
        yield nameless(worker.process)
        for line in _ended_phases(worker):
            failed = "failed" if line.failed else None
            yield replace(line, begun=max(0.0, line.begun - zero), failed=failed)


def _release(text: str | None) -> str | None:
    return text if text is not None and _RELEASE.fullmatch(text) else None


def _ended_phases(worker: WorkerRecord) -> Iterable[Ended]:
    """The last phases of a worker, and before them those with the highest peaks."""
    last = worker.phases[-_MOST_LINES:]
    before = worker.phases[: -len(last)] if last else ()
    highest: dict[int, Ended] = {}
    for phase in {line.phase for line in before}:
        of_phase = [(place, line) for place, line in enumerate(before) if line.phase is phase]
        for name in _PEAKS:
            place, line = max(of_phase, key=lambda one: getattr(one[1], name) or 0)
            highest[place] = line
    return (*(highest[place] for place in sorted(highest)), *last)


def _predicted(answer: Consultation) -> Iterator[PredictedPhase]:
    """Every phase of the step, then the step."""
    advice = answer.advice
    for phase in advice.estimate.phases:
        time = advice.time.phase(phase.phase)
        seconds = None if time is None else phase_interval(time, advice.workload.cluster)
        yield PredictedPhase(
            phase=phase.phase.value,
            seconds=None if seconds is None else seconds.seconds,
            low_s=None if seconds is None else seconds.low_s,
            high_s=None if seconds is None else seconds.high_s,
            allocated_bytes=phase.allocated_bytes,
            allocated_high_bytes=phase.allocated_high_bytes,
        )
    step = advice.step
    yield PredictedPhase(phase=STEP, seconds=step.seconds, low_s=step.low_s, high_s=step.high_s)
