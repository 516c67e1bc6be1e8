"""Configurations as advice reads them, of no trainer: their keys are the paths of the workload's fields."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from unittest.mock import patch

from tuner import rules
from tuner.advise import Advice, Written, advise
from tuner.advise.differences import changes, merged
from tuner.findings import Finding, Numerics
from tuner.workload import Workload

HEADROOM = 0.1
Write = Callable[[Workload], tuple[str, ...]]


def paths(before: Workload, after: Workload) -> tuple[str, ...]:
    """Overrides of a trainer whose keys are the workload's own fields."""
    return tuple(f"{'.'.join(path)}={value}" for path, value in changes(before, after).items())


class PathReading:
    """A workload with findings; what is written as overrides is read back from them."""

    releases = None

    def __init__(
        self, workload: Workload, findings: Sequence[Finding] = (), write: Write | None = None
    ) -> None:
        self.workload = workload
        self.findings = tuple(findings)
        self._write = write
        self._known: dict[str, tuple[tuple[str, ...], object]] = {}

    def write(self, proposal: Workload) -> Written:
        if self._write is not None:
            self._write(proposal)
        texts = paths(self.workload, proposal)
        fields = changes(self.workload, proposal).items()
        self._known.update(dict(zip(texts, fields, strict=True)))
        return Written(overrides=texts, workload=proposal)

    def averages_elsewhere(self) -> bool:
        return False

    def serving_releases(
        self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]
    ) -> str:
        return ""

    def adding(self, overrides: Sequence[str]) -> "PathReading":
        """With overrides; a finding that asked for one of them is silent then."""
        fields = dict(self._known[text] for text in overrides if text in self._known)
        left = [finding for finding in self.findings if not set(finding.overrides) & set(overrides)]
        reading = PathReading(merged(self.workload, fields), left, self._write)
        reading._known = self._known
        return reading


def advice_of(
    workload: Workload,
    findings: Sequence[Finding] | None = None,
    *,
    write: Write | None = None,
    allow: Sequence[Numerics] = (),
    known: Sequence[Workload] = (),
) -> Advice:
    """The advice for a workload: what the rules say of it, or what these findings alone say.

    Overrides that findings carry are read as the fields of ``known`` workloads.
    """
    reading = PathReading(workload, findings or (), write)
    for other in known:
        reading.write(other)
    # Not those that it chooses from, which are chosen once for all jobs that generate nothing.
    silent = nullcontext() if findings is None else patch.object(rules, "modules_for", return_value=())
    with silent:
        return advise(reading, headroom=HEADROOM, allow=allow)
