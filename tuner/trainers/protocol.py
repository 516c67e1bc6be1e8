"""What a trainer has to provide: everything that the program asks of one, and no more.

A trainer is a package below ``tuner/trainers/`` whose names fulfil :class:`Trainer`. Its configuration
keys, its releases and its bugs are known there and nowhere else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from tuner.findings import Finding, Rule, Written
from tuner.hardware import Cluster
from tuner.inputs.overrides import Argument
from tuner.inputs.settings import Origin, Settings
from tuner.inputs.user_input import MissingConfiguration, Remark
from tuner.inputs.yaml_file import Document
from tuner.model_shape import ModelShape
from tuner.trainers.bundled_releases import BundledReleases, ReleaseChoice
from tuner.trainers.key_facts import Affects, KeyChange, KeyClass, KeyState, OfferedKey
from tuner.workload import ANY_LENGTHS, Batch, Lengths, Quantity, ServiceRole, TokenBytes, Workload

if TYPE_CHECKING:
    from tuner.inputs.earlier_programs import EarlierProgram
    from tuner.inputs.environment import EnvironmentVariable
    from tuner.inputs.installed_packages import CheckedOut, InstalledPackage
    from tuner.inputs.log.metrics import StepMetrics
    from tuner.inputs.placed_packages import PlacedPackage
    from tuner.inputs.record.read import RunRecord
    from tuner.inputs.user_input import Count, Processes
    from tuner.other_base import OtherBase
    from tuner.out_of_memory.stack import Call
    from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit
    from tuner.workload.engine import Engine
    from tuner.workload.observed_run import ObservedRun
    from tuner.workload.place import FailurePlace
    from tuner.workload.validation import Validating


class RolloutEngineChoice(Struct, frozen=True, kw_only=True):
    """A version of the rollout engine and why it was taken."""

    name: str  # of the engine, for messages
    version: str
    reason: str
    may_chunk: bool = False  # older ones that are allowed as well chunk prompts whatever they are asked
    others: tuple[str, ...] = ()  # older ones that it may be as well, oldest first, as far as they are known
    passed_over: str = ""  # what files ask for and the trainer does not start with; empty: nothing


class Base(Struct, frozen=True, kw_only=True):
    """Which of a release's configurations the user's settings are laid on, and how to ask for it again."""

    name: str
    words: tuple[str, ...] = ()  # in front of overrides; none for the one that is taken by itself
    keys: tuple[str, ...] = ()  # a file that holds only what differs is laid on the same one by these
    checkout: str = ""  # the version that the trainer's own tree tells, where the configuration is read there
    installed: bool = False  # that tree is the installed package
    lacks: tuple[str, ...] = ()  # sections whose files that tree lacks; its generated configuration has them
    laid_on: str = ""  # the file that the launch's program names, where that is in the tree
    missing: MissingConfiguration | None = None  # the user's own that a launch names in its place


class LeftOut(Struct, frozen=True, kw_only=True):
    """A part of the job that the estimate does not count, and the setting by which the job has it."""

    name: str  # completes "the job fits, without ..."
    key: str
    value: object
    origin: Origin | None  # of the value
    reason: str  # what the trainer does there that is not counted
    affects: Affects
    priced_as: str = ""  # what the seconds have in its place, one sentence; empty: nothing


class Behaviour(Struct, frozen=True, kw_only=True):
    """One way in which a job may run under a release that is not bundled."""

    name: str  # completes "it peaks at 70 GiB ..."
    workload: Workload


Reader = Callable[[str, str | None], Workload]
"""The workload as a bundled release reads it, with a version of the rollout engine or with its own choice."""


class Loaded(Protocol):
    """A user's configuration on the defaults of the release that it rests on: it reads and checks itself.

    What its members are handed as ``workload`` is what its method of this name made of it.
    """

    @property
    def trainer(self) -> "Trainer":
        """The trainer that it configures."""

    @property
    def settings(self) -> Settings:
        """Every setting with its origin."""

    @property
    def version(self) -> str:
        """The release that it rests on."""

    @property
    def base(self) -> Base:
        """The release's configuration that it is laid on."""

    @property
    def model_key(self) -> str:
        """The key that names the model that is trained."""

    @property
    def critic_model_key(self) -> str:
        """The key that names the critic's model."""

    def names_another_model(self, key: str) -> bool:
        """Whether a key names a model by itself, so that what it has tells nothing of the policy's."""

    @property
    def validates_only(self) -> bool:
        """Whether the launch validates the model, or generates, and ends before its first update."""

    def validated_batch(self, batch: Batch, rows: int | None) -> Batch:
        """The batch that a validation generates at a time, of so many rows of its data; a step's if None."""

    @property
    def validating_alone(self) -> "Validating | None":
        """How a launch validates that does no more; None where nobody knows how."""

    def validation_batch_override(self, prompts: int) -> str:
        """The override with which a validation generates so many rows at a time."""

    @property
    def generates_only(self) -> bool:
        """Whether such a launch does not even validate: what it generates is all that it is for."""

    @property
    def validating(self) -> "Validating | None":
        """How the job validates between its steps; None where it does not, and where nobody knows how."""

    @property
    def planned_steps(self) -> int | None:
        """How many steps the job is to take; None where no setting says."""

    def steps_over(self, rows: int) -> int | None:
        """How many steps all epochs have over so many rows of data; None where the settings do not say."""

    def model_path(self) -> str | None:
        """Where the actor's model comes from; None where nobody says."""

    def critic_model_path(self) -> str | None:
        """Where the critic's model comes from; None without a critic, and where nobody says."""

    def service_paths(self) -> tuple[tuple[ServiceRole, str], ...]:
        """Where the models come from that judge responses in the job: of a reward model, of teachers."""

    def cluster_size(self) -> tuple[int, int]:
        """The trainer's GPUs per node, and nodes."""

    def cluster_overrides(self, gpus_per_node: int, nodes: int) -> tuple[str, ...]:
        """What has the trainer take so many GPUs; nothing where it does, or where other settings say it."""

    @property
    def card_vendor(self) -> str | None:
        """Whose cards the settings name, as a profile calls them; None where they name those of no vendor."""

    def choose_rollout_engine(
        self, *, requested: str | None, look: bool, architecture: str = ...
    ) -> RolloutEngineChoice | None:
        """The version of the rollout engine; None where the trainer generates by itself, or not at all.

        The one that is ``requested``, else the installed one if that is to be looked for, else the newest
        that the release allows.

        Raises:
            InputError: ``requested`` is no version number, or the release refuses it when it starts.
        """

    def workload(
        self,
        *,
        model: ModelShape,
        critic_model: ModelShape | None,
        cluster: Cluster,
        rollout_engine_version: str | None = None,
        lengths: Lengths = ANY_LENGTHS,
        zero_advantage_ratio: float | None = None,
        service_models: Mapping[str, ModelShape] = ...,
    ) -> Workload:
        """What the release makes of the settings; its own behaviour becomes plain facts in it.

        Raises:
            InputError: a value has the wrong type or makes no workload.
            UnsupportedError: the settings ask for what is not modelled.
        """

    def check(self, workload: Workload) -> list[Finding]:
        """What the checks of raw settings find: unknown, dead and renamed keys, what the release rejects."""

    def override_writer(self, before: Workload) -> Callable[[Workload], Written]:
        """A function that writes a proposal as overrides, to be added to the settings of ``before``.

        The function raises ValueError where the release has no keys for the change. What it writes,
        ``workload`` reads as the workload beside it: the proposal, with what the release does of its
        own accord.
        """

    def resting_on_defaults(self, workload: Workload) -> tuple[tuple[str, object], ...]:
        """Keys that decide what fits and that nobody set, with the defaults that are used."""

    def quantities(self, keys: Iterable[str]) -> dict[str, Quantity]:
        """The quantity behind each of these keys, where the memory model can vary it."""

    def left_out(self, workload: Workload) -> tuple[LeftOut, ...]:
        """What the settings ask for and the workload does not hold: none with the release's defaults."""

    def keys_of_copy(self) -> tuple[str, ...]:
        """The keys that the user sets and that a copy of the trainer has alone; none are modelled."""

    def keys_of_fields(self, workload: Workload) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """The keys that decide each field of the workload, by its path."""

    def deciding_keys(self, place: "FailurePlace", workload: Workload) -> tuple[str, ...]:
        """The keys that decide how much memory the job takes at a place."""

    def releases_with(self, key: str) -> tuple[str, ...]:
        """The bundled releases that have a key, whichever this configuration rests on."""

    def key_states(self, keys: Iterable[str]) -> Mapping[str, KeyState]:
        """Keys as this configuration has them."""

    def changes(self, after: "Loaded") -> tuple[KeyChange, ...]:
        """The keys that differ from those of another configuration of the same trainer, modelled ones first.

        Both have been read. Keys that touch neither job are among them, marked as such.
        """


