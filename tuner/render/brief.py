"""The short answer's findings: the three that matter most, and what else there is."""

from collections.abc import Iterable, Iterator

from tuner.advise import Advice, Recommendation
from tuner.findings import Finding, Goal, Severity
from tuner.language import _
from tuner.override_text import override_key
from tuner.render.document.marks import OF_SEVERITY, Medium, either, marked, strong, user_text
from tuner.render.document.parts import Entry, Heading, Paragraph, Part
from tuner.render.recommendations import Sorted, price, sorted_advice
from tuner.render.terminal import plain
from tuner.render.words import full_stop, listed, numerics, sentence, titled

_MOST = 3


def brief(advice: Advice) -> Iterator[tuple[Part, ...]]:
    """Three findings in a few lines each, then the names of the others that bring something here."""
    by_use = sorted_advice(advice)
    chosen = _chosen(advice, by_use)
    codes = [item.finding.rule.code for item in (*by_use.shown, *by_use.yours)]
    entries = (
        _entry(finding, item, advice, more=max(0, codes.count(finding.rule.code) - 1))
        for finding, item in chosen
    )
    if chosen:
        yield Heading(text=_("What matters most")), *entries
    yield tuple(_rest(advice, by_use, {finding.rule.code for finding, _ in chosen}))


def _chosen(advice: Advice, by_use: Sorted) -> list[tuple[Finding, Recommendation | None]]:
    """Errors and misspellings first, then what brings the block most, then the best of the others.

    Beside a block, advice that is not part of it is an alternative, and what would free memory at the price
    of the training is not needed: the block fits.
    """
    block = advice.combination
    by_code = {item.finding.rule.code: item for item in reversed(by_use.shown)}
    listed: dict[str, tuple[Finding, Recommendation | None]] = {}
    for item in (*by_use.shown, *by_use.yours):
        stated = item.finding.severity is Severity.WARNING and item.finding.proposal is None
        if stated or item.finding.severity is Severity.ERROR:
            listed.setdefault(item.finding.rule.code, (item.finding, item))
    refused = {refusal.finding.rule.code for refusal in advice.refusals}
    for part in () if block is None else block.contributions:
        code = part.finding.rule.code
        alone = by_code.get(code)
        if code not in refused:
            listed.setdefault(code, (part.finding if alone is None else alone.finding, alone))
    for item in (*by_use.shown, *by_use.yours):
        if block is None or (item.yours and item.finding.rule.goal is not Goal.MEMORY):
            listed.setdefault(item.finding.rule.code, (item.finding, item))
    return list(listed.values())[:_MOST]


def _entry(finding: Finding, item: Recommendation | None, advice: Advice, *, more: int) -> Entry:
    severity = marked(_(finding.severity.value), OF_SEVERITY[finding.severity])
    text = sentence(plain(finding.message))
    if item is None:  # the message is about the job with the others
        lowered = text[0].lower() + text[1:] if text[1:2].islower() else text
        text = _("With the others: {text}").format(text=lowered)
    if more:
        text += _(" {more} more like it.").format(more=more)
    if item is not None and item.price is not None:
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
    return Entry(text=shown, details=(Paragraph(text=user_text(text), level=2, only=Medium.TERMINAL),))


def _rest(advice: Advice, by_use: Sorted, named_codes: set[str]) -> Iterator[Paragraph]:
    refused = {refusal.finding.rule.code for refusal in advice.refusals}
    block = () if advice.combination is None else advice.combination.contributions
    in_block = [part.finding for part in block if part.finding.rule.code not in named_codes | refused]
    named_codes = named_codes | {finding.rule.code for finding in in_block}
    others = [
        item.finding
        for item in by_use.shown
        if item.finding.rule.code not in named_codes and not _set_by_block(item, advice)
    ]
    yours = [item.finding for item in by_use.yours if item.finding.rule.code not in named_codes]
    for words, findings in (
        (_("Also in the block"), in_block),
        (_("Not in the block") if block else _("Also"), others),
        (_("Yours to decide"), yours),
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
