"""Curves and bars drawn with matplotlib, as SVG that takes the colours and fonts of the page."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what reads the data of a picture draws none
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, safe for colour-blind readers; none of them is lost on white or on black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
# Lines and areas are told apart in grey, too.
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "||")

_INK = "#010203"  # becomes the colour of the page's text
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: found, copied, translated
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
}
_WIDTH = 5.4  # inches of 72 units: legible on a phone, where it is scaled to two thirds


@contextmanager
def axes(
    *, height: float = 3.2, rows: int = 1, ratios: Sequence[float] | None = None, name: str
) -> Iterator[tuple[list["Axes"], list[str]]]:
    """Axes above one another to draw on, and a list that the finished SVG is put into.

    Args:
        height: of the whole picture, in inches; it is 5.4 wide.
        rows: how many axes there are; they share the one below.
        ratios: how their heights compare, from the top; None: all alike.
        name: what makes identifiers in the picture differ from those of others on the page.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    finished: list[str] = []
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        drawing, all_axes = pyplot.subplots(
            rows,
            figsize=(_WIDTH, height),
            sharex=True,
            layout="constrained",
            squeeze=False,
            height_ratios=ratios,
        )
        yield [row[0] for row in all_axes], finished
        finished.append(_as_svg(drawing, name))
        pyplot.close(drawing)


def draw_lines(
    axis: "Axes", across: Sequence[float], lines: Mapping[str, Sequence[float]], words: Mapping[str, str]
) -> None:
    """Lines over the same places, told apart by colour, dashes and marks, with labels in the page's words."""
    for place, (name, values) in enumerate(lines.items()):
        axis.plot(
            across,
            values,
            color=COLOURS[place],
            linestyle=DASHES[place],
            marker=MARKERS[place],
            markersize=4,
            label=words[name],
        )


def _as_svg(drawing: "Figure", name: str) -> str:
    """The picture alone, without what makes it a file, with the page's colours and names of its own."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the browser has fonts for them
        drawing.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'<g id="[^"]+">', "<g>", text)  # no two pictures of a page share an identifier
    for number, used in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', text))):
        text = re.sub(rf'(id="|#){used}\b', rf"\g<1>{name}-{number}", text)
    text = re.sub(r"'sans-serif'|sans-serif", "inherit", text)
    return text.replace(_INK, "currentColor")


def thousands(number: float) -> str:
    """A number of tokens on an axis: ``16k``."""
    return f"{number / 1024:g}k" if number >= 1024 else f"{number:g}"
