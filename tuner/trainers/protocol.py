"""What a trainer has to provide: everything that the program asks of one, and no more.

A trainer is a package below ``tuner/trainers/`` whose names fulfil :class:`Trainer`. Its configuration
keys, its releases and its bugs are known there and nowhere else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.findings import Finding, Rule, Written
from tuner.hardware import Cluster
from tuner.inputs.overrides import Argument
from tuner.inputs.settings import Origin, Settings
from tuner.inputs.user_input import Remark
from tuner.inputs.yaml_file import Document
from tuner.language import N_
from tuner.model_shape import ModelShape
from tuner.workload import ANY_LENGTHS, Lengths, Quantity, ServiceRole, Workload

if TYPE_CHECKING:
    from tuner.inputs.log.metrics import StepMetrics
    from tuner.inputs.processes import Processes
    from tuner.inputs.record.read import RunRecord
    from tuner.out_of_memory.stack import Call
    from tuner.workload.observed_run import ObservedRun
    from tuner.workload.place import FailurePlace


class ReleaseChoice(Struct, frozen=True, kw_only=True):
    """A release of the trainer whose defaults travel with the program, and why it was taken."""

    version: str
    reason: str
    unbundled: str | None = None  # the release that was meant, where that one does not travel with it
    certain: bool = False  # whatever is installed


class RolloutEngineChoice(Struct, frozen=True, kw_only=True):
    """A version of the rollout engine and why it was taken."""

    name: str  # of the engine, for messages
    version: str
    reason: str


class Base(Struct, frozen=True, kw_only=True):
    """Which of a release's configurations the user's settings are laid on, and how to ask for it again."""

    name: str
    words: tuple[str, ...] = ()  # in front of overrides; none for the one that is taken by itself
    keys: tuple[str, ...] = ()  # a file that holds only what differs is laid on the same one by these
    missing: str | None = None  # the user's own that a launch names in its place, and that was not to be had


class Loaded(Struct, frozen=True, kw_only=True):
    """A user's configuration on the defaults of the release that it rests on."""

    settings: Settings
    version: str
    base: Base


class Affects(Enum):
    """What is missing from the answer where a part of a job is left out."""

    GPU = N_("GPU memory")
    HOST = N_("host memory")
    SECONDS = N_("seconds")


class LeftOut(Struct, frozen=True, kw_only=True):
    """A part of the job that the estimate does not count, and the setting by which the job has it."""

    name: str  # completes "the job fits, without ..."
    key: str
    value: object
    origin: Origin | None  # of the value
    reason: str  # what the trainer does there that is not counted
    affects: Affects


class KeyKind(Enum):
    """What the estimate makes of a key."""

    MODELLED = "modelled"
    NO_EFFECT = "no effect"
    NOT_MODELLED = "not modelled"


class KeyClass(Struct, frozen=True, kw_only=True):
    """Keys of a release that the estimate treats alike for one reason."""

    kind: KeyKind
    name: str = ""
    reason: str = ""  # why there is no effect, or what is not counted
    affects: Affects | None = None  # what is missing from the answer where it is not counted
    keys: tuple[str, ...]


class OfferedKey(Struct, frozen=True, kw_only=True):
    """A key that a shell offers to somebody who types one."""

    key: str
    default: str  # as an override has it; empty where another key decides it, or it is no number and no word
    help: str  # what the estimate makes of it; empty where too many keys are offered to say so of each


class KeyFate(Enum):
    """What became of a key between two configurations, or two releases."""

    VALUE = "value"  # the user set it, to another value or in one of both only
    DEFAULT = "default"  # nobody set it, and the releases have different values
    RENAMED = "renamed"  # the later release reads another key for the same
    NEW = "new"  # the earlier release has no such key
    VANISHED = "vanished"  # the later release has no such key
    UNREAD = "unread"  # the later release has it and no longer reads it
    READ = "read"  # the earlier release had it and did not read it
    MEANING = "meaning"  # both read the same value, and make different things of it


class KeyState(Struct, frozen=True, kw_only=True):
    """A key in one of two configurations."""

    key: str
    value: object  # None where there is none
    origin: Origin | None  # None where there is no such key
    by_user: bool
    kind: KeyKind | None  # what the estimate makes of it; None where the release has no such key
    shown: object = None  # the value as it may be shown


