"""Reads what was given as a job: a configuration on a release, with its models and its cards."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise import ReleaseRange, release_range
from tuner.consultation.bounds import expect_possible, lengths_of
from tuner.consultation.cluster import ChosenGpu, choose_cluster, open_number
from tuner.consultation.models import Models
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.findings import Finding, Written
from tuner.hardware import Cluster
from tuner.inputs.launch_input import with_missing_config
from tuner.inputs.user_input import AlternativeLaunch, OpenArgument, UserInput
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Configuration, Loaded, RolloutEngineChoice
from tuner.trainers.registry import trainer_of
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.consultation.open_findings import FindingsOfWay


class JobReading(Struct, frozen=True, kw_only=True):
    """One configuration on one release, read as a job, with the reasons for what it was read with."""

    given: UserInput
    configuration: Configuration
    release: ReleaseChoice
    loaded: Loaded
    rollout_engine: RolloutEngineChoice | None
    card: ChosenGpu
    model_reason: str
    gpus_reason: str
    reading: "_ConfigurationReading"
    alternatives: "tuple[AlternativeJob, ...]" = ()  # that a script would start instead


class AlternativeJob:
    """A job that a script would start instead, read when it is asked for."""

    def __init__(
        self, given: UserInput, way: AlternativeLaunch, read: Callable[[UserInput], JobReading]
    ) -> None:
        self.way = way
        from tuner.inputs.alternative_launches import alternative_input  # few scripts have another way

        self._given, self.open_keys = alternative_input(given, way)
        self._read = read

    @cached_property
    def job(self) -> JobReading | TunerError:
        """The job; the error where it cannot be read."""
        try:
            return self._read(self._given)
        except TunerError as error:
            return error

    def findings(self, overrides: tuple[str, ...]) -> "FindingsOfWay":
        """What checks say of the job with further overrides."""
        from tuner.consultation.open_findings import FindingsOfWay

        return FindingsOfWay(way=self.way, open_keys=self.open_keys, read=partial(self._findings, overrides))

    def _findings(self, overrides: tuple[str, ...]) -> Sequence[Finding] | None:
        if isinstance(self.job, JobReading):
            reading = self.job.reading
            with suppress(ValueError):
                return (reading.adding(overrides) if overrides else reading).findings
        return None


def configuration_of(given: UserInput, release: ReleaseChoice | None = None) -> Configuration:
    """What was given, as the trainer takes it.

    Args:
        given: by the user.
        release: that it will be laid on, where that is known.

    Raises:
        TunerError: it is malformed, or for another program.
    """
    trainer = trainer_of(given.document, given.arguments, program=given.program)
    return trainer.parse(
        given.document,
        given.arguments,
        program=given.program,
        folder=given.folder,
        processes=given.processes,
        folders=given.folders,
        environment=given.environment,
        package="" if release is None else release.package,
    )


def release_of(given: UserInput, premises: Premises) -> ReleaseChoice:
    """The release to lay on: the requested one, or what the configuration and the machine tell.

    Raises:
        TunerError: no such release is known, or the configuration is malformed.
    """
    trainer = trainer_of(given.document, given.arguments, program=given.program)
    own = None if premises.verl_version is not None else configuration_of(given).release
    reader = trainer.runs
    ran = None if given.record is None or reader is None else reader.release_of(given.record)

    def choose(requested: str | None) -> ReleaseChoice:
        return trainer.bundled.choose(requested, own, ran=ran)

    release = premises.read("verl_version", premises.verl_version, choose)
    return replace(release, reason=premises.reason_with_source("verl_version", release.reason))


def read_job(
    given: UserInput,
    premises: Premises,
    *,
    card: ChosenGpu,
    release: ReleaseChoice,
    zero_advantage_ratio: float | None = None,
) -> JobReading:
    """Lay what was given on the defaults of a release, and read the job that it makes of it.

    Raises:
        TunerError: something in the configuration or the options cannot be used.
    """
    configuration = configuration_of(given, release)
    given = replace(given, remarks=(*given.remarks, *configuration.remarks(release.version)))
    loaded = configuration.on(release.version)
    if loaded.base.installed:
        release = replace(release, unbundled=None)  # what it does is read from it
    if loaded.base.missing is not None:
        given = with_missing_config(given, loaded.base.missing)
    models = Models(given, loaded, premises)
    model, model_reason = models.actor()
    launched = configuration.processes_per_node
    cluster, gpus_reason = choose_cluster(loaded, premises, card, launched)
    open_gpus = open_number(premises, card, launched, given.processes)
    if open_gpus is not None:
        gpus_reason = _("an assumption: {text} decides it").format(text=open_gpus.text)
    circumstances = _Circumstances(
        premises=premises,
        given=given,
        model=model,
        cluster=cluster,
        zero_advantage_ratio=zero_advantage_ratio,
        open_gpus=open_gpus,
    )
    alternatives = _alternatives(given, premises, card, release)
    reading = _ConfigurationReading(circumstances, release, configuration, loaded, alternatives)
    expect_possible(reading.workload, premises)
    if premises.trace:
        from tuner.trace.limits import expect_counted

        expect_counted(reading.workload)
    return JobReading(
        given=given,
        configuration=configuration,
        release=release,
        loaded=loaded,
        rollout_engine=circumstances.rollout_engine(loaded),
        card=card,
        model_reason=model_reason,
        gpus_reason=gpus_reason,
        reading=reading,
        alternatives=alternatives,
    )


def _alternatives(
    given: UserInput, premises: Premises, card: ChosenGpu, release: ReleaseChoice
) -> tuple[AlternativeJob, ...]:
    """The jobs that a script would start instead, none of them read yet."""

    def read(other: UserInput) -> JobReading:
        of_program = release if other.program == given.program else release_of(other, premises)
        return read_job(other, premises, card=card, release=of_program)

    return tuple(AlternativeJob(given, way, read) for way in given.alternatives)


class _Circumstances(Struct, frozen=True, kw_only=True):
    """What surrounds a job, whatever release reads its settings."""

    premises: Premises
    given: UserInput
    model: ModelShape
    cluster: Cluster
    zero_advantage_ratio: float | None
    open_gpus: OpenArgument | None = None  # what decides how many a node has, where only a run would tell

    def rollout_engine(self, loaded: Loaded, version: str | None = None) -> RolloutEngineChoice | None:
        """The version of the rollout engine: the one asked for, else the given one, else the release's."""
        named = self.premises.engine_version

        def choose(requested: str | None) -> RolloutEngineChoice | None:
            return loaded.choose_rollout_engine(
                requested=requested,
                look=self.premises.verl_version is None,  # a named release need not be this machine's
            )

        engine = self.premises.read("engine_version", version if named is None else named, choose)
        if engine is None:
            return None
        reason = self.premises.reason_with_source("engine_version", engine.reason)
        return replace(engine, reason=reason)

    def critic_model(self, loaded: Loaded) -> ModelShape | None:
        return self._models(loaded).critic()

    def _models(self, loaded: Loaded) -> Models:
        return Models(self.given, loaded, self.premises)

    def workload(self, loaded: Loaded, rollout_engine: RolloutEngineChoice | None) -> Workload:
        return loaded.workload(
            model=self.model,
            critic_model=self.critic_model(loaded),
            cluster=self.cluster,
            rollout_engine_version=None if rollout_engine is None else rollout_engine.version,
            lengths=lengths_of(self.premises),
            zero_advantage_ratio=self.zero_advantage_ratio,
            service_models=self._models(loaded).services(),
        )

    def releases(
        self, configuration: Configuration, release: ReleaseChoice, workload: Workload
    ) -> ReleaseRange | None:
        """What the job may take under a release that is not bundled; None of one that is."""
        if release.unbundled is None:
            return None

        def read(version: str, rollout_engine_version: str | None) -> Workload:
            loaded = configuration.on(version)
            return self.workload(loaded, self.rollout_engine(loaded, rollout_engine_version))

        behaviours = configuration.trainer.behaviours(release.unbundled, workload, read)
        return release_range(
            f"{workload.release.trainer} {release.unbundled}",
            [(behaviour.name, behaviour.workload) for behaviour in behaviours],
        )