class Configuration(Protocol):
    """What the user gave, read once and not yet laid on the defaults of a release."""

    @property
    def trainer(self) -> "Trainer":
        """The trainer that it configures."""

    def on(self, version: str) -> Loaded:
        """The whole configuration, as a bundled release has it.

        Raises:
            InputError: a section is given a plain value.
            UnsupportedError: the configuration is for a part of the trainer that is not modelled.
        """

    @property
    def release(self) -> ReleaseChoice | None:
        """The release that the configuration itself tells, by its project or its defaults, if any."""

    @property
    def processes_per_node(self) -> "Count | None":
        """The processes on a node that the launch itself starts, where each has a GPU; None elsewhere."""

    def remarks(self, version: str) -> tuple[Remark, ...]:
        """What is taken to be so when it is laid on the defaults of a bundled release."""

    def adding(self, overrides: Sequence[str]) -> "Configuration":
        """The configuration with overrides behind those of the user.

        Raises:
            InputError: an override is malformed.
        """


class ShownSetting(Struct, frozen=True, kw_only=True):
    """A setting that the metrics of a run show."""

    key: str
    value: int
    metric: str  # by which it is known
    of_cluster: bool = False  # options may say it


class RunReader(Protocol):
    """What a trainer's runs print and record, as the answer needs it."""

    def observed_run(self, steps: "Sequence[StepMetrics]", workload: Workload) -> "ObservedRun | None":
        """What the metrics of a run's steps say of the job; None where they say nothing of it."""

    def shown_settings(self, steps: "Sequence[StepMetrics]", loaded: Loaded) -> tuple["ShownSetting", ...]:
        """Settings of the cluster and the batch that the metrics of steps show, be they set or not."""

    def with_record(
        self, record: "RunRecord", observed: "ObservedRun | None", workload: Workload
    ) -> "ObservedRun | None":
        """What a run's log says with what its workers recorded; None where neither says anything."""

    def release_of(self, record: "RunRecord") -> str | None:
        """The release that a run was recorded with; None where nobody knows."""

    def sent_metrics(self, values: "Mapping[str, float]") -> dict[str, float]:
        """The metrics of a step that tell seconds, lengths and memory: what a run may be sent with."""

    def noted_settings(self, note: str) -> tuple[str, ...]:
        """Overrides of what the note on a published run names by its key as switched on."""

    def engine_version_of(self, release: str, nearest: Workload) -> str | None:
        """The rollout engine's version under a release that is not bundled, where ``nearest`` has another."""

    def engine_of_pass(self, engine: "Engine", model: ModelShape, *, images: bool) -> "Engine":
        """The engine of a pass that was measured alone, with what the newest release adds of its own accord.

        ``engine`` holds what the record of the pass says, and ``images`` whether its prompts have any.
        """

    def printed_utilisation(self, metrics: dict[str, float]) -> float | None:
        """The model FLOP utilisation of the actor's update among a step's metrics; None without."""

    def utilisation(self, workload: Workload, seconds: float) -> float | None:
        """What the trainer would print of it for an update of so many seconds; None where it counts none."""