class KeyChange(Struct, frozen=True, kw_only=True):
    """A key that differs between two configurations."""

    change: KeyFate
    before: KeyState
    after: KeyState
    touches: bool  # one of both jobs is read by it, or the user set it
    reason: str = ""  # why a key has no effect, or what is not counted

    @property
    def by_user(self) -> bool:
        """Whether the user set it in either."""
        return self.before.by_user or self.after.by_user

    @property
    def kind(self) -> KeyKind | None:
        """The more telling of what the estimate makes of it."""
        kinds = {self.before.kind, self.after.kind}
        return next(
            (kind for kind in (KeyKind.MODELLED, KeyKind.NOT_MODELLED, KeyKind.NO_EFFECT) if kind in kinds),
            None,
        )


class Behaviour(Struct, frozen=True, kw_only=True):
    """One way in which a job may run under a release that is not bundled."""

    name: str  # completes "it peaks at 70 GiB ..."
    workload: Workload


Reader = Callable[[str, str | None], Workload]
"""The workload as a bundled release reads it, with a version of the rollout engine or with its own choice."""


class Configuration(Protocol):
    """What the user gave, read once and not yet laid on the defaults of a release."""

    def on(self, version: str) -> Loaded:
        """The whole configuration, as a bundled release has it.

        Raises:
            InputError: a section is given a plain value.
            UnsupportedError: the configuration is for a part of the trainer that is not modelled.
        """

    @property
    def release(self) -> ReleaseChoice | None:
        """The release that the configuration itself tells, by its project or its defaults, if any."""

    def remarks(self, version: str) -> tuple[Remark, ...]:
        """What is taken to be so when it is laid on the defaults of a bundled release."""

    def adding(self, overrides: Sequence[str]) -> "Configuration":
        """The configuration with overrides behind those of the user.

        Raises:
            InputError: an override is malformed.
        """


