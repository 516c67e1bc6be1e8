"""The plan as one HTML file: what to run, then numbers and cards as pictures and as tables.

It asks for nothing from outside, prints as it stands, and carries the JSON report with it.
"""

from html import escape

from tuner.consultation.planning import PlanAnswer
from tuner.language import _
from tuner.render.document.html import html_text
from tuner.render.document.parts import AnswerDocument
from tuner.render.html_page import attached, html_page
from tuner.render.plan import choices, tables
from tuner.render.plan_pictures import plan_title, trade_off_views
from tuner.render.plan_report import plan_json
from tuner.render.trade_off_picture import trade_off_picture


def plan_html(answer: PlanAnswer) -> str:
    """The whole plan as a page."""
    title = plan_title(answer)
    return html_page(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            html_text(AnswerDocument(sections=choices(answer))),
            _pictures(answer),
            html_text(AnswerDocument(sections=tables(answer))),
            attached(plan_json(answer)),
        ],
    )


def _pictures(answer: PlanAnswer) -> str:
    """Seconds against what they cost, beside one another where there is room."""
    figures = []
    for view in trade_off_views(answer):
        svg = trade_off_picture(view.picture)
        named = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(view.title)}" ', 1)
        figures.append(f"<figure>{named}<figcaption>{escape(view.caption)}</figcaption></figure>")
    if not figures:
        return ""
    title = escape(_("What is faster, and what it costs"))
    return f'<h2>{title}</h2><div class="pictures">{"".join(figures)}</div>'
