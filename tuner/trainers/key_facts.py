"""What the estimate makes of a trainer's keys, and what became of a key between two configurations."""

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.inputs.settings import Origin
from tuner.language import N_


class Affects(Enum):
    """What is missing from the answer where a part of a job is left out."""

    GPU = N_("GPU memory")
    HOST = N_("host memory")
    SECONDS = N_("seconds")


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


class KeyClassification(Struct, frozen=True):
    """What the estimate makes of one key, and why it has no effect or what is not counted."""

    kind: KeyKind | None = None
    reason: str = ""


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
