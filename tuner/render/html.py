"""The advice as one HTML file, from what is read in a minute to what is checked in ten.

The verdict, the numbers and the block to paste come first, then pictures before and after; findings, premises
and sums are folded. It asks for nothing from outside, prints as it stands, and has the JSON report in it.
"""

from collections.abc import Iterable

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
from tuner.render.block import contributions
from tuner.render.document.html import html_text
from tuner.render.document.marks import Medium, words
from tuner.render.document.parts import AnswerDocument, Paragraph, Part
from tuner.render.html_page import attached, html_page
from tuner.render.html_pictures import PicturedJob, pictures
from tuner.render.json import advice_json
from tuner.render.premises import premises
from tuner.render.recommendations import recommendations
from tuner.render.report_tiles import tiles
from tuner.render.verdict import subject


def advice_html(answer: Consultation) -> str:
    """The whole answer as a page."""
    advice = answer.advice
    title = words(subject(advice), Medium.PAGE)
    said = judgement(answer)
    texts = (*engine_memory(advice), *carried(answer, full=True), *memory_aside(advice))
    sections = [
        _written([failed_allocation(answer)]),
        f'<div class="verdict">\n{_written([said])}\n</div>',
        tiles(advice),
        _section(_("What to paste"), to_paste(answer)),
        _pictures(advice),
        _written([observed_run(answer)]),
        _folded(_("Findings"), [*recommendations(advice), tuple(contributions(advice))]),
        _folded(_("Memory in words"), [tuple(Paragraph(text=text) for text in texts)]),
        _folded(_("Seconds of a step"), [tuple(Paragraph(text=text) for text in seconds(advice))]),
        _folded(_("What was taken to be so"), [tuple(premises(answer))]),
        _folded(_("Batch sizes, in sequences"), [(batches(advice),)]),
        _folded(_("The sum of every phase"), [(sums(advice),)]),
        attached(advice_json(answer)),
    ]
    return html_page(title, sections)


def _pictures(advice: Advice) -> str:
    """The phases of the job as it is, and with the block pasted where there is one."""
    jobs = [PicturedJob(_("As it is"), advice.estimate, advice.time, advice.workload.cluster)]
    together = advice.combination
    if together is not None:
        name, cluster = _("With the block pasted"), together.workload.cluster
        jobs.append(PicturedJob(name, together.estimate, together.time, cluster))
    return pictures(jobs)


def _written(sections: Iterable[tuple[Part, ...]]) -> str:
    return html_text(AnswerDocument(sections=tuple(sections)))


def _section(title: str, sections: Iterable[tuple[Part, ...]]) -> str:
    text = _written(sections)
    return f"<h2>{title}</h2>\n{text}" if text else ""


def _folded(title: str, sections: Iterable[tuple[Part, ...]]) -> str:
    """What is read on demand; its title alone where everything is printed or opened."""
    text = _written(sections)
    return f"<details><summary>{title}</summary>\n{text}\n</details>" if text else ""