class _ConfigurationReading:
    """The user's configuration, or the same with overrides that advice would add to it."""

    def __init__(
        self,
        circumstances: _Circumstances,
        release: ReleaseChoice,
        configuration: Configuration,
        loaded: Loaded,
        alternatives: Sequence[AlternativeJob],
        added: tuple[str, ...] = (),
    ) -> None:
        self._alternatives = alternatives
        self._added = added
        self._circumstances = circumstances
        self._release = release
        self._configuration = configuration
        self._loaded = loaded
        self._further: dict[tuple[str, ...], _ConfigurationReading] = {}

    @cached_property
    def workload(self) -> Workload:
        """What the release makes of it."""
        return self._circumstances.workload(self._loaded, self._circumstances.rollout_engine(self._loaded))

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """What the trainer's checks say about it; milder where that rests on what nobody knows."""
        given = self._circumstances.given
        findings: Sequence[Finding] = self._loaded.check(self.workload)
        if self._circumstances.open_gpus is not None:
            findings = self._on_any_number(findings, self._circumstances.open_gpus)
        if not (given.unsettled or self._alternatives):
            return findings
        from tuner.consultation.open_findings import with_open  # most inputs leave nothing open

        ways = [alternative.findings(self._added) for alternative in self._alternatives]
        return with_open(findings, self._loaded.settings, given.unsettled, ways)

    def _on_any_number(self, findings: Sequence[Finding], opened: OpenArgument) -> Sequence[Finding]:
        """The findings, milder where they do not hold of one GPU on a node: how many there are is open."""
        from tuner.consultation.open_findings import with_open_gpus

        one = replace(
            self._circumstances, cluster=replace(self._circumstances.cluster, gpus_per_node=1), open_gpus=None
        )
        try:
            alone = self._loaded.check(one.workload(self._loaded, one.rollout_engine(self._loaded)))
        except TunerError:  # what is asked of several cannot be read for one
            return findings
        return with_open_gpus(findings, alone, opened, self._circumstances.cluster.gpus_per_node)

    @cached_property
    def releases(self) -> ReleaseRange | None:
        """What the job may take where its release is not bundled."""
        return self._circumstances.releases(self._configuration, self._release, self.workload)

    def write(self, proposal: Workload) -> Written:
        """The proposal as overrides; ValueError where the release has no keys for it."""
        return self._writer(proposal)

    @cached_property
    def _writer(self) -> Callable[[Workload], Written]:
        return self._loaded.override_writer(self.workload)

    def adding(self, overrides: Sequence[str]) -> "_ConfigurationReading":
        """The configuration with further overrides; ValueError where the release refuses to read it."""
        added = tuple(overrides)
        if added not in self._further:
            try:
                configuration = self._configuration.adding(added)
                loaded = configuration.on(self._loaded.version)
                loaded.settings.keep_from(self._loaded.settings)
                reading = _ConfigurationReading(
                    self._circumstances,
                    self._release,
                    configuration,
                    loaded,
                    self._alternatives,
                    self._added + added,
                )
                reading.workload  # noqa: B018 - a value that cannot be read is an error here
            except TunerError as error:
                raise ValueError(str(error)) from error
            self._further[added] = reading
        return self._further[added]
