"""The estimate as a sum that can be checked by hand: every addend with its formula and its numbers."""

from collections.abc import Iterable

from msgspec import Struct, field

from tuner.language import _, documented
from tuner.memory import Estimate, PhaseEstimate, Term
from tuner.memory.derivations import Entry, Symbol, symbols
from tuner.memory.ledger.formula import tokens
from tuner.memory.ledger.recorded_numbers import Derivation
from tuner.render.columns import columns
from tuner.render.numbers import exact, gib, same_gib
from tuner.render.pages import page_of
from tuner.render.terminal import Terminal
from tuner.workload import Workload

_BYTES = len("999,999,999,999")
_INDENT = " " * (2 + _BYTES + 2)
_DEEPER = _INDENT + "  "
_TIED = "\u00a0"  # where a formula is not broken: the spaces of its products


def explanation(workload: Workload, estimate: Estimate, terminal: Terminal) -> str:
    """The addends at the peak of each phase, the highest phase first, and what the symbols stand for."""
    writer = _Writer(estimate=estimate, terminal=terminal)
    rest = (phase for phase in estimate.phases if phase is not estimate.worst)
    sections = [_introduction(terminal), *(writer.phase(phase) for phase in (estimate.worst, *rest))]
    if estimate.host_terms:
        sections.append(writer.host())
    terms = [term for phase in estimate.phases for term in phase.peak.terms]
    return "\n\n".join([*sections, writer.symbols(symbols(workload, [*terms, *estimate.host_terms]))])


def written(formula: str, symbols: Iterable[Entry] = ()) -> str:
    """A formula with its numbers put in, ``"16,384 x 151,936 x 2"``; without numbers as it is."""
    numbers = dict(symbols)
    times = f"{_TIED}x{_TIED}" if numbers else _TIED
    text = ""
    for word in tokens(formula):
        if word == "*":
            text += times
        elif word in "+-":
            text += f" {word} "
        elif word == "/":
            text += f"{_TIED}/{_TIED}"
        elif word == ",":
            text += ", "
        elif word in numbers:
            text += exact(numbers[word])
        else:
            text += exact(int(word)) if word.isdigit() else word
    return text


def _introduction(terminal: Terminal) -> str:
    title = terminal.style(terminal.prose(_("The sum, written out")), "bold")
    text = _(
        "Bytes on one GPU at the peak of each phase. Below each addend: its formula with the "
        "numbers put in, and the function that derives it with its page of the "
        "documentation. What the symbols stand for is at the end."
    )
    return title + "\n" + terminal.prose(text, indent="  ")


class _Writer(Struct, kw_only=True):
    """Writes phase after phase; an addend that was explained before is only named again."""

    estimate: Estimate
    terminal: Terminal
    explained: dict[Term, str] = field(default_factory=dict)  # in which phase

    def phase(self, phase: PhaseEstimate) -> str:
        """One phase: its moment, its addends, the largest first, and their sum."""
        lines = [
            self.terminal.style(
                _("{phase}, peak at {moment}").format(phase=phase.phase.value, moment=phase.peak.name), "bold"
            )
        ]
        for term in sorted(phase.peak.terms, key=lambda term: term.bytes, reverse=True):
            if term.bytes:
                lines += self._addend(term, phase.phase.value)
        total = _("in all, {peak} of {capacity}").format(
            peak=gib(phase.peak_bytes, decimals=2), capacity=gib(self.estimate.capacity_bytes)
        )
        low, high = phase.interval
        if not same_gib(low, high):
            total += _("; at least {low}, at most {high}").format(low=gib(low), high=gib(high))
        return self._sum(lines, phase.peak_bytes, total)

    def host(self) -> str:
        """The addends in the host memory of one node, the largest first, and their sum."""
        lines = [self.terminal.style(_("host memory per node"), "bold")]
        for term in sorted(self.estimate.host_terms, key=lambda term: term.bytes, reverse=True):
            lines += self._addend(term, _("host memory"))
        limit, most = self.estimate.host_capacity_bytes, self.estimate.host_high_bytes
        total = _("in all, {host}").format(host=gib(self.estimate.host_bytes, decimals=2))
        if limit is not None:
            total += _(" of {limit}").format(limit=gib(limit))
        if not same_gib(self.estimate.host_bytes, most):
            total += _("; at most {most}").format(most=gib(most))
        return self._sum(lines, self.estimate.host_bytes, total)

    def _sum(self, lines: list[str], size: int, total: str) -> str:
        rule = ("─" if self.terminal.unicode else "-") * _BYTES
        return "\n".join([*lines, f"  {rule}", self._amount(size, total)])

    def _addend(self, term: Term, phase: str) -> list[str]:
        head = _("{term}, {size}, {evidence}").format(
            term=term.name, size=gib(term.bytes, decimals=2), evidence=_(term.evidence.value)
        )
        first_phase = self.explained.setdefault(term, phase)
        if first_phase != phase:
            return [self._amount(term.bytes, _("{head}, see {seen}").format(head=head, seen=first_phase))]
        lines = [self._amount(term.bytes, head), *self._formula(term.formula, term.symbols)]
        if term.low != term.high:
            lines.append(
                self._text(_("between {low} and {high}").format(low=exact(term.low), high=exact(term.high)))
            )
        return [*lines, self._source(term.source)]

    def symbols(self, symbols: Iterable[Symbol]) -> str:
        """Every symbol with its number and its meaning, and what the number was computed from."""
        lines = [self.terminal.style(_("The symbols"), "bold")]
        written_as: dict[Derivation, str] = {}
        for symbol in symbols:
            lines.append(
                self._amount(
                    symbol.number,
                    _("{symbol}, {meaning}").format(symbol=symbol.name, meaning=documented(symbol.meaning)),
                )
            )
            derived = symbol.derivation
            if derived is not None:
                first_name = written_as.setdefault(derived, symbol.name)
                if first_name == symbol.name:
                    lines += self._formula(derived.formula, derived.symbols)
                else:
                    lines.append(self._text(_("as {first_name}").format(first_name=first_name)))
            for part in symbol.parts:
                amount = f"{part.name} {exact(part.derivation.value)}: {written(part.derivation.formula)}"
                lines += [self._text(amount), self._source(part.source)]
        return "\n".join(lines)

    # -- lines --------------------------------------------------------------------------

    def _amount(self, number: float, text: str) -> str:
        return self._text(text, first=f"  {exact(number):>{_BYTES}}  ")

    def _formula(self, formula: str, symbols: Iterable[Entry]) -> list[str]:
        """Formula and numbers on one line where they fit."""
        plain, numbers = written(formula), f"= {written(formula, symbols)}"
        if len(f"{_INDENT}{plain} {numbers}") <= self.terminal.width:
            return [self._text(f"{plain} {numbers}")]
        return [self._text(plain), self._text(numbers)]

    def _source(self, source: str) -> str:
        page = page_of(source)
        return self.terminal.style(self._text(f"{source} ({page})" if page else source), "dim")

    def _text(self, text: str, *, first: str = _INDENT) -> str:
        wrapped = self.terminal.prose(text, indent=_DEEPER, first=first)
        if any(columns(line) > self.terminal.width for line in wrapped.splitlines()):
            wrapped = self.terminal.prose(text.replace(_TIED, " "), indent=_DEEPER, first=first)
        return wrapped.replace(_TIED, " ")
