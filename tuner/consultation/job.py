"""Reads what was given as a job: a configuration on a release, with its models and its cards."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.consultation.bounds import expect_possible
from tuner.consultation.circumstances import Circumstances
from tuner.consultation.cluster import ChosenGpu, card_of_device, choose_cluster, open_number
from tuner.consultation.configuration_reading import ConfigurationReading
from tuner.consultation.counted_cards import premises_with_number
from tuner.consultation.models import Models
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.findings import Finding
from tuner.hardware import Cluster
from tuner.inputs.installed_packages import checked_out, installed_packages
from tuner.inputs.user_input import AlternativeLaunch, UserInput
from tuner.language import _
from tuner.override_text import override_key
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.key_facts import KeyKind
from tuner.trainers.protocol import Configuration, LeftOut, Loaded, RolloutEngineChoice
from tuner.trainers.registry import trainer_of
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.consultation.open_findings import FindingsOfWay
    from tuner.inputs.environment import EnvironmentVariable
    from tuner.inputs.user_input import Count, OpenArgument, UnreadFile


_OF_ENVIRONMENTS = (" activate ", "/bin/activate", "/bin/python", "VIRTUAL_ENV=")


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
    reading: ConfigurationReading
    alternatives: "tuple[AlternativeJob, ...]" = ()  # that a script would start instead
    open_gpus: "OpenArgument | None" = None  # of the launch, that says how many GPUs a node has

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What is not counted; nothing by the default of a key that only a file tells which is not read."""
        file = self.given.settings_file
        unseen = frozenset() if file is None else file.settings
        return tuple(one for one in self.loaded.left_out(self.reading.workload) if one.key not in unseen)


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
                return (reading.adding(overrides) if overrides else reading).release_findings
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
        placed=given.placed,
        checked_out=tuple(checked_out(given.text, given.source)) if given.program else (),
        environment=(*given.environment, *_python_environment(given)),
        earlier=given.earlier,
        installed=tuple(installed_packages(given.text, given.source)) if given.program else (),
        package="" if release is None else release.package,
        requested=release is not None and release.requested,
    )


def _python_environment(given: UserInput) -> "tuple[EnvironmentVariable, ...]":
    """The variable that names the environment whose Python a script runs, where it says so."""
    if not given.program or not any(word in given.text for word in _OF_ENVIRONMENTS):
        return ()
    from tuner.inputs.python_environment import python_environment  # of few scripts

    return python_environment(given.text, given.source)


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
    loaded = configuration.on(release.version)
    if loaded.base.installed or loaded.base.checkout:
        release = replace(release, unbundled=None)  # what it does is read from it
    given = _with_remarks(given, configuration, loaded)
    card = card_of_device(loaded, premises, card)
    launched = configuration.processes_per_node
    counting = _counting(given, premises, card, configuration, loaded)
    if counting is not None or open_number(premises, card, launched, given.processes) is not None:
        premises = premises_with_number(given, premises)
        counting = None if premises.gpus_per_node else counting
    circumstances, model_reason, gpus_reason = _circumstances(
        given, premises, loaded, card, launched, zero_advantage_ratio
    )
    if counting is not None:
        from tuner.consultation.startable_gpus import on_number_that_starts  # few launches leave it open

        assumed = circumstances.cluster.gpus_per_node
        circumstances = on_number_that_starts(circumstances, loaded)
        gpus_reason = _gpus_reason(counting, circumstances.cluster.gpus_per_node, assumed)
    alternatives = _alternatives(given, premises, card, release)
    reading = ConfigurationReading(circumstances, release, configuration, loaded, alternatives)
    _expect_possible(reading.workload, premises)
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
        open_gpus=counting,
    )


def _counting(
    given: UserInput, premises: Premises, card: ChosenGpu, configuration: Configuration, loaded: Loaded
) -> "OpenArgument | None":
    """The open argument that says how many GPUs a node has; None where that is said elsewhere."""
    said = premises.gpus_per_node or card.per_node or configuration.processes_per_node
    if said or not given.unsettled:
        return None
    from tuner.consultation.startable_gpus import argument_of_number  # few launches leave anything open

    return argument_of_number(configuration, loaded, given.unsettled)


