"""A configuration as advice sees it: what it says, how a change is written, and what it says then."""

from collections.abc import Sequence
from typing import Protocol

from tuner.advise.releases import ReleaseRange
from tuner.findings import Finding, Written
from tuner.workload import Workload


class Reading(Protocol):
    """One configuration as a release of its trainer reads it."""

    @property
    def workload(self) -> Workload:
        """What the release makes of it."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What the trainer's checks say about it."""

    @property
    def releases(self) -> ReleaseRange | None:
        """What the job may take where its release is not bundled."""

    def write(self, proposal: Workload) -> Written:
        """The proposal as overrides of this configuration.

        Raises:
            ValueError: the release has no keys for the change.
        """

    def adding(self, overrides: Sequence[str]) -> "Reading":
        """The configuration with overrides behind those that it has.

        Raises:
            ValueError: the release refuses to read it.
        """
