"""A configuration as advice sees it: what a release reads, or the range over what an unknown one may do."""

from collections.abc import Callable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from tuner.field_marks import Bytes, BytesInterval
from tuner.findings import Finding, Written
from tuner.memory import Estimate, estimate, mean_tokens_that_fit
from tuner.workload import Phase, Workload

_SHORTEST = 1 / 64  # of the maximum length; an eighth is not small enough to say that no length fits


class Considered(Struct, frozen=True, kw_only=True):
    """One way in which the job may run, and what it takes then."""

    name: str  # completes "it peaks at 70 GiB ..."
    estimate: Estimate

    @property
    def worst_phase(self) -> Phase:
        """The phase with the highest peak."""
        return self.estimate.worst.phase

    @property
    def worst_bytes(self) -> Bytes:
        """The highest peak."""
        return self.estimate.worst.peak_bytes

    @property
    def interval_bytes(self) -> BytesInterval:
        """The least and the most bytes of the highest peak."""
        return self.estimate.worst.interval

    @property
    def fits(self) -> bool:
        """Whether the job fits then."""
        return self.estimate.fits()

    @property
    def fits_at_high_end(self) -> bool:
        """Whether it does with the high end of every interval."""
        return self.estimate.fits_for_certain()


class ReleaseRange(Struct, frozen=True, kw_only=True):
    """A release that is not bundled, and the job under every behaviour that it may have."""

    release: str
    considered: Annotated[tuple[Considered, ...], Meta(description="first the one that the answer rests on")]
    mean_tokens: Annotated[
        int | None,
        Meta(description="mean tokens per sequence that fit with each; null where no length does"),
    ]
    certain_tokens: Annotated[
        int | None, Meta(description="the same, with the high end of every phase's interval")
    ]

    @property
    def least(self) -> Considered:
        """The behaviour with the lowest peak of the worst phase; the first of equals."""
        return min(self.considered, key=lambda behaviour: behaviour.estimate.worst.peak_bytes)

    @property
    def most(self) -> Considered:
        """The behaviour with the highest peak of the worst phase; the first of equals."""
        return max(self.considered, key=lambda behaviour: behaviour.estimate.worst.peak_bytes)

    @property
    def against(self) -> Considered | None:
        """The behaviour that fits least; None where the job fits with all."""
        failing = [behaviour for behaviour in self.considered if not behaviour.fits]
        return max(failing, key=lambda behaviour: behaviour.estimate.worst.peak_bytes, default=None)

    def fits_at_high_end(self) -> bool:
        """Whether the job fits with all behaviours, with the high end of every interval."""
        return all(behaviour.fits_at_high_end for behaviour in self.considered)


def release_range(release: str, behaviours: Sequence[tuple[str, Workload]]) -> ReleaseRange:
    """Price a job under each behaviour.

    Args:
        release: that was asked for.
        behaviours: names and workloads, first the one that the answer rests on.
    """
    considered = [Considered(name=name, estimate=estimate(job)) for name, job in behaviours]
    # The length that fits one bounds the others, so those that take most are asked first.
    pairs = zip(behaviours, considered, strict=True)
    ranked = sorted(pairs, key=lambda pair: pair[1].estimate.high_bytes, reverse=True)
    jobs = [job for (_, job), _ in ranked]
    return ReleaseRange(
        release=release,
        considered=tuple(considered),
        mean_tokens=mean_tokens_that_fit(jobs, shortest=_SHORTEST),
        certain_tokens=mean_tokens_that_fit(jobs, shortest=_SHORTEST, surely=True),
    )


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

    def averages_elsewhere(self) -> bool:
        """Whether another release that it may be of weighs tokens by how sequences are cut."""

    def serving_releases(
        self, overrides: tuple[str, ...], serves: Callable[[Workload, Workload], bool]
    ) -> str:
        """The releases in which overrides serve, where these are not all that it may be; else nothing.

        Args:
            overrides: that serve in the release that is taken.
            serves: whether the second workload is better than the first.
        """
