"""A :class:`Review` of configurations, which holds an :class:`InputFindings` for each input.

No terminal and no output format is known here; each format is a rendering of a :class:`Review`.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from tuner.findings import Severity
from tuner.review.input_findings import FindingLine, InputFindings, InputProblem
from tuner.review.totals import Totals


class KnownFinding(Struct, frozen=True, kw_only=True):
    """An entry of a baseline that no finding of this run answers to any more."""

    source: str  # the input, from the folder of the baseline on
    code: str
    key: str  # the configuration key or phase that it was about; empty where it was about the whole job
    count: int


class BaselineComparison(Struct, frozen=True, kw_only=True):
    """All findings beside those that were known before."""

    file: str
    new: int
    unchanged: int
    fixed: tuple[KnownFinding, ...]
    pruned: bool = False  # the file holds the fixed ones no longer


class ReviewedInputs(Protocol):
    """What is found in each input, in their order, to be read as often as somebody asks.

    A tuple is one, and so is what holds thousands of them out of memory.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> InputFindings: ...

    def __iter__(self) -> Iterator[InputFindings]: ...


class Review(Struct, frozen=True, kw_only=True, dict=True):
    """All inputs that were checked together, in the order in which they were named."""

    inputs: ReviewedInputs
    skipped: tuple[str, ...] = ()  # files in folders that are no configuration of a trainer
    pasted: bool = False  # the input is one command as it is typed
    baselines: tuple[BaselineComparison, ...] = ()  # what the findings were held against

    @property
    def lines(self) -> Iterator[FindingLine]:
        """What is reported of all inputs."""
        return (line for checked in self.inputs for line in checked.lines)

    @property
    def problems(self) -> Iterator[InputProblem]:
        """Why inputs cannot be used."""
        if not self.totals.unusable:
            return iter(())
        return (checked.problem for checked in self.inputs if checked.problem is not None)

    @cached_property
    def totals(self) -> Totals:
        """What is counted of all inputs together."""
        return Totals(self.inputs)

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings of each severity are reported, worst first."""
        counted = self.totals.severities
        return {severity: counted[severity] for severity in Severity if counted[severity]}

    @property
    def fails(self) -> bool:
        """Whether a finding is as bad as what makes the check of its input fail."""
        return self.totals.failing > 0
