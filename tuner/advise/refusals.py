"""The job that starts: a configuration with the least that lifts what its trainer or engine refuses."""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.numerics import is_allowed, numerics
from tuner.advise.reading import Reading
from tuner.advise.verdicts import Verdict
from tuner.findings import Finding, Numerics, Severity
from tuner.language import _
from tuner.rules.case import Case

_MOST = 12  # repairs of one launch


class Refusal(Struct, frozen=True, kw_only=True):
    """A finding that ends the launch, and what lifts it."""

    finding: Finding
    overrides: tuple[str, ...]  # none where nothing that could be pasted lifts it
    numerics: Numerics  # what lifting it does to the training
    yours: bool  # it is not to be pasted without a decision

    @property
    def stands(self) -> bool:
        """Whether the figures are still those of a job that is refused for this reason."""
        return not self.overrides and not self.finding.set_aside

    @property
    def is_sure(self) -> bool:
        """Whether it is refused in whatever release it may be of."""
        return not self.finding.only_in

    @property
    def lifted_by_block(self) -> bool:
        """Whether a block to paste lifts it: it takes no decision of the user's, and no other file."""
        return bool(self.overrides) and not self.yours


def only_in(finding: Finding, releases: str) -> Finding:
    """A finding that holds in some of the releases that a launch may be of: milder, and it says in which."""
    return replace(
        finding,
        message=_("only if the release is {releases}: {message}").format(
            releases=releases, message=finding.message
        ),
        severity=Severity.WARNING if finding.severity is Severity.ERROR else finding.severity,
        only_in=releases,
    )


def verdict_of_start(refusals: Sequence[Refusal], memory: Verdict) -> Verdict:
    """The verdict on a job, with what refuses it before memory; where that is not sure, nobody can say.

    Args:
        refusals: that stand, or did before they were lifted.
        memory: what memory says of the job that starts.
    """
    if any(refusal.is_sure for refusal in refusals):
        return Verdict.WILL_NOT_START
    unknown = bool(refusals) and memory in (Verdict.FITS, Verdict.MAY_NOT_FIT)
    return Verdict.CANNOT_SAY if unknown else memory


class Started(Struct, frozen=True, kw_only=True):
    """A configuration that starts, or comes as near to it as is known."""

    reading: Reading
    refusals: tuple[Refusal, ...]  # in the order they were lifted
    starts: bool  # nothing refuses it any more

    @property
    def overrides(self) -> tuple[str, ...]:
        """What lifts the refusals without a change of the training."""
        return tuple(
            override for refusal in self.refusals if not refusal.yours for override in refusal.overrides
        )


def started(reading: Reading, *, headroom: float, allow: Collection[Numerics]) -> Started:
    """Lift refusal after refusal; each may bring the next one to light.

    Args:
        reading: the configuration as the user has it.
        headroom: share of the card that proposals leave free.
        allow: effects on the training that may be part of what is to be pasted.
    """
    lifted = [_unlifted(finding) for finding in reading.findings if finding.refuses and finding.set_aside]
    first = {(finding.rule.code, finding.keys) for finding in _refusals(reading, headroom)}
    for _round in range(_MOST):
        standing = [
            finding if (finding.rule.code, finding.keys) in first else _come_to_light(finding, lifted)
            for finding in _refusals(reading, headroom)
            if not finding.set_aside
        ]
        if not standing:
            return Started(reading=reading, refusals=tuple(lifted), starts=True)
        for finding in standing:
            step = _lifted(reading, finding, allow)
            if step is not None:
                refusal, reading = step
                lifted.append(refusal)
                break
        else:
            return Started(reading=reading, refusals=(*lifted, *map(_unlifted, standing)), starts=False)
    left = [finding for finding in _refusals(reading, headroom) if not finding.set_aside]
    left = [one if (one.rule.code, one.keys) in first else _come_to_light(one, lifted) for one in left]
    return Started(reading=reading, refusals=(*lifted, *map(_unlifted, left)), starts=not left)


def _come_to_light(finding: Finding, lifted: Sequence[Refusal]) -> Finding:
    """A refusal that comes once others are lifted: it may hold where these do, and need not elsewhere."""
    releases = next((one.finding.only_in for one in reversed(lifted) if not one.is_sure), "")
    return only_in(finding, releases) if releases and not finding.only_in else finding


def _refusals(reading: Reading, headroom: float) -> Iterator[Finding]:
    yield from (finding for finding in reading.findings if finding.refuses)
    yield from rules.refusals(Case.of(reading.workload, headroom=headroom))


def _lifted(
    reading: Reading, finding: Finding, allow: Collection[Numerics]
) -> tuple[Refusal, Reading] | None:
    """A refusal and the configuration without it; None where its overrides do not lift it."""
    try:
        overrides = (
            finding.overrides if finding.proposal is None else reading.write(finding.proposal).overrides
        )
        if not overrides:
            return None
        after = reading.adding(overrides)
    except ValueError:
        return None
    still = any(other.rule == finding.rule and other.message == finding.message for other in after.findings)
    if still or (finding.proposal is not None and after.workload == reading.workload):
        return None
    effect = numerics(finding, reading.workload, after.workload)
    if effect is Numerics.REWEIGHTED:  # against a job that never ran: no loss weighed its tokens
        effect = finding.numerics
    refusal = Refusal(
        finding=finding, overrides=overrides, numerics=effect, yours=not is_allowed(effect, allow)
    )
    return refusal, after


def _unlifted(finding: Finding) -> Refusal:
    return Refusal(finding=finding, overrides=(), numerics=finding.numerics, yours=False)
