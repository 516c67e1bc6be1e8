"""The advice as one HTML file: pictures before and after, what to paste, all findings, all sums.

It asks for nothing from outside, has no script, prints as it stands, and carries the JSON report with it.
"""

from collections.abc import Iterable
from html import escape

from tuner.advise import Advice
from tuner.consultation.result import Consultation
from tuner.language import _
from tuner.render.advice import (
    batches,
    carried,
    engine_memory,
    failed_allocation,
    judgement,
    memory_aside,
    observed_run,
    seconds,
    sums,
    to_paste,
)
from tuner.render.bars import PARTS
from tuner.render.block import contributions
from tuner.render.document.html import html_text
from tuner.render.document.marks import Medium, words
from tuner.render.document.parts import AnswerDocument, Paragraph, Part
from tuner.render.html_page import attached, html_page
from tuner.render.json import advice_json
from tuner.render.picture import phase_picture
from tuner.render.premises import premises
from tuner.render.recommendations import recommendations
from tuner.render.verdict import subject


def advice_html(answer: Consultation) -> str:
    """The whole answer as a page."""
    advice = answer.advice
    title = words(subject(advice), Medium.PAGE)
    said = judgement(answer)
    texts = (*engine_memory(advice), *carried(answer, full=True), *memory_aside(advice))
    beside = tuple(Paragraph(text=text) for text in texts)
    sections = [
        _written([failed_allocation(answer)]),
        f'<div class="verdict">\n{_written([said])}\n</div>',
        _pictures(advice),
        _written([beside]),
        _section(_("Seconds of a step"), [tuple(Paragraph(text=text) for text in seconds(advice))]),
        _written([observed_run(answer)]),
        _section(_("What to paste"), to_paste(answer)),
        _section(_("Findings"), recommendations(advice)),
        _written([tuple(contributions(advice))]),
        _folded(_("What was taken to be so"), tuple(premises(answer))),
        _folded(_("Batch sizes, in sequences"), (batches(advice),)),
        _folded(_("The sum of every phase"), (sums(advice),)),
        attached(advice_json(answer)),
    ]
    return html_page(title, sections)


def _pictures(advice: Advice) -> str:
    """The phases of the job as it is, and with the block pasted where there is one."""
    together, title = advice.combination, _("GPU memory by phase, per GPU")
    pictures = [(_("As it is"), advice.estimate)]
    if together is not None:
        pictures.append((_("With the block pasted"), together.estimate))
    labels = {part.label: _(part.label) for part in PARTS} | {"card": _("the card")}
    drawn = "".join(
        f"<figure>{_named(phase_picture(estimate, labels=labels), name)}"
        f"<figcaption>{name}</figcaption></figure>"
        for name, estimate in pictures
    )
    return f'<h2>{title}</h2><div class="pictures">{drawn}</div>'


def _named(svg: str, name: str) -> str:
    """A picture that says what it is to those who do not see it."""
    label = escape(_("{name}: GPU memory by phase").format(name=name))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _written(sections: Iterable[tuple[Part, ...]]) -> str:
    return html_text(AnswerDocument(sections=tuple(sections)))


def _section(title: str, sections: Iterable[tuple[Part, ...]]) -> str:
    text = _written(sections)
    return f"<h2>{title}</h2>\n{text}" if text else ""


def _folded(title: str, parts: tuple[Part, ...]) -> str:
    return f"<details><summary>{title}</summary>\n{_written([parts])}\n</details>"
