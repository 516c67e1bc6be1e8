"""Markdown for the summary of a step or a comment: findings, and what each phase takes."""

from collections.abc import Iterator

from tuner.language import _, ngettext
from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.input_document import input_document
from tuner.render.document.markdown import markdown
from tuner.render.document.parts import AnswerDocument, Heading, Paragraph, Part
from tuner.render.numbers import EMPTY, FULL, LIMIT
from tuner.render.words import counted, full_stop, listed
from tuner.review.review import Review
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
    first = AnswerDocument(sections=(tuple(head(review)),))
    for document in (first, *map(input_document, review.inputs)):
        yield markdown(document).rstrip("\n")


def head(review: Review) -> Iterator[Part]:
    """The title with how many findings there are, and what was left alone."""
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
