"""Markdown for the summary of a step or a comment: findings, and what each phase takes."""

from collections.abc import Iterator

from tuner.language import _, ngettext
from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.wording import help_text, page, path_of, stated
from tuner.render.document.markdown import markdown
from tuner.render.document.marks import code, link, strong, user_text
from tuner.render.document.parts import AnswerDocument, Column, Heading, Paragraph, Part, Row, Table
from tuner.render.numbers import EMPTY, FULL, LIMIT, gib, percent, share_bar
from tuner.render.words import counted, full_stop, listed
from tuner.review.input_findings import FindingLine, InputFindings, JudgedFor, PhaseUse
from tuner.review.review import Review
from tuner.rules.wording import duration
from tuner.units import MIB

MOST_BYTES = MIB - 1024  # GitHub takes summaries below 1 MiB; room for the sentence on what is left out
_ASCII = str.maketrans({FULL: "#", EMPTY: "-", LIMIT: "!"})


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """The whole review, as far as it is below a step summary's limit."""
    texts = separated(_texts(review))
    return texts if context.terminal.unicode else (text.translate(_ASCII) for text in texts)


def _texts(review: Review) -> Iterator[str]:
    """The heading and the inputs that a summary has room for, and how many are left out."""
    missing = 1 + len(review.inputs)
    size = 0
    for part in _paragraphs(review):
        size += len(part.encode("utf-8", "surrogatepass")) + 2
        if size > MOST_BYTES:
            break
        missing -= 1
        yield part
    if missing:
        sentence = ngettext(
            "{count} input is left out, since a summary has less than 1 MiB.",
            "{count} inputs are left out, since a summary has less than 1 MiB.",
            missing,
        )
        yield sentence.format(count=missing)


def _paragraphs(review: Review) -> Iterator[str]:
    """The heading with the count, then one part for each input."""
    for parts in (_head(review), *map(_input, review.inputs)):
        yield markdown(AnswerDocument(sections=(tuple(parts),))).rstrip("\n")


def _head(review: Review) -> Iterator[Part]:
    counts = [counted(count, severity) for severity, count in review.counts.items()]
    unreadable = review.totals.unusable
    if unreadable:
        text = ngettext("{count} input that cannot be used", "{count} inputs that cannot be used", unreadable)
        counts.append(text.format(count=unreadable))
    yield Heading(text=f"tuner check: {listed(counts) or _('no findings')}", rank=2)
    if review.skipped:
        skipped = len(review.skipped)
        text = ngettext(
            "{count} file of a folder is no configuration",
            "{count} files of folders are no configurations",
            skipped,
        )
        yield Paragraph(text=full_stop(text.format(count=skipped)))


def _input(checked: InputFindings) -> Iterator[Part]:
    yield Heading(text=code(path_of(checked.source)))
    if checked.problem is not None:
        yield Paragraph(text=f"{strong(_('error'))}: {user_text(checked.problem.message)}")
        return
    if checked.lines:
        titles = (_("Finding"), _("Line"), _("Message"), _("Override"))
        columns = tuple(Column(title=title) for title in titles)
        yield Table(columns=columns, rows=tuple(_row(line, checked) for line in checked.lines))
    else:
        yield Paragraph(text=full_stop(_("No findings")))
    if checked.judged_for is not None and checked.phases:
        yield from _phases(checked, checked.judged_for)


def _phases(checked: InputFindings, judged: JudgedFor) -> Iterator[Part]:
    programs = [f"{judged.trainer} {judged.release}", *([judged.engine] if judged.engine else [])]
    text = _("Each phase on one of {gpus} GPUs, {gpu} with {capacity}, with {programs}:").format(
        gpus=checked.gpus,
        gpu=user_text(judged.gpu.name),
        capacity=gib(judged.gpu.memory_bytes),
        programs=user_text(listed(programs)),
    )
    yield Paragraph(text=text)
    columns = (
        Column(title=_("Phase")),
        Column(title=_("Peak"), align="right"),
        Column(title=_("Share of the card")),
        Column(title=_("Seconds"), align="right"),
    )
    capacity = judged.gpu.memory_bytes
    yield Table(columns=columns, rows=tuple(_phase(phase, capacity) for phase in checked.phases))


def _row(line: FindingLine, checked: InputFindings) -> Row:
    rule, place = line.finding.rule, line.location
    name = link(rule.code, page(rule))
    position = "" if place.line is None else str(place.line)
    if place.source != checked.source:
        position = f"{user_text(path_of(place.source))}:{position}"
    return Row(
        cells=(
            f"{_(line.finding.severity.value)} {name} {rule.name}",
            position,
            user_text(stated(line)),
            code(help_text(line)) if line.overrides else "",
        )
    )


def _phase(phase: PhaseUse, capacity: int) -> Row:
    share = phase.peak_bytes / capacity
    seconds = "" if phase.seconds is None else duration(phase.seconds)
    bar = f"{share_bar(share)} {percent(share)}"
    return Row(cells=(code(phase.phase), gib(phase.peak_bytes), bar, seconds))
