"""A validation in words: verdict, recommendations, figures by part, notes, machine."""

from collections.abc import Iterator, Sequence

from tuner.language import _, pgettext
from tuner.render.columns import columns, left, right
from tuner.render.numbers import gib, percent, quantity, share
from tuner.render.progress import ended
from tuner.render.terminal import Terminal, plain
from tuner.render.words import clauses, listed, nothing_to_advise, pasteable, sentence, titled
from tuner.validate.plans import PartPlan
from tuner.validate.report.schema import (
    JudgedRecommendation,
    Measurement,
    Outcome,
    PartReport,
    Validation,
    ValidationFile,
)

_NAME, _AMOUNT, _ERROR = 32, 14, 8  # columns; the verdict stands behind them, up to column 80
_COLOURS = {Outcome.CONFIRMED: "green", Outcome.REFUTED: "red", Outcome.NOT_MEASURABLE: "dim"}
_INDENT = "    "


def validation_json(files: Sequence[ValidationFile]) -> str:
    """The report as JSON; a list where there are several kinds of nodes."""
    texts = [file.model_dump_json(indent=2, by_alias=True) for file in files]
    return texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]"


def validation_text(file: ValidationFile, terminal: Terminal) -> str:
    """The whole report for a terminal."""
    validation = file.validation
    sections = [
        _verdict(validation, terminal),
        _recommendations(validation.recommendations, terminal),
        *(_part(part, terminal) for part in validation.parts),
        _notes(file, terminal),
        _machine(validation, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def plan_text(plans: Sequence[PartPlan], terminal: Terminal) -> str:
    """What would run, with the seconds expected."""
    lines = [terminal.style(_("What would run"), "bold")]
    for plan in plans:
        if plan.reason:
            text = _("{part}: left out, {reason}").format(part=plan.part.value, reason=plan.reason)
            lines.append(terminal.prose(plain(text), indent=_INDENT, first="  "))
            continue
        total = sum(planned.seconds for planned in plan.planned)
        lines.append("  " + _("{part}: about {total:.0f} s").format(part=plan.part.value, total=total))
        lines += [
            terminal.prose(
                f"{plain(planned.title)}, {planned.seconds:.0f} s", indent=_INDENT + "  ", first=_INDENT
            )
            for planned in plan.planned
        ]
    return "\n".join(lines) + "\n"


def headline(validation: Validation) -> tuple[str, Outcome]:
    """The verdict in a word, and what colours it."""
    if validation.refuted:
        return _("REFUTED"), Outcome.REFUTED
    if Outcome.CONFIRMED in _outcomes(validation):
        return _("CONFIRMED"), Outcome.CONFIRMED
    return _("NOTHING JUDGED"), Outcome.NOT_MEASURABLE


def counts(validation: Validation) -> Iterator[str]:
    """How many predicted figures and recommendations hold, a sentence each."""
    claims = [
        item.outcome for part in validation.parts for item in part.measurements if item.outcome is not None
    ]
    refuted = claims.count(Outcome.REFUTED)
    parts = []
    if refuted:
        parts.append(
            _("{refuted} of {claims} predicted figures refuted").format(refuted=refuted, claims=len(claims))
        )
    elif claims:
        parts.append(_("all {claims} predicted figures confirmed").format(claims=len(claims)))
    if validation.recommendations:
        parts.append(
            _("recommendations: {counted}").format(
                counted=_counted([item.outcome for item in validation.recommendations])
            )
        )
    yield clauses(parts or [_("nothing was claimed")]) + _(".")
    if validation.interrupted:
        yield _("The run was interrupted; this is what was found until then.")


def _outcomes(validation: Validation) -> list[Outcome | None]:
    figures = [item.outcome for part in validation.parts for item in part.measurements]
    return [*figures, *(item.outcome for item in validation.recommendations)]


def _counted(outcomes: Sequence[Outcome]) -> str:
    return listed(f"{outcomes.count(kind)} {_(kind.value)}" for kind in Outcome)


def _verdict(validation: Validation, terminal: Terminal) -> str:
    word, outcome = headline(validation)
    text = terminal.prose(titled(word, " ".join(counts(validation))))
    subject = f"{validation.model}, {validation.trainer}, {validation.source}"
    return "\n".join(
        [
            text.replace(word, terminal.style(word, "bold", _COLOURS[outcome]), 1),
            terminal.prose(plain(subject), indent="  "),
            *(f"  {plain(pasteable(override))}" for override in validation.overrides),
        ]
    )


def _recommendations(items: Sequence[JudgedRecommendation], terminal: Terminal) -> str:
    if not items:
        return terminal.style(nothing_to_advise(), "bold")
    entries = [_recommendation(item, number, terminal) for number, item in enumerate(items, start=1)]
    return "\n\n".join([terminal.style(_("Recommendations"), "bold"), *entries])


def _recommendation(item: JudgedRecommendation, number: int, terminal: Terminal) -> str:
    outcome = terminal.style(_(item.outcome.value), *_style(item.outcome))
    lines = [
        f"{number:>3} {outcome}: {plain(item.code)} {terminal.style(plain(item.name), 'bold')}",
        terminal.prose(_("Claim: {claim}.").format(claim=plain(item.claim)), indent=_INDENT),
        terminal.prose(sentence(plain(item.reason)), indent=_INDENT),
        *_table(item.measurements, terminal),
        *(f"{_INDENT}  {plain(pasteable(override))}" for override in item.overrides),
    ]
    return "\n".join(lines)


def _style(outcome: Outcome) -> tuple[str, ...]:
    return (_COLOURS[outcome],) if outcome is Outcome.NOT_MEASURABLE else ("bold", _COLOURS[outcome])


def _part(part: PartReport, terminal: Terminal) -> str:
    title = terminal.style(terminal.prose(plain(ended(part)), indent="  ", first=""), "bold")
    return "\n".join([title, *_table(part.measurements, terminal)])


def _table(items: Sequence[Measurement], terminal: Terminal) -> Iterator[str]:
    if items:
        amounts = right(_("predicted"), _AMOUNT) + right(_("measured"), _AMOUNT)
        head = " " * (2 + _NAME) + amounts + right(pgettext("of a prediction", "error"), _ERROR)
        yield terminal.style(head, "dim")
    for item in items:
        yield from _figure(item, terminal)


def _figure(item: Measurement, terminal: Terminal) -> Iterator[str]:
    """One row; a long name has a line of its own, and so has what the row does not say."""
    name = plain(item.what)
    if columns(name) > _NAME - 1:
        yield terminal.prose(name, indent=_INDENT, first="  ")
        name = ""
    predicted = prediction(item)
    error = "" if item.error is None else share(item.error)
    measured = quantity(item.measured, item.unit)
    row = f"  {left(name, _NAME)}{predicted:>{_AMOUNT}}{measured:>{_AMOUNT}}{error:>{_ERROR}}"
    outcome = item.outcome
    if outcome is None:
        yield row.rstrip()
    else:
        yield f"{row} {terminal.style(_(outcome.value), *_style(outcome))}"
    for remark in remarks(item):
        yield terminal.style(terminal.prose(plain(remark), indent=_INDENT + "  ", first=_INDENT), "dim")


def prediction(item: Measurement) -> str:
    """The predicted figure, empty where there is none or only an interval."""
    only = None if _interval(item) else item.low
    figure = item.predicted if item.predicted is not None else only
    return "" if figure is None else quantity(figure, item.unit)


def _interval(item: Measurement) -> tuple[str, str] | None:
    """Both ends of a prediction as they are written; None where there are none or they are written alike."""
    if item.low is None or item.high is None:
        return None
    low, high = quantity(item.low, item.unit), quantity(item.high, item.unit)
    return None if low == high else (low, high)


def remarks(item: Measurement) -> Iterator[str]:
    """What decides about a figure, and how it came about where it was not measured directly."""
    interval = _interval(item)
    if interval is not None:
        low, high = interval
        yield _("predicted from {low} to {high}").format(low=low, high=high)
    elif item.outcome is Outcome.REFUTED and item.tolerance is not None:
        yield _("the prediction may be off by {tolerance}").format(tolerance=percent(item.tolerance))
    if item.extrapolated is not None:
        yield _("extrapolated: {extrapolated}").format(extrapolated=item.extrapolated)


def _notes(file: ValidationFile, terminal: Terminal) -> str:
    if not file.notes:
        return ""
    notes = [terminal.prose(plain(note), indent="    ", first="  - ") for note in file.notes]
    return "\n".join([terminal.style(_("Notes"), "bold"), *notes])


def _machine(validation: Validation, terminal: Terminal) -> str:
    lines = [terminal.prose(plain(line), indent=_INDENT, first="  ") for line in machine_lines(validation)]
    return "\n".join([terminal.style(_("Machine"), "bold"), *lines])


def machine_lines(validation: Validation) -> Iterator[str]:
    """What the figures were measured on, and when."""
    machine = validation.machine
    cards = (
        _("{devices} x {device} on each of {nodes} nodes") if machine.nodes > 1 else "{devices} x {device}"
    )
    free = _("{free} of {total} free when the run began")
    yield clauses(
        [
            cards.format(devices=machine.devices, device=machine.device, nodes=machine.nodes),
            free.format(free=gib(machine.free_bytes), total=gib(machine.total_bytes)),
        ]
    )
    if validation.memory_limit_bytes is not None:
        yield _("at most {memory_limit} of each GPU taken, as asked for").format(
            memory_limit=gib(validation.memory_limit_bytes)
        )
    if machine.profile is not None:
        yield _("predicted with the profile {profile}").format(profile=machine.profile)
    yield ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield (
        _(
            "tuner {tuner_version}, {date}, {spent_seconds:.0f} s of a budget of {budget_seconds:.0f} s"
        ).format(
            tuner_version=validation.tuner_version,
            date=validation.date,
            spent_seconds=validation.spent_seconds,
            budget_seconds=validation.budget_seconds,
        )
    )
