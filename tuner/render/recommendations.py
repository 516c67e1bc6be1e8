"""Advice in words: what, why, its price, and the override to paste; sorted by whose it is to decide."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tuner.advise import Advice, Price, Recommendation
from tuner.findings import Severity
from tuner.language import _, ngettext
from tuner.render.numbers import change, gib, same_gib, step_change
from tuner.render.terminal import Terminal, plain
from tuner.render.words import (
    SEVERITY_COLOURS,
    clauses,
    listed,
    numerics,
    pasteable,
    place,
    sentence,
    shown_overrides,
    titled,
)

_LEAST = 0.01  # of the step; what gains less is listed in one line
_INDENT = "    "


class Sorted(Struct, frozen=True, kw_only=True):
    """The advice that is left once refusals are told, by what a reader does with it."""

    shown: tuple[Recommendation, ...]  # with a price or a warning
    yours: tuple[Recommendation, ...]  # changes the training, or makes the job worse
    idle: tuple[Recommendation, ...]  # gains nothing here


def sorted_advice(advice: Advice) -> Sorted:
    """All advice but the refusals, which the verdict tells."""
    refused = {refusal.finding.message for refusal in advice.refusals}
    left = [item for item in advice.recommendations if item.finding.message not in refused]
    block = advice.combination
    used = set() if block is None else {part.finding.rule.code for part in block.contributions}
    yours = [item for item in left if item.yours]
    idle = [item for item in left if not item.yours and _is_idle(item) and item.finding.rule.code not in used]
    shown = [item for item in left if item not in yours and item not in idle]
    return Sorted(shown=tuple(shown), yours=tuple(yours), idle=tuple(idle))


def _is_idle(item: Recommendation) -> bool:
    """Whether advice changes neither bytes nor, by a percent and for certain, the step."""
    if item.finding.severity is not Severity.ADVICE:
        return False
    cost = item.price
    return cost is None or (
        same_gib(cost.before_bytes, cost.after_bytes)
        and same_gib(cost.worst_before_bytes, cost.worst_after_bytes)
        and (abs(cost.time_change or 0.0) < _LEAST or not _is_certain(cost))
    )


def _is_certain(cost: Price) -> bool:
    return cost.change is not None and (cost.change.is_gain or cost.change.is_loss)


def recommendations(advice: Advice, terminal: Terminal) -> str:
    """All advice by rank, then what is the user's to decide, and what gains nothing."""
    by_use = sorted_advice(advice)
    parts = []
    if by_use.shown:
        parts.append(_list(_("Advice"), _counts(by_use.shown), by_use.shown, advice, terminal))
    if by_use.yours:
        why = _("changes the training, or costs more than it brings; never part of what is to be pasted")
        parts.append(
            _list(_("Yours to decide"), why, by_use.yours, advice, terminal, after=len(by_use.shown))
        )
    if by_use.idle:
        parts.append(idle_line(by_use.idle, terminal))
    return "\n\n".join(parts)


def idle_line(items: Iterable[Recommendation], terminal: Terminal) -> str:
    """Advice that gains nothing here, in one sentence."""
    names = listed(f"{item.finding.rule.code} {item.finding.rule.name}" for item in items)
    return terminal.prose(_("Gains nothing here: {names}.").format(names=names), indent="  ", first="")


def _list(
    title: str,
    text: str,
    items: Sequence[Recommendation],
    advice: Advice,
    terminal: Terminal,
    *,
    after: int = 0,
) -> str:
    head = terminal.prose(titled(title, text), indent="  ", first="")
    entries = [
        recommendation(item, number, terminal, capacity_bytes=advice.estimate.capacity_bytes)
        for number, item in enumerate(items, start=after + 1)
    ]
    return "\n\n".join([head.replace(title, terminal.style(title, "bold"), 1), *entries])


def _counts(items: Sequence[Recommendation]) -> str:
    severities = [item.finding.severity for item in items]
    errors, warnings, suggestions = (severities.count(severity) for severity in Severity)
    counts = (
        (errors, ngettext("{count} error", "{count} errors", errors)),
        (warnings, ngettext("{count} warning", "{count} warnings", warnings)),
        (suggestions, ngettext("{count} suggestion", "{count} suggestions", suggestions)),
    )
    said = listed(text.format(count=count) for count, text in counts if count)
    return _("{counts}; largest gain first").format(counts=said) if len(items) > 1 else said


def recommendation(item: Recommendation, number: int, terminal: Terminal, *, capacity_bytes: int) -> str:
    """One entry. Only prose is wrapped: an override can always be copied whole."""
    finding = item.finding
    severity = terminal.style(_(finding.severity.value), "bold", SEVERITY_COLOURS[finding.severity])
    lines = [
        f"{number:>3} {severity} {finding.rule.code} {terminal.style(finding.rule.name, 'bold')}",
        terminal.prose(sentence(plain(finding.message)), indent=_INDENT),
    ]
    if finding.location is not None:
        lines.append(_INDENT + _("set in {place}").format(place=plain(place(finding.location))))
    if item.price is not None:
        arrow = price(item.price, terminal, capacity_bytes=capacity_bytes)
        lines.append(terminal.prose(arrow, indent=_INDENT))
    lines.append(terminal.style(terminal.prose(_trust(item), indent=_INDENT), "dim"))
    notes = (sentence(plain(note)) for note in finding.notes)
    lines += [terminal.prose(note, indent=_INDENT + "  ", first=f"{_INDENT}- ") for note in notes]
    if item.conflicts:
        others = listed(item.conflicts)
        lines.append(
            terminal.prose(_("Instead of, not with: {others}.").format(others=others), indent=_INDENT)
        )
    lines += [
        f"{_INDENT}  {terminal.style(pasteable(text), 'bold')}"
        for text in shown_overrides(finding, item.overrides)
    ]
    return "\n".join(lines)


def _trust(item: Recommendation) -> str:
    evidence = _(item.finding.evidence.value)
    if not item.overrides:
        return _("evidence: {evidence}").format(evidence=evidence)
    return _("evidence: {evidence}; numerics: {numerics}").format(
        evidence=evidence, numerics=numerics(item.numerics)
    )


def price(cost: Price, terminal: Terminal, *, capacity_bytes: int) -> str:
    """Memory in the rule's phase and in the worst phase, and the modelled time of a step."""
    parts = []
    if not same_gib(cost.before_bytes, cost.after_bytes):
        parts.append(f"{cost.phase.value} {change(cost.before_bytes, cost.after_bytes)}")
    phase, worst = (cost.before_bytes, cost.after_bytes), (cost.worst_before_bytes, cost.worst_after_bytes)
    if phase != worst and not same_gib(cost.worst_before_bytes, cost.worst_after_bytes):
        parts.append(
            _("worst phase {change}").format(change=change(cost.worst_before_bytes, cost.worst_after_bytes))
        )
    if cost.worst_before_bytes > capacity_bytes >= cost.worst_after_bytes:
        parts.append(_("then the expected peak fits"))
    parts = parts or [
        _("{phase} stays at {after}").format(phase=cost.phase.value, after=gib(cost.after_bytes))
    ]
    if cost.seconds_before is not None and cost.seconds_after is not None:
        parts.append(step_change(cost.seconds_before, cost.seconds_after, cost.change))
    return clauses(parts).replace("->", terminal.arrow)
