"""What is found in one configuration, an :class:`InputFindings`: its findings, and what they were judged for.

No terminal and no output format is known here.
"""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise.answer import Price
from tuner.enumeration import Enum
from tuner.errors import Location
from tuner.field_marks import Bytes, Seconds
from tuner.findings import Finding, Severity

_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Edit(Struct, frozen=True, kw_only=True):
    """A piece of a file and what stands there afterwards."""

    start: Annotated[int, Meta(description="bytes from the beginning of the file")]
    end: Annotated[int, Meta(description="behind the last byte that is replaced")]
    text: str


class Fix(Struct, frozen=True, kw_only=True):
    """Edits of one file that fix a finding."""

    title: str  # what it does, in one line
    source: str  # the file
    edits: tuple[Edit, ...]  # in the order of the file; none touches another
    safe: Annotated[
        bool,
        Meta(
            description="the training computes the same: tuner check --fix may apply it, else --unsafe-fixes"
        ),
    ]
    hides: bool = False  # it stands beside what may be a secret: its lines are not shown
    tried: bool = False  # --fix was tried on the file with this finding
    refused: str = ""  # why --fix leaves the finding; empty where it fixes it, or nobody tried

    @property
    def removes_finding(self) -> bool:
        """Whether it is known that ``--fix`` leaves nothing of the finding."""
        return self.safe and self.tried and not self.refused


class Excerpt(Struct, frozen=True, kw_only=True):
    """The line of an input that a finding is about, and which of its characters."""

    text: str  # without what ends the line
    start: int  # from 0
    end: int  # behind the last one
    shown: tuple[int, int] | None = None  # what of the line is shown, where that is not all of it


class FindingLine(Struct, frozen=True, kw_only=True):
    """A finding with its place in the user's input."""

    location: Location
    finding: Finding
    overrides: tuple[str, ...]
    key: str = ""  # the configuration key that it is about; empty where it is about the whole job
    origin: str = ""  # where the value of the key came from, where that is no line of the input
    section: str = ""  # at which the finding stands because nobody set the key
    excerpt: Excerpt | None = None  # None where the place is no line that can be shown
    fix: Fix | None = None
    no_fix: str = ""  # why there is no fix, where one could be expected
    price: Price | None = None  # what its overrides cost or gain; None where they change nothing modelled
    gain: str = ""  # the price in words
    effect: str = ""  # of its overrides on the training, in words
    idle: bool = False  # its proposal gains nothing: it is not reported, and a comment may ignore it
    minor: bool = False  # it is true and brings too little for lines of its own
    in_block: bool = False  # it buys memory or time: the block is judged with it, and no fix writes it
    above_all: bool = False  # it says what all other findings rest on

    @property
    def code(self) -> str:
        """The rule's code, such as ``ROL013``."""
        return self.finding.code

    @property
    def rank(self) -> tuple[bool, int, str, int, int, str]:
        """What findings are sorted by: worst first, then in the file's order."""
        place = self.location
        return (
            not self.above_all,
            _RANK[self.finding.severity],
            place.source,
            place.line or 0,
            place.column or 0,
            self.code,
        )

    def at_least(self, severity: Severity) -> bool:
        """Whether the finding is as bad as ``severity`` or worse."""
        return _RANK[self.finding.severity] <= _RANK[severity]


class SilencedBy(Enum):
    """What keeps a finding from being reported. The values are those of SARIF's ``suppressions[].kind``."""

    COMMENT = "inSource"
    BASELINE = "external"


class Silenced(Struct, frozen=True, kw_only=True):
    """A finding that is known and accepted."""

    line: FindingLine
    by: SilencedBy
    reason: str = ""  # as the user gave it


class InputProblem(Struct, frozen=True, kw_only=True):
    """Why an input cannot be used."""

    message: str  # one line for a terminal, the place and the hint in it
    location: Location


class CheckedGpu(Struct, frozen=True, kw_only=True):
    """The card that files were checked for."""

    name: str
    memory_bytes: Annotated[int, Meta(description="bytes that processes can have")]
    reason: Annotated[str, Meta(description="which option named it, or how it was found")]
    assumed: Annotated[bool, Meta(description="nothing named the card")]


class JudgedFor(Struct, frozen=True, kw_only=True):
    """What one input was judged for, and why."""

    trainer: str
    release: str
    release_reason: str
    release_likely: Annotated[
        tuple[str, ...], Meta(description="of which the release is a guess; empty where something names it")
    ]
    # such as "vllm 0.18.0"
    engine: Annotated[str | None, Meta(description="null where the trainer generates by itself")]
    engine_reason: str | None
    gpu: CheckedGpu


class PhaseUse(Struct, frozen=True, kw_only=True):
    """Memory and seconds of one phase on one GPU."""

    phase: str  # "update_actor"
    peak_bytes: Bytes
    low_bytes: Bytes
    high_bytes: Bytes
    seconds: Seconds | None  # None where no time is known of it
    low_s: Seconds | None
    high_s: Seconds | None


class InputFindings(Struct, frozen=True, kw_only=True):
    """One input that was checked."""

    source: str  # as it was named
    lines: tuple[FindingLine, ...] = ()  # what is reported, worst first
    silenced: tuple[Silenced, ...] = ()
    left_out: int = 0  # findings that the settings do not ask for
    fail_on: Severity = Severity.WARNING  # least severity with which the check fails
    baseline: str = ""  # the file of known findings that the project's settings name
    unshown: frozenset[int] = frozenset()  # lines of it that may hold a secret
    problem: InputProblem | None = None  # nothing else is known where there is one
    judged_for: JudgedFor | None = None
    phases: tuple[PhaseUse, ...] = ()  # in the order of a step
    gpus: Annotated[int, Meta(description="of the whole job; 0 where the input cannot be used")] = 0
    # None where the job does not run
    step_s: Annotated[Seconds | None, Meta(description="seconds of one step")] = None
    low_s: Seconds | None = None
    high_s: Seconds | None = None
