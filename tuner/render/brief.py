"""The short answer's findings: the three that matter most, what is left to decide, and what else there is."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from tuner.advise import Advice, Contribution, Recommendation
from tuner.findings import Finding, Goal, Severity
from tuner.language import _
from tuner.override_text import override_key
from tuner.render.document.marks import OF_SEVERITY, Medium, either, marked, strong, user_text
from tuner.render.document.parts import Entry, Heading, Paragraph, Part, Paste
from tuner.render.recommendations import Sorted, price, sorted_advice
from tuner.render.terminal import plain
from tuner.render.words import (
    clauses,
    full_stop,
    listed,
    numerics,
    pasteable,
    sentence,
    shown_overrides,
    titled,
)

_MOST = 3


class _Lever(Struct, frozen=True, kw_only=True):
    """A finding that is told in a few lines."""

    finding: Finding
    item: Recommendation | None  # None where it is about the job with the others
    part: Contribution | None  # of the block; None of what stands beside it

    def rank(self, advice: Advice) -> tuple[float, ...]:
        """What is wrong first, then what the job needs, then by the share of the step, whoever decides.

        A warning that nothing can be gained by, such as that a key is an old one, comes last. One of time
        that no setting mends is of a loss that the seconds do not even count.
        """
        if self.finding.severity is Severity.ERROR:
            return (0,)
        if self.part is not None:
            return (1 if self.part.needed else 2, -_share_of_part(self.part, advice))
        if self.finding.severity is Severity.WARNING and self.finding.proposal is None:
            uncounted = self.finding.rule.goal is Goal.TIME and not self.finding.overrides
            return (1.5,) if uncounted else (3,)
        return (2, -_share(self.item))


def brief(advice: Advice) -> Iterator[tuple[Part, ...]]:
    """Three findings in a few lines each, what the user may decide, then the names of the others."""
    by_use = sorted_advice(advice)
    levers = sorted(_levers(advice, by_use).values(), key=lambda lever: lever.rank(advice))[:_MOST]
    codes = [item.finding.rule.code for item in (*by_use.shown, *by_use.yours)]
    if levers:
        entries = (_entry(lever, advice, more=codes.count(lever.finding.rule.code) - 1) for lever in levers)
        yield Heading(text=_("What matters most")), *entries
    named = {lever.finding.rule.code for lever in levers}
    decisions = [item for item in by_use.yours if _is_decision(item) and item.finding.rule.code not in named]
    decisions.sort(key=_share, reverse=True)
    if decisions:
        capacity = advice.estimate.capacity_bytes
        entries = (_decision(item, capacity_bytes=capacity) for item in decisions[:_MOST])
        yield Heading(text=_("Yours to decide")), *entries
    named |= {item.finding.rule.code for item in decisions[:_MOST]}
    yield tuple(_rest(advice, by_use, named))


def _levers(advice: Advice, by_use: Sorted) -> dict[str, _Lever]:
    """What may be told, by code.

    Beside a block, advice that is not part of it is an alternative, and what would free memory at the price
    of the training is not needed: the block fits.
    """
    block = advice.combination
    refused = {refusal.finding.rule.code for refusal in advice.refusals}
    by_code = {item.finding.rule.code: item for item in reversed((*by_use.shown, *by_use.yours))}
    levers: dict[str, _Lever] = {}
    for part in () if block is None else block.contributions:
        code = part.finding.rule.code
        if code not in refused:
            item = by_code.get(code)
            finding = part.finding if item is None else item.finding
            levers.setdefault(code, _Lever(finding=finding, item=item, part=part))
    for item in (*by_use.shown, *by_use.yours):
        finding = item.finding
        stated = finding.severity is Severity.WARNING and finding.proposal is None
        decided = item.yours and finding.rule.goal is not Goal.MEMORY
        if block is None or stated or decided or finding.severity is Severity.ERROR:
            levers.setdefault(finding.rule.code, _Lever(finding=finding, item=item, part=None))
    return levers


def _share(item: Recommendation | None) -> float:
    """The share of the step that advice takes away by itself; 0 where that is not certain."""
    cost = None if item is None else item.price
    if cost is None or cost.change is None or not cost.change.is_gain:
        return 0.0
    return -(cost.time_change or 0.0)


def _share_of_part(part: Contribution, advice: Advice) -> float:
    """The share of the step that the block owes to a finding."""
    if part.without is None or advice.combination is None:
        return 0.0
    return 1 - advice.combination.time.seconds / part.without.seconds


def _entry(lever: _Lever, advice: Advice, *, more: int) -> Entry:
    finding, item = lever.finding, lever.item
    severity = marked(_(finding.severity.value), OF_SEVERITY[finding.severity])
    text = sentence(plain(finding.message))
    if item is None:  # the message is about the job with the others
        lowered = text[0].lower() + text[1:] if text[1:2].islower() else text
        text = _("With the others: {text}").format(text=lowered)
    if more > 0:
        text += _(" {more} more like it.").format(more=more)
    if lever.part is None and item is not None and item.price is not None:
        cost = price(item.price, capacity_bytes=advice.estimate.capacity_bytes)
        text += _(" Alone: {cost}.").format(cost=cost)
    if item is not None and item.yours:
        effect = numerics(item.numerics)
        text += (
            _(" Yours to decide; numerics: {numerics}.").format(numerics=effect)
            if item.overrides
            else _(" Yours to decide.")
        )
    head = f"{severity} {finding.rule.code} {strong(finding.rule.name)}"
    shown = either(terminal=head, page=titled(head, user_text(text)))
    details: list[Paragraph | Paste] = [Paragraph(text=user_text(text), level=2, only=Medium.TERMINAL)]
    if item is not None and item.yours:
        details += _pasted(item)
    return Entry(text=shown, details=tuple(details))


def _is_decision(item: Recommendation) -> bool:
    """Whether advice that is the user's to decide shortens the step, and by what it would."""
    return bool(item.overrides) and _share(item) > 0


