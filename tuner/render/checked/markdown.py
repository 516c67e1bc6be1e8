"""Markdown for the summary of a step or a comment: findings, and what each phase takes."""

from collections.abc import Iterator

from tuner.language import _, ngettext
from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.rule_help import escaped
from tuner.render.checked.wording import help_text, page, path_of, stated
from tuner.render.numbers import gib, percent
from tuner.render.terminal import plain
from tuner.render.words import counted, full_stop, listed
from tuner.review.input_findings import FindingLine, InputFindings, PhaseUse
from tuner.review.review import Review
from tuner.rules.wording import duration
from tuner.units import MIB

MOST_BYTES = MIB - 1024  # GitHub takes summaries below 1 MiB; room for the sentence on what is left out
_CELLS = 20  # of a whole card
_FULL, _EMPTY, _LIMIT = "\u2588", "\u2591", "\u2503"
_ASCII = str.maketrans({_FULL: "#", _EMPTY: "-", _LIMIT: "!"})


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
        said = ngettext(
            "{count} input is left out, since a summary has less than 1 MiB.",
            "{count} inputs are left out, since a summary has less than 1 MiB.",
            missing,
        )
        yield said.format(count=missing)


def _paragraphs(review: Review) -> Iterator[str]:
    """The heading with the count, then one part for each input."""
    counts = [counted(count, severity) for severity, count in review.counts.items()]
    unreadable = review.totals.unusable
    if unreadable:
        text = ngettext("{count} input that cannot be used", "{count} inputs that cannot be used", unreadable)
        counts.append(text.format(count=unreadable))
    head = [f"## tuner check: {listed(counts) or _('no findings')}"]
    if review.skipped:
        skipped = len(review.skipped)
        text = ngettext(
            "{count} file of a folder is no configuration",
            "{count} files of folders are no configurations",
            skipped,
        )
        head.append(full_stop(text.format(count=skipped)))
    yield "\n\n".join(head)
    for checked in review.inputs:
        yield "\n\n".join(_input(checked))


def _input(checked: InputFindings) -> Iterator[str]:
    yield f"### {code(path_of(checked.source))}"
    if checked.problem is not None:
        error = _("error")
        yield f"**{error}**: {cell(checked.problem.message)}"
        return
    if checked.lines:
        titles = (_("Finding"), _("Line"), _("Message"), _("Override"))
        yield table(titles, [_row(line, checked) for line in checked.lines])
    else:
        yield full_stop(_("No findings"))
    judged = checked.judged_for
    if judged is not None and checked.phases:
        programs = [f"{judged.trainer} {judged.release}", *([judged.engine] if judged.engine else [])]
        text = _("Each phase on one of {gpus} GPUs, {gpu} with {capacity}, with {programs}:")
        yield text.format(
            gpus=checked.gpus,
            gpu=cell(judged.gpu.name),
            capacity=gib(judged.gpu.memory_bytes),
            programs=cell(listed(programs)),
        )
        titles = (_("Phase"), _("Peak"), _("Share of the card"), _("Seconds"))
        yield table(titles, [_phase(phase, judged.gpu.memory_bytes) for phase in checked.phases])


def _row(line: FindingLine, checked: InputFindings) -> tuple[str, ...]:
    rule, place = line.finding.rule, line.location
    name = f"[{rule.code}]({page(rule)})" if page(rule) else rule.code
    position = "" if place.line is None else str(place.line)
    if place.source != checked.source:
        position = f"{cell(path_of(place.source))}:{position}"
    return (
        f"{_(line.finding.severity.value)} {name} {rule.name}",
        position,
        cell(stated(line)),
        code(help_text(line)) if line.overrides else "",
    )


def _phase(phase: PhaseUse, capacity: int) -> tuple[str, ...]:
    share = phase.peak_bytes / capacity
    seconds = "" if phase.seconds is None else duration(phase.seconds)
    return (f"`{phase.phase}`", gib(phase.peak_bytes), f"{bar(share)} {percent(share)}", seconds)


def bar(share: float) -> str:
    """A share of the card in blocks; what is above the card stands behind a mark."""
    filled = min(_CELLS, round(share * _CELLS))
    over = min(_CELLS, round(max(0.0, share - 1) * _CELLS))
    return _FULL * filled + _EMPTY * (_CELLS - filled) + (_LIMIT + _FULL * over if share > 1 else "")


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows of cells that are Markdown already."""
    lines = [titles, tuple("---" for _title in titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """A user's text as one cell of a table. An @ would call somebody, so it gets a space of no width."""
    return escaped(plain(text)).replace("@", "@\u200b")


def code(text: str) -> str:
    """A user's text as code in a cell of a table."""
    shown = plain(text).replace("|", "\\|")
    marks = "``" if "`" in shown else "`"
    space = " " if "`" in shown else ""
    return f"{marks}{space}{shown}{space}{marks}"