class Trainer(Protocol):
    """A trainer, as the commands, the renderings and the documentation see it."""

    @property
    def name(self) -> str:
        """What the trainer is called in messages."""

    def model_key(self, settings: Settings) -> str:
        """The key that names the model that is trained."""

    @property
    def critic_model_key(self) -> str:
        """The key that names the critic's model."""

    @property
    def rules(self) -> tuple[tuple[Rule, ModuleType], ...]:
        """The checks of raw settings, each with the module whose docstring is its page."""

    @property
    def examples(self) -> Path:
        """The folder with a table of cases for each rule and check, written in the trainer's keys."""

    @property
    def bundled_releases(self) -> tuple[str, ...]:
        """The releases whose defaults travel with the program, oldest first."""

    def key_classes(self, version: str) -> tuple[KeyClass, ...]:
        """Every key of a bundled release's configuration once, by what the estimate makes of it."""

    def input_schema(self, version: str) -> dict[str, Any]:
        """The JSON Schema of the configurations that a bundled release takes."""

    def offered_keys(self, version: str, begun: str) -> tuple[OfferedKey, ...]:
        """The keys of a bundled release that begin so, for somebody who types one."""

    def choose_release(
        self, requested: str | None, own: ReleaseChoice | None = ..., *, ran: str | None = ...
    ) -> ReleaseChoice:
        """The release to rest on: the requested one, else the installed one, else the newest bundled one.

        What the configuration tells by its ``own`` stands before the last, and before the installed one
        where it is certain.

        Raises:
            InputError: ``requested`` is not a version number.
        """

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
    ) -> Configuration:
        """Take a configuration file, the arguments of a launch, or both.

        ``program`` is the module or file that the launch starts, ``folder`` where it lies; both may be empty.
        ``processes`` are those that it starts, where it says how many.

        Raises:
            InputError: a file that the document names or an argument is malformed.
            UnsupportedError: the configuration is for another program of the trainer.
        """

    def model_path(self, settings: Settings) -> str | None:
        """Where the actor's model comes from; None where nobody says."""

    def critic_model_path(self, settings: Settings) -> str | None:
        """Where the critic's model comes from; None without a critic, and where nobody says."""

    def service_paths(self, settings: Settings, *, version: str) -> tuple[tuple[ServiceRole, str], ...]:
        """Where the models come from that judge responses in the job: of a reward model, of teachers."""

    def cluster_size(self, settings: Settings) -> tuple[int, int]:
        """The trainer's GPUs per node, and nodes."""

    def choose_rollout_engine(
        self, settings: Settings, *, version: str, requested: str | None, look: bool
    ) -> RolloutEngineChoice | None:
        """The version of the rollout engine; None where the trainer generates by itself, or not at all.

        The one that is ``requested``, else the installed one if that is to be looked for, else the newest
        that the release allows.

        Raises:
            InputError: ``requested`` is no version number, or the release refuses it when it starts.
        """

    def read(
        self,
        settings: Settings,
        *,
        version: str,
        model: ModelShape,
        critic_model: ModelShape | None,
        cluster: Cluster,
        rollout_engine_version: str | None = None,
        lengths: Lengths = ANY_LENGTHS,
        zero_advantage_ratio: float | None = None,
        service_models: Mapping[str, ModelShape] = ...,
    ) -> Workload:
        """The workload that a release makes of its settings; its own behaviour becomes plain facts in it.

        Raises:
            InputError: a value has the wrong type or makes no workload.
            UnsupportedError: the settings ask for what is not modelled.
        """

    def check(self, settings: Settings, workload: Workload, *, version: str) -> list[Finding]:
        """What the checks of raw settings find: unknown, dead and renamed keys, what the release rejects."""

    def override_writer(
        self, before: Workload, settings: Settings, *, version: str
    ) -> Callable[[Workload], Written]:
        """A function that writes a proposal as overrides, to be added to the settings of ``before``.

        The function raises ValueError where the release has no keys for the change. What it writes,
        ``read`` reads as the workload beside it: the proposal, with what the release does of its own accord.
        """

    def resting_on_defaults(
        self, settings: Settings, workload: Workload, *, version: str
    ) -> tuple[tuple[str, object], ...]:
        """Keys that decide what fits and that nobody set, with the defaults that are used.

        ``settings`` and ``version`` are those that ``workload`` was read from.
        """

    def left_out(self, settings: Settings, workload: Workload, *, version: str) -> tuple[LeftOut, ...]:
        """What the settings ask for and the workload does not hold: none with the release's defaults.

        ``settings`` and ``version`` are those that ``workload`` was read from.
        """

    def quantities(self, keys: Iterable[str], *, version: str) -> dict[str, Quantity]:
        """The quantity behind each of these keys, where the memory model can vary it."""

    def changed_keys(self, before: Loaded, after: Loaded) -> tuple[KeyChange, ...]:
        """The keys that differ between two configurations which have been read, the modelled ones first.

        Those that touch neither job are among them, marked as such.
        """

    def keys_of_fields(
        self, settings: Settings, workload: Workload, *, version: str
    ) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        """The keys that decide each field of the workload which was read from the settings, by its path."""

    def key_state(self, loaded: Loaded, key: str) -> KeyState:
        """A key as one configuration has it."""

    def behaviours(self, asked: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
        """The ways in which a job may run under a release that is not bundled, ``nearest`` first."""

    def engine_version_of(self, asked: str, nearest: Workload) -> str | None:
        """The rollout engine's version under a release that is not bundled, where ``nearest`` has another."""

    def observed(self, steps: "Sequence[StepMetrics]", workload: Workload) -> "ObservedRun | None":
        """What the metrics of a run's steps say of the job; None where they say nothing of it."""

    def recorded(
        self, record: "RunRecord", observed: "ObservedRun | None", workload: Workload
    ) -> "ObservedRun | None":
        """What a run's log says with what its workers recorded; None where neither says anything."""

    def noted_settings(self, note: str) -> tuple[str, ...]:
        """Overrides of what the note on a published run names by its key as switched on."""

    def printed_utilisation(self, metrics: dict[str, float]) -> float | None:
        """The model FLOP utilisation of the actor's update among a step's metrics; None without."""

    def utilisation(self, workload: Workload, seconds: float) -> float | None:
        """What the trainer would print of it for an update of so many seconds; None where it counts none."""

    def place_of(self, calls: "Sequence[Call]") -> "FailurePlace":
        """Where a job was when it stopped, as the calls of its stack tell, the innermost last."""

    def deciding_keys(
        self,
        place: "FailurePlace",
        version: str,
        workload: Workload | None = ...,
        settings: Settings | None = ...,
    ) -> tuple[str, ...]:
        """The keys that decide how much memory a job, which may be known, takes at a place."""