def _gpus_reason(counting: "OpenArgument", gpus: int, default: int) -> str:
    """Why so many GPUs are assumed."""
    if gpus == default:
        return _("an assumption: {text} decides it").format(text=counting.text)
    text = _("an assumption: {text} decides it, and on {default} the job does not start")
    return text.format(text=counting.text, default=default)


def _circumstances(
    given: UserInput,
    premises: Premises,
    loaded: Loaded,
    card: ChosenGpu,
    processes_per_node: "Count | None",
    zero_advantage_ratio: float | None,
) -> tuple[Circumstances, str, str]:
    """What surrounds the job, with the reasons for its model and for its number of GPUs."""
    model, model_reason = Models(given, loaded, premises).actor()
    cluster, gpus_reason = choose_cluster(loaded, premises, card, processes_per_node)
    open_gpus = open_number(premises, card, processes_per_node, given.processes)
    if open_gpus is not None:
        gpus_reason = _("an assumption: {text} decides it").format(text=open_gpus.text)
    circumstances = Circumstances(
        premises=premises,
        given=given,
        model=model,
        cluster=cluster,
        zero_advantage_ratio=zero_advantage_ratio,
        open_gpus=open_gpus,
        own_gpus=_own_gpus(loaded, premises, card, cluster),
    )
    return circumstances, model_reason, gpus_reason


def _own_gpus(loaded: Loaded, premises: Premises, card: ChosenGpu, cluster: Cluster) -> int | None:
    """The GPUs of a node that the launch asks for, of the more that ``--gpu 8xNAME`` says; None of no fewer.

    A node may have more than the job takes: then what refuses the launch is asked of its own number.
    """
    own = loaded.cluster_size()[0]
    if (
        card.per_node != cluster.gpus_per_node
        or own >= cluster.gpus_per_node
        or "gpu" in dict(premises.places)
    ):
        return None
    lines = loaded.cluster_overrides(cluster.gpus_per_node, cluster.nodes)
    return own if any(loaded.settings.is_set(override_key(text)) for text in lines) else None


def _with_remarks(given: UserInput, configuration: Configuration, loaded: Loaded) -> UserInput:
    """What was given, with what was taken to be so when it was laid on the release."""
    given = replace(given, remarks=(*given.remarks, *configuration.remarks(loaded.version)))
    missing = loaded.base.missing
    if given.settings_file is not None:
        unseen = frozenset(key for key in given.settings_file.settings if not loaded.settings.is_set(key))
        given = replace(given, settings_file=replace(given.settings_file, settings=unseen))
    if missing is None and given.settings_file is not None:
        return _with_settings_file(given, given.settings_file, loaded)
    if missing is None:
        return given
    from tuner.inputs.launch_input import with_missing_config  # of few launches

    return with_missing_config(given, missing)


def _with_settings_file(given: UserInput, file: "UnreadFile", loaded: Loaded) -> UserInput:
    """What was given, with the file as what is missing where figures rest on settings that it alone tells."""
    models = (loaded.model_key, loaded.critic_model_key)  # without which there are no figures
    states = loaded.key_states(key for key in file.settings if key not in models)
    deciding = [key for key, state in states.items() if state.kind is KeyKind.MODELLED]
    if not deciding:
        return given
    from tuner.inputs.settings_file import missing_of  # few scripts have such a file

    return replace(given, missing=missing_of(file, deciding))


def _expect_possible(workload: Workload, premises: Premises) -> None:
    """Refuse premises that the job cannot have.

    Raises:
        TunerError: lengths beyond the job's, or layers that cannot be counted.
    """
    expect_possible(workload, premises)
    if premises.trace:
        from tuner.trace.limits import expect_counted

        expect_counted(workload)


def _alternatives(
    given: UserInput, premises: Premises, card: ChosenGpu, release: ReleaseChoice
) -> tuple[AlternativeJob, ...]:
    """The jobs that a script would start instead, none of them read yet."""

    def read(other: UserInput) -> JobReading:
        of_program = release if other.program == given.program else release_of(other, premises)
        return read_job(other, premises, card=card, release=of_program)

    return tuple(AlternativeJob(given, way, read) for way in given.alternatives)
