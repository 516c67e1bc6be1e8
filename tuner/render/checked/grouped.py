"""The findings under the name of their input."""

from collections.abc import Iterator

from tuner.render.checked.concise import finding_label
from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.wording import description, path_of
from tuner.render.terminal import Terminal, plain
from tuner.review.input_findings import FindingLine, InputFindings
from tuner.review.review import Review


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """A paragraph for each input with findings; empty where there is none."""
    return separated(_paragraph(checked, context.terminal) for checked in review.inputs if checked.lines)


def _paragraph(checked: InputFindings, terminal: Terminal) -> str:
    places = [_place(line, checked) for line in checked.lines]
    width = max(map(len, places))
    lines = [
        f"  {place.ljust(width)}  {finding_label(line, terminal)}: {description(line)}"
        for place, line in zip(places, checked.lines, strict=True)
    ]
    return "\n".join([terminal.style(plain(path_of(checked.source)), "bold"), *lines])


def _place(line: FindingLine, checked: InputFindings) -> str:
    place = line.location
    position = f"{place.line or 1}:{place.column or 1}"
    return position if place.source == checked.source else f"{plain(path_of(place.source))}:{position}"
