"""Two configurations as one HTML page: what differs, with the memory and seconds of both as pictures."""

from tuner.consultation.comparison import ConfigurationDiff, Side
from tuner.language import _
from tuner.render.comparison import comparison_document
from tuner.render.comparison_report import comparison_json
from tuner.render.document.html import html_text
from tuner.render.html_page import attached, html_page
from tuner.render.html_pictures import PicturedJob, pictures


def comparison_html(comparison: ConfigurationDiff) -> str:
    """The whole comparison as a page."""
    sides = ((_("before"), comparison.before), (_("after"), comparison.after))
    heading = _("What the change does")
    title = _("{before} against {after}").format(
        before=comparison.before.given.source, after=comparison.after.given.source
    )
    return html_page(
        title,
        [
            f"<h1>{heading}</h1>",
            html_text(comparison_document(comparison, full=True)),
            pictures([_pictured(name, side) for name, side in sides]),
            attached(comparison_json(comparison)),
        ],
    )


def _pictured(name: str, side: Side) -> PicturedJob:
    case = side.job.case
    return PicturedJob(name, case.estimate, case.time, case.workload.cluster)
