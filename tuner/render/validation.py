"""A validation: verdict, recommendations, figures by part, notes, machine."""

from collections.abc import Iterator, Sequence

from tuner.language import _, pgettext
from tuner.render.document.marks import Mark, Medium, code, either, marked, strong, user_text
from tuner.render.document.parts import (
    AnswerDocument,
    Bullet,
    Column,
    Heading,
    Headline,
    Paragraph,
    Part,
    Paste,
    Row,
    Table,
)
from tuner.render.numbers import gib, percent, quantity, share
from tuner.render.progress import ended
from tuner.render.terminal import plain
from tuner.render.words import clauses, listed, nothing_to_advise, pasteable, sentence
from tuner.validate.plans import PartPlan
from tuner.validate.report.schema import (
    JudgedRecommendation,
    Measurement,
    Outcome,
    PartReport,
    Validation,
    ValidationFile,
)

_NAME, _AMOUNT, _ERROR = 32, 14, 8  # columns of a terminal; the verdict stands behind them, up to column 80
_MARKS = {Outcome.CONFIRMED: Mark.GOOD, Outcome.REFUTED: Mark.BAD, Outcome.NOT_MEASURABLE: Mark.DIM}


def validation_json(files: Sequence[ValidationFile]) -> str:
    """The report as JSON; a list where there are several kinds of nodes."""
    texts = [file.model_dump_json(indent=2, by_alias=True) for file in files]
    return texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]"


def validation_document(file: ValidationFile) -> AnswerDocument:
    """The whole report."""
    validation = file.validation
    return AnswerDocument(
        sections=(
            _verdict(validation),
            *_recommendations(validation.recommendations),
            *map(_part, validation.parts),
            _list(_("Notes"), file.notes, dash=True),
            _list(_("Machine"), tuple(_machine(validation)), dash=False),
        )
    )


def plan_document(plans: Sequence[PartPlan]) -> AnswerDocument:
    """What would run, with the seconds expected."""
    parts: list[Part] = [Heading(text=_("What would run"))]
    for plan in plans:
        if plan.reason:
            text = _("{part}: left out, {reason}").format(part=plan.part.value, reason=user_text(plan.reason))
            parts.append(Paragraph(text=text, level=1, further=1))
            continue
        total = sum(planned.seconds for planned in plan.planned)
        text = _("{part}: about {total:.0f} s").format(part=plan.part.value, total=total)
        parts.append(Paragraph(text=text, level=1))
        parts += (
            Paragraph(text=f"{user_text(planned.title)}, {planned.seconds:.0f} s", level=2, further=1)
            for planned in plan.planned
        )
    return AnswerDocument(sections=(tuple(parts),))


def _headline(validation: Validation) -> tuple[str, Outcome]:
    """The verdict in a word, and what colours it."""
    if validation.refuted:
        return _("REFUTED"), Outcome.REFUTED
    if Outcome.CONFIRMED in _outcomes(validation):
        return _("CONFIRMED"), Outcome.CONFIRMED
    return _("NOTHING JUDGED"), Outcome.NOT_MEASURABLE


def _counts(validation: Validation) -> Iterator[str]:
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


def _verdict(validation: Validation) -> tuple[Part, ...]:
    word, outcome = _headline(validation)
    counts = " ".join(_counts(validation))
    subject = either(
        terminal=plain(f"{validation.model}, {validation.trainer}, {validation.source}"),
        page=f"{code(validation.source)}, {user_text(validation.trainer)}.",
    )
    return (
        Headline(
            word=marked(word, _MARKS[outcome] if outcome is not Outcome.NOT_MEASURABLE else Mark.STRONG),
            about=user_text(validation.model),
            text=either(terminal=counts, page=sentence(counts)),
        ),
        Paragraph(text=subject, level=1),
        _overrides(validation.overrides, level=1),
    )


def _overrides(overrides: Sequence[str], *, level: int) -> Paste:
    return Paste(lines=tuple(map(pasteable, overrides)), level=level, only=Medium.TERMINAL)


def _recommendations(items: Sequence[JudgedRecommendation]) -> Iterator[tuple[Part, ...]]:
    """On a page the claims are a table; a terminal has room for their figures as well."""
    if not items:
        yield (Heading(text=nothing_to_advise(), only=Medium.TERMINAL),)
        return
    titles = (_("recommendation"), _("claim"), _("outcome"), _("reason"))
    rows = tuple(
        Row(
            cells=(
                f"{user_text(item.code)} {user_text(item.name)}",
                user_text(item.claim),
                _mark(item.outcome),
                user_text(sentence(item.reason)),
            )
        )
        for item in items
    )
    claims = Table(columns=tuple(Column(title=title) for title in titles), rows=rows, only=Medium.PAGE)
    yield Heading(text=_("Recommendations")), claims
    for number, item in enumerate(items, start=1):
        yield tuple(_recommendation(item, number))


def _recommendation(item: JudgedRecommendation, number: int) -> Iterator[Part]:
    name = f"{user_text(item.code)} {strong(user_text(item.name))}"
    yield Paragraph(
        text=f"{_mark(item.outcome)}: {name}", label=f"{number:>3} ", further=2, only=Medium.TERMINAL
    )
    for text in (_("Claim: {claim}.").format(claim=user_text(item.claim)), user_text(sentence(item.reason))):
        yield Paragraph(text=text, level=2, only=Medium.TERMINAL)
    if item.measurements:
        yield _figures(item.measurements, only=Medium.TERMINAL)
    yield _overrides(item.overrides, level=3)


def _mark(outcome: Outcome) -> str:
    return marked(_(outcome.value), _MARKS[outcome])


def _part(part: PartReport) -> tuple[Part, ...]:
    title = Heading(text=user_text(ended(part)), further=1)
    return (title, _figures(part.measurements)) if part.measurements else (title,)


def _figures(items: Sequence[Measurement], *, only: Medium | None = None) -> Table:
    columns = (
        Column(width=_NAME - 1),
        Column(title=_("predicted"), width=_AMOUNT + 1, align="right"),
        Column(title=_("measured"), width=_AMOUNT, align="right"),
        Column(title=pgettext("of a prediction", "error"), width=_ERROR, align="right"),
        Column(title=either(page=_("outcome")), before=" "),
        Column(below=True),
    )
    return Table(columns=columns, rows=tuple(map(_figure, items)), only=only)


def _figure(item: Measurement) -> Row:
    return Row(
        cells=(
            user_text(item.what),
            prediction(item),
            quantity(item.measured, item.unit),
            "" if item.error is None else share(item.error),
            "" if item.outcome is None else _mark(item.outcome),
            "\n".join(map(user_text, _remarks(item))),
        )
    )


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


def _remarks(item: Measurement) -> Iterator[str]:
    """What decides about a figure, and how it came about where it was not measured directly."""
    interval = _interval(item)
    if interval is not None:
        low, high = interval
        yield _("predicted from {low} to {high}").format(low=low, high=high)
    elif item.outcome is Outcome.REFUTED and item.tolerance is not None:
        yield _("the prediction may be off by {tolerance}").format(tolerance=percent(item.tolerance))
    if item.extrapolated is not None:
        yield _("extrapolated: {extrapolated}").format(extrapolated=item.extrapolated)


def _list(title: str, texts: Sequence[str], *, dash: bool) -> tuple[Part, ...]:
    if not texts:
        return ()
    return Heading(text=title), *(Bullet(text=user_text(text), dash=dash) for text in texts)


def _machine(validation: Validation) -> Iterator[str]:
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