def _decision(item: Recommendation, *, capacity_bytes: int) -> Entry:
    """What it would bring and what it does to the training, then its overrides."""
    rule, cost = item.finding.rule, item.price
    brings = "" if cost is None else price(cost, capacity_bytes=capacity_bytes)
    effect = _("numerics: {numerics}").format(numerics=numerics(item.numerics))
    text = titled(f"{rule.code} {strong(rule.name)}", clauses((brings, effect)))
    return Entry(text=text, details=tuple(_pasted(item)))


def _pasted(item: Recommendation) -> list[Paste]:
    lines = tuple(map(pasteable, shown_overrides(item.finding, item.overrides)))
    return [Paste(lines=lines, level=2)] if lines else []


def _rest(advice: Advice, by_use: Sorted, named_codes: set[str]) -> Iterator[Paragraph]:
    block = () if advice.combination is None else advice.combination.contributions
    named_codes = named_codes | {part.finding.rule.code for part in block}
    named_codes |= {addition.finding.rule.code for addition in advice.additions}
    others = [
        item.finding
        for item in by_use.shown
        if item.finding.rule.code not in named_codes and not _set_by_block(item, advice)
    ]
    yours = [item.finding for item in by_use.yours if item.finding.rule.code not in named_codes]
    for words, findings in (
        (_("Not in the block") if block else _("Also"), others),
        (_("Also yours to decide"), yours),
    ):
        if findings:
            yield Paragraph(text=full_stop(titled(words, _names(findings))), further=1)
    yield Paragraph(text=_("Everything with its price and its premises: --full."), further=1)


def _set_by_block(item: Recommendation, advice: Advice) -> bool:
    """Whether the block has other values for all that an alternative would set."""
    if advice.combination is None or not item.overrides:
        return False
    theirs = {override_key(override) for override in advice.combination.overrides}
    return all(override_key(override) in theirs for override in item.overrides)


def _names(findings: Iterable[Finding]) -> str:
    return listed(dict.fromkeys(f"{finding.rule.code} {finding.rule.name}" for finding in findings))