class KeyCatalogue(Protocol):
    """What is known of every key of a trainer's bundled releases."""

    def key_classes(self, version: str) -> tuple[KeyClass, ...]:
        """Every key of a bundled release's configuration once, by what the estimate makes of it."""

    def input_schema(self, version: str) -> dict[str, Any]:
        """The JSON Schema of the configurations that a bundled release takes."""

    def offered_keys(self, version: str, begun: str) -> tuple[OfferedKey, ...]:
        """The keys of a bundled release that begin so, for somebody who types one."""


class Trainer(Protocol):
    """A trainer, as the commands, the renderings and the documentation see it."""

    @property
    def name(self) -> str:
        """What the trainer is called in messages."""

    @property
    def bundled(self) -> BundledReleases:
        """The releases whose defaults travel with the program."""

    @property
    def rules(self) -> tuple[tuple[Rule, ModuleType], ...]:
        """The checks of raw settings, each with the module whose docstring is its page."""

    @property
    def examples(self) -> Path:
        """The folder with a table of cases for each rule and check, written in the trainer's keys."""

    @property
    def token_bytes(self) -> TokenBytes:
        """What a micro-batch has beside activations."""

    @property
    def runs(self) -> RunReader | None:
        """What reads logs and records of runs; None where nothing does."""

    @property
    def catalogue(self) -> KeyCatalogue | None:
        """What describes every key; None where nothing does."""

    def recognises(self, document: Document | None, given: Sequence[Argument], *, program: str) -> bool:
        """Whether a configuration by its keys, or a launch by its program, is surely for this trainer."""

    def may_configure(self, text: str, *, yaml: bool) -> bool:
        """Whether a file of a folder looks like a configuration, a launch or a log of the trainer."""

    def parse(
        self,
        document: Document | None,
        given: Sequence[Argument],
        *,
        program: str = ...,
        folder: str = ...,
        processes: "Processes | None" = ...,
        folders: Sequence[str] = ...,
        package: str = ...,
        requested: bool = ...,
        environment: "Sequence[EnvironmentVariable]" = ...,
        earlier: "Sequence[EarlierProgram]" = ...,
        installed: "Sequence[InstalledPackage]" = ...,
        placed: "Sequence[PlacedPackage]" = ...,
        checked_out: "Sequence[CheckedOut]" = ...,
    ) -> Configuration:
        """Take a configuration file, the arguments of a launch, or both.

        ``program`` is the module or file that the launch starts, ``folder`` where it lies; both may be empty.
        ``processes`` are those that it starts, where it says how many. ``folders`` are those in which it
        starts the program and has Python look for modules, as far as it says so. ``package`` is where the
        trainer is installed that would run it, where its release is not bundled; none of it is imported.
        ``requested`` says that the user names the release it is laid on, which decides between copies of it.
        ``environment`` has the variables that a script gives the program, ``earlier`` the programs before it
        that may change a model's configuration, and ``installed`` the packages that it says how to install,
        in one version each. ``placed`` are the folders that it links, copies or moves to where Python looks
        for modules, ``checked_out`` the repositories that it brings to a version or a commit.

        Raises:
            InputError: a file that the document names or an argument is malformed.
            UnsupportedError: the configuration is for another program of the trainer.
        """

    def behaviours(self, release: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
        """The ways in which a job may run under a release that is not bundled, ``nearest`` first."""

    def placed(
        self, loaded: Loaded, workload: Workload, placement: "Placement", split: "PoolSplit"
    ) -> "PlacedLaunch":
        """How the release of a colocated job is told to generate elsewhere.

        Raises:
            UnsupportedError: it has no way to, or none for this job.
        """

    def strategy_lines(self, loaded: "Loaded", workload: Workload, name: str) -> tuple[str, ...]:
        """Overrides with which the trainer's engine shards otherwise; none where it does so already.

        Args:
            loaded: the job as it is.
            workload: what that does.
            name: of the strategy, as the trainer calls it.

        Raises:
            UnsupportedError: there is no such strategy, or the release has none for this job.
        """

    def other_base(self, before: "Loaded", after: "Loaded", program: str) -> "OtherBase | None":
        """What a launch needs where a key is varied by which it rests on another configuration.

        Args:
            before: the job as it is.
            after: with the key.
            program: that the launch starts; empty where it is not known.

        Returns:
            None: lines are enough.
        """

    def place_of(self, calls: "Sequence[Call]") -> "FailurePlace":
        """Where a job was when it stopped, as the calls of its stack tell, the innermost last."""

    def deciding_keys(self, place: "FailurePlace", version: str) -> tuple[str, ...]:
        """The keys by which a release decides how much memory a job of which nothing is known takes there."""
