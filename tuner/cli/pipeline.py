"""From a configuration to an answer: the one way that ``advise`` and ``check`` share."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise import Advice, ReleaseRange, advise, release_range
from tuner.cli.find_model import model_shape
from tuner.cli.hardware import ChosenGpu, choose_card, choose_cluster
from tuner.cli.lengths import LENGTHS, expect_possible, lengths_of
from tuner.cli.named_models import Models
from tuner.cli.premises import OPTIONS, Premises
from tuner.cli.sizes import expect_modelled
from tuner.errors import InputError, TunerError
from tuner.findings import Finding, Numerics, Written
from tuner.hardware import Cluster
from tuner.inputs.named_config import with_missing_config
from tuner.inputs.reading import read_given
from tuner.inputs.settings import Settings
from tuner.inputs.user_input import UserInput, with_shown_lost
from tuner.memory.fitting.limits import values_that_fit
from tuner.model_shape import ModelShape
from tuner.models import find_config
from tuner.render.consultation import Consultation, ProjectOption, RunComparison
from tuner.trainers.chosen import TRAINER
from tuner.trainers.protocol import Configuration, Loaded, ReleaseChoice, RolloutEngineChoice
from tuner.workload import ServiceRole, Workload
from tuner.workload.observed_run import ObservedRun

if TYPE_CHECKING:
    from tuner.advise.engine_start import EngineComparison


class Question(Struct, frozen=True, kw_only=True):
    """One configuration on one release, read as a job, with the reasons for what it was read with."""

    given: UserInput
    configuration: Configuration
    release: ReleaseChoice
    loaded: Loaded
    rollout_engine: RolloutEngineChoice | None
    card: ChosenGpu
    model_reason: str
    gpus_reason: str
    reading: "_Reading"


def configuration_of(given: UserInput) -> Configuration:
    """What was given, as the trainer takes it.

    Raises:
        TunerError: it is malformed, or for another program.
    """
    return TRAINER.parse(
        given.document,
        given.arguments,
        program=given.program,
        folder=given.folder,
        processes=given.processes,
    )


def release_of(given: UserInput, requested: str | None) -> ReleaseChoice:
    """The release to lay on: the requested one, or what the configuration and the machine tell."""
    own = None if requested is not None else configuration_of(given).release
    ran = None if given.record is None else given.record.process.verl
    return TRAINER.choose_release(requested, own, ran=ran)


def read_job(
    given: UserInput,
    premises: Premises,
    *,
    card: ChosenGpu,
    release: ReleaseChoice,
    zero_advantage_ratio: float | None = None,
) -> Question:
    """Lay what was given on the defaults of a release, and read the job that it makes of it.

    Raises:
        TunerError: something in the configuration or the options cannot be used.
    """
    configuration = configuration_of(given)
    given = replace(given, remarks=(*given.remarks, *configuration.remarks(release.version)))
    loaded = configuration.on(release.version)
    if loaded.base.missing is not None:
        given = with_missing_config(given, loaded.base.missing)
    models = Models(given, loaded.settings, premises)
    with premises.naming_source("model"):
        model, model_reason = models.actor()
    cluster, gpus_reason = choose_cluster(loaded.settings, premises, card)
    job = _Job(
        premises=premises,
        given=given,
        model=model,
        cluster=cluster,
        zero_advantage_ratio=zero_advantage_ratio,
    )
    with premises.naming_source("engine_version"):
        rollout_engine = job.rollout_engine(loaded)
    if rollout_engine is not None:
        reason = premises.reason_with_source("engine_version", rollout_engine.reason)
        rollout_engine = replace(rollout_engine, reason=reason)
    reading = _Reading(job, release, configuration, loaded)
    with premises.naming_source(*LENGTHS):
        expect_modelled(reading.workload)
        expect_possible(reading.workload.batch)
    if premises.trace:
        from tuner.trace.limits import expect_counted

        expect_counted(reading.workload)
    return Question(
        given=given,
        configuration=configuration,
        release=release,
        loaded=loaded,
        rollout_engine=rollout_engine,
        card=card,
        model_reason=model_reason,
        gpus_reason=gpus_reason,
        reading=reading,
    )


def consult(
    source: str,
    words: Sequence[str],
    premises: Premises,
    *,
    allow: Collection[Numerics] = (),
    zero_advantage_ratio: float | None = None,
    block: bool = True,
    content: bytes | None = None,
) -> Consultation:
    """Read, estimate and advise.

    Args:
        source: a file, ``-`` for standard input, or the first word of a pasted command.
        words: what follows it: overrides, or the arguments and variables of a script.
        premises: what the options say.
        allow: effects on the training that may be part of what is to be pasted.
        zero_advantage_ratio: share of the responses without advantage, None where nobody says.
        block: whether what is to be pasted is wanted, and what rests on defaults, beside the findings.
        content: in place of what the file has.

    Raises:
        TunerError: something in the configuration or the options cannot be used.
    """
    return consult_further(
        source,
        words,
        premises,
        allow=allow,
        zero_advantage_ratio=zero_advantage_ratio,
        block=block,
        content=content,
    )[0]


def consult_further(
    source: str,
    words: Sequence[str],
    premises: Premises,
    *,
    allow: Collection[Numerics] = (),
    zero_advantage_ratio: float | None = None,
    block: bool = True,
    content: bytes | None = None,
) -> tuple[Consultation, Callable[[Workload], Written]]:
    """The consultation, and a function that writes a further proposal as overrides of the configuration."""
    card = choose_card(premises)
    given = read_given(source, words, launch=premises.launch, content=content)
    if given.record is not None:
        from tuner.cli.recorded_run import card_of

        card = card_of(given.record, premises) or card
    with premises.naming_source("verl_version"):
        release = release_of(given, premises.verl_version)
    release = replace(release, reason=premises.reason_with_source("verl_version", release.reason))

    def read(premises: Premises) -> Question:
        ratio = zero_advantage_ratio
        return read_job(given, premises, card=card, release=release, zero_advantage_ratio=ratio)

    job, run, of_run = _with_run(given, premises, read)
    settings, version, workload = job.loaded.settings, job.loaded.version, job.reading.workload
    advice = _beside_steps(advise(job.reading, headroom=premises.headroom, allow=allow, block=block), given)
    # Of keys that nobody set an answer tells with its block.
    resting = TRAINER.resting_on_defaults(settings, workload, version=version) if block else ()
    asked = TRAINER.quantities((name for name, _ in resting), version=version)
    answer = Consultation(
        given=with_shown_lost(job.given, settings.shown_override),
        settings=settings,
        release_reason=job.release.reason,
        rollout_engine=job.rollout_engine,
        model_reason=job.model_reason,
        gpu_reason=job.card.reason,
        gpu_assumed=job.card.assumed,
        gpus_reason=job.gpus_reason,
        node_said=card.per_node is not None or premises.gpus_per_node is not None,
        from_project=from_settings(premises),
        resting=resting,
        fitting=tuple((name, values_that_fit(workload, quantity)) for name, quantity in asked.items()),
        left_out=TRAINER.left_out(settings, workload, version=version),
        advice=advice,
        of_run=of_run,
        run=None if run is None else _beside(run, advice, job),
        engine=_engine_beside(given, advice),
    )
    return answer, job.reading.write


def from_settings(premises: Premises, names: Collection[str] = OPTIONS) -> tuple[ProjectOption, ...]:
    """What the settings of a project say in place of the options of these fields."""
    return tuple(
        ProjectOption(option=OPTIONS[name], value=getattr(premises, name), location=place)
        for name, place in premises.places
        if name in names
    )


def _with_run(
    given: UserInput, premises: Premises, read: Callable[[Premises], Question]
) -> tuple[Question, ObservedRun | None, tuple[str, ...]]:
    """The job with the lengths of its run where a log tells them, the run, and the names of these."""
    job = read(premises)
    run = None if given.log is None else TRAINER.observed(given.log.steps, job.reading.workload)
    if given.record is not None:
        run = TRAINER.recorded(given.record, run, job.reading.workload)
    if run is None:
        return job, None, ()
    from tuner.cli.observed_run import with_lengths

    source_of, names = with_lengths(premises, run, job.reading.workload.batch)
    return (read(source_of) if names else job), run, names


def _beside_steps(advice: Advice, given: UserInput) -> Advice:
    if given.log is None:
        return advice
    from tuner.cli.observed_run import with_what_ran

    return with_what_ran(advice, given.log.steps)


def _beside(run: ObservedRun, advice: Advice, job: Question) -> RunComparison:
    from tuner.cli.observed_run import run_comparison

    return run_comparison(advice, run, job.loaded.settings, job.loaded.version)


def _engine_beside(given: UserInput, advice: Advice) -> "EngineComparison | None":
    if given.log is None or given.log.engine is None:
        return None
    from tuner.advise.engine_start import engine_comparison

    return engine_comparison(advice, given.log.engine)


class _Job(Struct, frozen=True, kw_only=True):
    """What stays the same whatever release reads the settings."""

    premises: Premises
    given: UserInput
    model: ModelShape
    cluster: Cluster
    zero_advantage_ratio: float | None

    def rollout_engine(self, loaded: Loaded, version: str | None = None) -> RolloutEngineChoice | None:
        """The version of the rollout engine: the one asked for, else the given one, else the release's."""
        named = self.premises.engine_version
        return TRAINER.choose_rollout_engine(
            loaded.settings,
            version=loaded.version,
            requested=version if named is None else named,
            look=self.premises.verl_version is None,  # a release that was named need not be this machine's
        )

    def critic_model(self, loaded: Loaded) -> ModelShape | None:
        with self.premises.naming_source("critic_model"):
            return Models(self.given, loaded.settings, self.premises).critic()

    def workload(self, loaded: Loaded, rollout_engine: RolloutEngineChoice | None) -> Workload:
        return TRAINER.read(
            loaded.settings,
            version=loaded.version,
            model=self.model,
            critic_model=self.critic_model(loaded),
            cluster=self.cluster,
            rollout_engine_version=None if rollout_engine is None else rollout_engine.version,
            lengths=lengths_of(self.premises),
            zero_advantage_ratio=self.zero_advantage_ratio,
            service_models=_service_models(loaded, self.premises),
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

        behaviours = TRAINER.behaviours(release.unbundled, workload, read)
        return release_range(
            f"{workload.release.trainer} {release.unbundled}",
            [(behaviour.name, behaviour.workload) for behaviour in behaviours],
        )


class _Reading:
    """The user's configuration, or the same with overrides that advice would add to it."""

    def __init__(
        self, job: _Job, release: ReleaseChoice, configuration: Configuration, loaded: Loaded
    ) -> None:
        self._job = job
        self._release = release
        self._configuration = configuration
        self._loaded = loaded
        self._further: dict[tuple[str, ...], _Reading] = {}

    @cached_property
    def workload(self) -> Workload:
        """What the release makes of it."""
        return self._job.workload(self._loaded, self._job.rollout_engine(self._loaded))

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """What the trainer's checks say about it."""
        return TRAINER.check(self._loaded.settings, self.workload, version=self._loaded.version)

    @cached_property
    def releases(self) -> ReleaseRange | None:
        """What the job may take where its release is not bundled."""
        return self._job.releases(self._configuration, self._release, self.workload)

    def write(self, proposal: Workload) -> Written:
        """The proposal as overrides; ValueError where the release has no keys for it."""
        return self._writer(proposal)

    @cached_property
    def _writer(self) -> Callable[[Workload], Written]:
        return TRAINER.override_writer(self.workload, self._loaded.settings, version=self._loaded.version)

    def adding(self, overrides: Sequence[str]) -> "_Reading":
        """The configuration with further overrides; ValueError where the release refuses to read it."""
        added = tuple(overrides)
        if added not in self._further:
            try:
                configuration = self._configuration.adding(added)
                loaded = configuration.on(self._loaded.version)
                loaded.settings.keep_from(self._loaded.settings)
                reading = _Reading(self._job, self._release, configuration, loaded)
                reading.workload  # noqa: B018 - a value that cannot be read is an error here
            except TunerError as error:
                raise ValueError(str(error)) from error
            self._further[added] = reading
        return self._further[added]


def model_config(settings: Settings, premises: Premises) -> dict[str, Any]:
    """The ``config.json`` of the model that :func:`consult` took."""
    path = premises.model if premises.model is not None else TRAINER.model_path(settings)
    assert path is not None  # consult has refused it
    return dict(find_config(path).values)


def _service_models(loaded: Loaded, premises: Premises) -> dict[str, ModelShape]:
    """The models of a reward model and of teachers that are known, by their paths; others are left out."""
    models = {}
    for role, path in TRAINER.service_paths(loaded.settings, version=loaded.version):
        named = premises.reward_model if role is ServiceRole.REWARD else None
        try:
            with premises.naming_source("reward_model"):
                models[path] = model_shape(named or path, trace=premises.trace)
        except InputError:
            if named is not None:
                raise
    return models
