"""What makes room where a job ran out of memory: settings, and the bytes there before and after each."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.answer import Advice
from tuner.advise.needs import OF_CACHE, Measure, Need, Proposed, bytes_of_need, levers, opens
from tuner.findings import Finding, Numerics, Rule, Written
from tuner.rules.case import Case
from tuner.rules.rollout_engine import AWAKE
from tuner.timing import StepChange
from tuner.units import GIB
from tuner.workload import Phase, Workload

Write = Callable[[Workload], Written]
"""A proposal as overrides; ValueError where the release has no keys for it."""


# Rules whose proposals are fewer tokens at a time.
_OF_TOKENS = (
    "token-budget-too-large",
    "micro-batch-too-large",
    "critic-budget-too-large",
    "forward-budget-too-large",
    "sequence-packing",
)
_LEAST = GIB // 10  # what gives less is not worth a line


class Remedy(Struct, frozen=True, kw_only=True):
    """One change of settings, with what it does where memory ran out."""

    rule: Rule  # whose page says when it is worth it
    overrides: tuple[str, ...]
    measure: Measure
    phase: Phase | None  # of a peak
    before_bytes: int
    after_bytes: int
    enough: Annotated[bool, Meta(description="by the model, this change alone")]
    seconds_before: float
    seconds_after: float
    change: Annotated[StepChange, Meta(description="of the seconds, with its interval")]
    numerics: Numerics
    yours: Annotated[bool, Meta(description="changes the training: for the user to decide")]

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.rule.code

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name


class _Offer(Struct, frozen=True, kw_only=True):
    """A change that may help."""

    rule: Rule
    workload: Workload
    overrides: tuple[str, ...]
    numerics: Numerics
    yours: bool = False


def remedies(advice: Advice, need: Need, write: Write) -> tuple[Remedy, ...]:
    """What helps there: what is enough first, and of that what costs the step least.

    Beside the advice on the job stand the settings that decide there. Where none of that is enough, as where
    the model finds that the job fits, the rules are asked for a card that is smaller by what was missing.
    """
    case = Case.of(advice.workload, headroom=advice.headroom)
    helpful = list(_helpful(case, need, _listed(advice)))
    helpful += _helpful(case, need, _written(advice, levers(case, need), write))
    if not any(remedy.enough for remedy in helpful):
        helpful += _helpful(case, need, _written(advice, _further(advice, need), write))
    by_rule: dict[str, Remedy] = {}
    for remedy in helpful:
        known = by_rule.get(remedy.rule.name)
        if known is None or (remedy.enough and not known.enough):
            by_rule[remedy.rule.name] = remedy
    unlike = {remedy.overrides: remedy for remedy in reversed(by_rule.values())}
    return tuple(sorted(unlike.values(), key=_rank))


def _rank(remedy: Remedy) -> tuple[float, ...]:
    return (remedy.yours, not remedy.enough, round(remedy.seconds_after, 2), len(remedy.overrides))


def _helpful(case: Case, need: Need, offers: Iterable[_Offer]) -> Iterator[Remedy]:
    before, opened = bytes_of_need(case.workload, need), opens(case.workload)
    pointless = () if need.tokens_decide else _OF_TOKENS
    for offer in offers:
        if offer.rule.name in pointless:
            continue
        after = bytes_of_need(offer.workload, need)
        if need.measure in OF_CACHE:
            starts_only_then = not opened and opens(offer.workload)
            helps, enough = after > before or starts_only_then, after >= need.limit_bytes
            enough = enough and opens(offer.workload)
        else:
            helps, enough = before - after >= _LEAST, after <= need.limit_bytes
        if helps:
            yield Remedy(
                rule=offer.rule,
                overrides=offer.overrides,
                measure=need.measure,
                phase=need.phase,
                before_bytes=before,
                after_bytes=after,
                enough=enough and need.known,
                seconds_before=case.time.seconds,
                seconds_after=case.seconds(offer.workload),
                change=case.change(offer.workload),
                numerics=offer.numerics,
                yours=offer.yours,
            )


def _listed(advice: Advice) -> Iterator[_Offer]:
    for item in advice.recommendations:
        if item.workload is not None and item.overrides:
            yield _Offer(
                rule=item.finding.rule,
                workload=item.workload,
                overrides=item.overrides,
                numerics=item.numerics,
                yours=item.yours,
            )


def _further(advice: Advice, need: Need) -> Iterator[Proposed]:
    """Proposals that the job as the model sees it gives no cause for."""
    workload = advice.workload
    cluster = workload.cluster
    if need.measure is Measure.HOST:
        cluster = replace(cluster, host_memory_bytes=need.limit_bytes)
        yield from _proposals(advice, replace(workload, cluster=cluster))
    if need.measure is not Measure.PEAK or need.phase is None:
        return
    if need.phase not in AWAKE:
        size = max(1, int(need.limit_bytes / (1 - advice.headroom)))
        cluster = replace(cluster, gpu=cluster.gpu.limited_to(size))
        yield from _proposals(advice, replace(workload, cluster=cluster))


def _written(advice: Advice, proposals: Iterable[Proposed], write: Write) -> Iterator[_Offer]:
    """The proposals that the trainer has keys for, on the job's own cluster."""
    for rule, proposal, numerics in proposals:
        try:
            written = write(replace(proposal, cluster=advice.workload.cluster))
        except ValueError:
            continue
        if written.overrides:
            yield _Offer(
                rule=rule,
                workload=written.workload,
                overrides=written.overrides,
                numerics=numerics,
                yours=rule.yours,
            )


def _proposals(advice: Advice, short: Workload) -> Iterator[Proposed]:
    findings: list[Finding] = rules.run(Case.of(short, headroom=advice.headroom))
    for finding in findings:
        if finding.proposal is not None:
            yield finding.rule, finding.proposal, finding.numerics
