"""Reads two configurations, or one on two releases, and compares what the model says of each."""

from collections.abc import Sequence
from functools import partial

from tuner.advise.comparison import judge
from tuner.consultation.bounds import expect_trainer_modelled
from tuner.consultation.cluster import choose_card, machine_of
from tuner.consultation.comparison import ConfigurationDiff, Side, compared
from tuner.consultation.counted_cards import premises_of_script, read_for_node
from tuner.consultation.job import JobReading, configuration_of, read_job, release_of
from tuner.consultation.premises import Premises
from tuner.consultation.verdicts import is_node_said, judged_beyond_memory
from tuner.counted import counted
from tuner.errors import InputError, TunerError
from tuner.inputs.named_inputs import Input
from tuner.inputs.reading import read_given
from tuner.inputs.user_input import UserInput, with_shown_lost
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.key_facts import KeyChange
from tuner.trainers.protocol import Loaded


def compare(inputs: Sequence[Input], premises: Sequence[Premises]) -> ConfigurationDiff:
    """Two configurations, and what the difference does to the job.

    Args:
        inputs: of both sides; the same one twice is read once.
        premises: what is said beside each side.

    Raises:
        TunerError: something in a configuration or the premises cannot be used.
    """
    given = _read_inputs(inputs, premises)
    premises = [
        premises_of_script(one, of_side, assumed=choose_card(of_side).assumed)
        for one, of_side in zip(given, premises, strict=True)
    ]
    releases = [release_of(one, of_side) for one, of_side in zip(given, premises, strict=True)]
    if inputs[0] is inputs[1]:
        _expect_two(inputs[0].config, releases, premises)
    jobs = [
        _read(one, of_side, release) for one, of_side, release in zip(given, premises, releases, strict=True)
    ]
    keys = _changes(jobs[0].loaded, jobs[1].loaded)  # before checks look at more
    before, after = (
        _side(job, one, of_side) for job, one, of_side in zip(jobs, inputs, premises, strict=True)
    )
    engines_named = any(of_side.engine_version is not None for of_side in premises)
    return compared(before, after, keys=keys, engines_named=engines_named)


def _expect_two(config: str, releases: Sequence[ReleaseChoice], premises: Sequence[Premises]) -> None:
    """Raise InputError where one configuration is to be compared with itself, on one release and engine."""
    first, second = ((release.version, release.unbundled) for release in releases)
    if first == second and premises[0].engine_version == premises[1].engine_version:
        raise InputError(
            _("there is nothing to compare {config} with").format(config=config),
            hint=_("give a second configuration, or two releases: --release OLDER,NEWER"),
        )


def _read_inputs(inputs: Sequence[Input], premises: Sequence[Premises]) -> list[UserInput]:
    """What they hold; one that stands for both is read once."""
    first, second = inputs
    given = _read_input(first, premises[0])
    return [given, given if second is first else _read_input(second, premises[1])]


def _read_input(one: Input, premises: Premises) -> UserInput:
    machine = machine_of(choose_card(premises), premises)
    return read_for_node(machine, partial(read_given, one.config, one.words, launch=premises.launch))


def _read(given: UserInput, premises: Premises, release: ReleaseChoice) -> JobReading:
    """One side; an error names the release, since the other one may read it."""
    card = choose_card(premises)
    try:
        return read_job(given, premises, card=card, release=release)
    except TunerError as error:
        message = _("on {trainer} {version}: {message}").format(
            trainer=configuration_of(given).trainer.name, version=release.version, message=error.message
        )
        raise type(error)(message, location=error.location, key=error.key, hint=error.hint) from None


def _changes(before: Loaded, after: Loaded) -> tuple[KeyChange, ...]:
    """The keys that differ; two trainers have none in common, and what differs is told without keys."""
    return before.changes(after) if before.trainer is after.trainer else ()


def _side(job: JobReading, named: Input, premises: Premises) -> Side:
    engine, loaded = job.rollout_engine, job.loaded
    workload = job.reading.workload
    expect_trainer_modelled(workload, _("tuner advise judges its rollout"))
    cluster = workload.cluster
    return Side(
        given=with_shown_lost(job.given, loaded.settings.shown_override),
        words=() if named.pasted else tuple(map(loaded.settings.shown_override, named.words)),
        loaded=loaded,
        release_reason=job.release.reason,
        rollout_engine=None if engine is None else f"{engine.name} {engine.version}",
        model=workload.model.name,
        gpus=_("{gpus} x {gpu} on {nodes}").format(
            gpus=cluster.gpus, gpu=cluster.gpu.name, nodes=counted(cluster.nodes, "node")
        ),
        gpu_assumed=job.card.assumed,
        node_said=is_node_said(job, premises),
        job=judged_beyond_memory(judge(job.reading, headroom=premises.headroom), job, premises),
        left_out=job.left_out,
    )
