"""Advice in words: what, why, its price, and the override to paste."""

import shlex
from collections.abc import Sequence

from tuner.advise import Advice, Combination, Price, Recommendation
from tuner.errors import Location
from tuner.findings import Numerics, Severity
from tuner.inputs.overrides import COMMAND_LINE
from tuner.render.numbers import change, gib, same_gib, step_change
from tuner.render.terminal import Terminal, plain

SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
NUMERICS = {
    Numerics.EXACT: "unchanged",
    Numerics.REORDERED: "sums in another order",
    Numerics.CHANGED: "changed",
}
NOTHING_TO_ADVISE = "No advice: nothing was found to improve."
_INDENT = "    "


def recommendations(advice: Advice, terminal: Terminal) -> str:
    """All advice, numbered, in the order of its rank."""
    if not advice.recommendations:
        return terminal.style(NOTHING_TO_ADVISE, "bold")
    title = "Advice"
    head = terminal.prose(f"{title}: {_counts(advice.recommendations)}", indent="  ", first="")
    entries = [
        recommendation(item, number, terminal, capacity_bytes=advice.estimate.capacity_bytes)
        for number, item in enumerate(advice.recommendations, start=1)
    ]
    return "\n\n".join([head.replace(title, terminal.style(title, "bold"), 1), *entries])


def _counts(items: Sequence[Recommendation]) -> str:
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "suggestion"}
    severities = [item.finding.severity for item in items]
    counts = [(severities.count(severity), word) for severity, word in words.items()]
    said = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count]
    return ", ".join(said) + ("; largest gain first" if len(items) > 1 else "")


def recommendation(item: Recommendation, number: int, terminal: Terminal, *, capacity_bytes: int) -> str:
    """One entry. Only prose is wrapped: an override can always be copied whole."""
    finding = item.finding
    severity = terminal.style(finding.severity.value, "bold", SEVERITY_COLOURS[finding.severity])
    lines = [
        f"{number:>3} {severity} {finding.rule.code} {terminal.style(finding.rule.name, 'bold')}",
        terminal.prose(sentence(plain(finding.message)), indent=_INDENT),
    ]
    if finding.location is not None:
        lines.append(f"{_INDENT}set in {plain(place(finding.location))}")
    if item.price is not None:
        arrow = price(item.price, terminal, capacity_bytes=capacity_bytes)
        lines.append(terminal.prose(arrow, indent=_INDENT))
    lines.append(terminal.style(terminal.prose(_trust(item), indent=_INDENT), "dim"))
    notes = (sentence(plain(note)) for note in finding.notes)
    lines += [terminal.prose(note, indent=_INDENT + "  ", first=f"{_INDENT}- ") for note in notes]
    if item.conflicts:
        others = ", ".join(item.conflicts)
        lines.append(terminal.prose(f"Instead of, not with: {others}.", indent=_INDENT))
    lines += [f"{_INDENT}  {terminal.style(pasteable(text), 'bold')}" for text in item.overrides]
    return "\n".join(lines)


def place(location: Location) -> str:
    """Where the user wrote something: a file with line and column, or the number of an override."""
    if location.source == COMMAND_LINE and location.line is not None:
        return f"override {location.line} of the command line"
    return str(location)


def sentence(text: str) -> str:
    """A message as a sentence. A first word that is no plain word, such as a key, stays as it is."""
    first = text.split(maxsplit=1)[0] if text else ""
    word = first.rstrip(",;:")
    start = first.capitalize() if word.isalpha() and word.islower() else first
    end = "" if text.endswith((".", "?", "!")) else "."
    return start + text[len(first) :] + end


def _trust(item: Recommendation) -> str:
    finding = item.finding
    effect = f"; numerics: {NUMERICS[finding.rule.numerics]}" if item.overrides else ""
    return f"evidence: {finding.evidence.value}{effect}"


def price(cost: Price, terminal: Terminal, *, capacity_bytes: int) -> str:
    """Memory in the rule's phase and in the worst phase, and the modelled time of a step."""
    parts = []
    if not same_gib(cost.before_bytes, cost.after_bytes):
        parts.append(f"{cost.phase.value} {change(cost.before_bytes, cost.after_bytes)}")
    phase, worst = (cost.before_bytes, cost.after_bytes), (cost.worst_before_bytes, cost.worst_after_bytes)
    if phase != worst and not same_gib(cost.worst_before_bytes, cost.worst_after_bytes):
        parts.append(f"worst phase {change(cost.worst_before_bytes, cost.worst_after_bytes)}")
    if cost.worst_before_bytes > capacity_bytes >= cost.worst_after_bytes:
        parts.append("then it fits")
    parts = parts or [f"{cost.phase.value} stays at {gib(cost.after_bytes)}"]
    parts.append(step_change(cost.seconds_before, cost.seconds_after))
    return "; ".join(parts).replace("->", terminal.arrow)


def combination(advice: Advice, terminal: Terminal) -> str:
    """The overrides of all accepted advice as one block, priced together."""
    together = advice.combination
    if together is None or not together.overrides or len(together.rules) < 2:
        return ""
    return "\n".join(
        [
            _outcome(advice, together, terminal),
            terminal.prose(_sources(advice, together), indent="  "),
            "",
            " \\\n".join(pasteable(override) for override in together.overrides),
        ]
    )


def _sources(advice: Advice, together: Combination) -> str:
    """The rules whose advice is in the block; some are due only once others are followed."""
    listed = {item.finding.rule.name for item in advice.recommendations}
    parts = [", ".join(name for name in together.rules if name in listed)]
    later = ", ".join(name for name in together.rules if name not in listed)
    if later:
        parts.append(f"once these are followed {later}")
    return f"from {'; '.join(part for part in parts if part)}"


def _outcome(advice: Advice, together: Combination, terminal: Terminal) -> str:
    worst, before = together.estimate.worst, advice.estimate.worst
    missing = worst.peak_bytes - together.estimate.capacity_bytes
    still = "still cannot start"
    if missing > 0:
        still = f"still does not fit, {gib(missing)} too much"
    elif together.estimate.host_is_short:
        still = "still takes more host memory than a node has"
    words = ["fits" if together.estimate.fits() else still]
    words.append(f"worst phase {change(before.peak_bytes, worst.peak_bytes)} ({worst.phase.value})")
    words.append(step_change(advice.time.seconds, together.time.seconds))
    title = "All together"
    text = terminal.prose(f"{title}: {'; '.join(words).replace('->', terminal.arrow)}", indent="  ", first="")
    return text.replace(title, terminal.style(title, "bold"), 1)


def pasteable(override: str) -> str:
    """An override as a POSIX shell takes it, quoted only where it must be."""
    return shlex.quote(plain(override))
