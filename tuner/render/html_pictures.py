"""Jobs side by side on a page: the memory of their phases as pictures, then the seconds of them."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from tuner.hardware import Cluster
from tuner.language import _
from tuner.memory import Estimate
from tuner.render.bars import PARTS
from tuner.render.picture import phase_picture
from tuner.render.seconds_picture import seconds_picture, timed_phases
from tuner.timing import StepTime


class PicturedJob(NamedTuple):
    """One job as its pictures need it."""

    name: str  # below its pictures
    estimate: Estimate
    time: StepTime
    cluster: Cluster


def pictures(jobs: Sequence[PicturedJob]) -> str:
    """The pictures of some jobs, with as many seconds to the width for all of them."""
    labels = {part.label: _(part.label) for part in PARTS} | {"card": _("the card")}
    memory = [(job.name, phase_picture(job.estimate, labels=labels)) for job in jobs]
    title = _("GPU memory by phase, per GPU")
    shown = _figures(title, memory, _("{name}: GPU memory by phase"))
    timed = [(job.name, timed_phases(job.time, job.cluster)) for job in jobs if job.time.seconds > 0]
    if not timed:
        return shown
    most = max(interval.high_s for _name, phases in timed for _phase, interval in phases)
    bars = [(name, seconds_picture(phases, most=most, unit=_("seconds"))) for name, phases in timed]
    title = _("Seconds by phase, with the interval in which a run is expected")
    return shown + _figures(title, bars, _("{name}: seconds by phase"))


def _figures(title: str, drawn: Sequence[tuple[str, str]], called: str) -> str:
    """Pictures side by side.

    Args:
        title: above all of them.
        drawn: the name of each job, and its picture as SVG.
        called: what a picture is called for those who do not see it, by the job's ``name``.
    """
    figures = "".join(
        f"<figure>{_labelled(svg, called.format(name=name))}<figcaption>{escape(name)}</figcaption></figure>"
        for name, svg in drawn
    )
    return f'<h2>{title}</h2><div class="pictures">{figures}</div>'


def _labelled(svg: str, label: str) -> str:
    """A picture that says what it is to those who do not see it."""
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
