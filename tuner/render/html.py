"""The advice as one HTML file: pictures before and after, what to paste, all findings, all sums.

It asks for nothing from outside, has no script, prints as it stands, and carries the JSON report with it.
"""

from base64 import b64encode
from collections.abc import Iterable
from gzip import compress
from html import escape

from tuner.consultation.result import Consultation
from tuner.language import _, chosen
from tuner.render.advice import batches, sums
from tuner.render.bars import PARTS
from tuner.render.block import block, contributions
from tuner.render.document.marks import Medium, words
from tuner.render.document.parts import AnswerDocument, Paragraph, Part
from tuner.render.document.terminal import terminal_text
from tuner.render.json import advice_json
from tuner.render.picture import phase_picture
from tuner.render.premises import premises
from tuner.render.recommendations import recommendations
from tuner.render.step_seconds import step_seconds
from tuner.render.terminal import Terminal
from tuner.render.verdict import subject, verdict

_COLUMNS = 100
_STYLE = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; background: Canvas; color: CanvasText; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.45; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; line-height: 1.35; }
.verdict { font-size: .9rem; border-left: .3rem solid; padding-left: .8rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 2rem; }
.pictures figure { flex: 1 1 24rem; margin: 0; max-width: 30rem; }
svg { width: 100%; height: auto; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; }
@media print { .data { display: none; } }
@media print { details > * { display: block !important; } rect { print-color-adjust: exact; } }
"""


def advice_html(answer: Consultation) -> str:
    """The whole answer as a document."""
    advice = answer.advice
    together = advice.combination
    title = words(subject(advice), Medium.PAGE)
    pictures = [(_("As it is"), advice.estimate)]
    if together is not None:
        pictures.append((_("With the block pasted"), together.estimate))
    labels = {part.label: _(part.label) for part in PARTS} | {"card": _("the card")}
    drawn = "".join(
        f"<figure>{_named(phase_picture(estimate, labels=labels), name)}"
        f"<figcaption>{name}</figcaption></figure>"
        for name, estimate in pictures
    )
    phases, language = _("GPU memory by phase, per GPU"), chosen().replace("_", "-")
    body = _written([tuple(verdict(advice, answer.left_out, node_said=answer.node_said))])
    seconds = (Paragraph(text=step_seconds(advice), level=1, further=1),)
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<pre class="verdict">{escape(body)}</pre>',
        f'<h2>{phases}</h2><div class="pictures">{drawn}</div>',
        _section(_("Seconds of a step"), [seconds]),
        _section(_("What to paste"), block(advice)),
        _section(_("Findings"), recommendations(advice)),
        # Its first part is the title.
        _section(_("What each part of the block brings"), [tuple(contributions(advice))[1:]]),
        _folded(_("What was taken to be so"), tuple(premises(answer))),
        _folded(_("Batch sizes, in sequences"), (batches(advice),)),
        _folded(_("The sum of every phase"), (sums(advice),)),
        _attached(advice_json(answer)),
    ]
    content = "\n".join(filter(None, sections))
    return (
        f'<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n<main>\n{content}\n</main>\n</body></html>\n"
    )


def _named(svg: str, name: str) -> str:
    """A picture that says what it is to those who do not see it."""
    label = escape(_("{name}: GPU memory by phase").format(name=name))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _written(sections: Iterable[tuple[Part, ...]]) -> str:
    """Parts as a terminal of some width has them."""
    document = AnswerDocument(sections=tuple(sections))
    return terminal_text(document, Terminal(width=_COLUMNS)).rstrip("\n")


def _section(title: str, sections: Iterable[tuple[Part, ...]]) -> str:
    text = _written(sections)
    return f"<h2>{title}</h2><pre>{escape(text)}</pre>" if text else ""


def _folded(title: str, parts: tuple[Part, ...]) -> str:
    return f"<details><summary>{title}</summary><pre>{escape(_written([parts]))}</pre></details>"


def _attached(json: str) -> str:
    """The JSON report as a file to save: packed, since it is ten times the page, and without a script."""
    # No time stamp: the same answer gives the same page.
    packed = b64encode(compress(json.encode(), mtime=0)).decode()
    title = _("This report as JSON")
    link = f'download="tuner-report.json.gz" href="data:application/gzip;base64,{packed}"'
    return f'<p class="data"><a {link}>{title}</a></p>'
