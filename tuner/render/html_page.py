"""The page around an answer in HTML: alone in one file, without a script, the JSON report packed in it."""

from base64 import b64encode
from collections.abc import Iterable
from gzip import compress
from html import escape

from tuner.inputs.secrets import HIDDEN
from tuner.inputs.secrets.shapes import without_shapes
from tuner.language import _, chosen
from tuner.render.html_style import STYLE


def html_page(title: str, sections: Iterable[str]) -> str:
    """A whole page.

    Args:
        title: as text.
        sections: as HTML; empty ones are left out.
    """
    content, language = "\n".join(filter(None, sections)), chosen().replace("_", "-")
    return (
        f'<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body>\n<main>\n{content}\n</main>\n</body></html>\n"
    )


def attached(json: str) -> str:
    """The JSON report as a file to save: packed, since it is ten times the page, and without a script."""
    shown = without_shapes(json, HIDDEN).encode()
    # What is printed loses whatever has the shape of a credential, as packed letters may have by chance:
    # packed less tightly they are others. No time stamp: the same answer gives the same page.
    packings = (b64encode(compress(shown, level, mtime=0)).decode() for level in range(9, 0, -1))
    packed = next(text for text in packings if without_shapes(text, HIDDEN) == text)
    title = _("This report as JSON")
    link = f'download="tuner-report.json.gz" href="data:application/gzip;base64,{packed}"'
    return f'<p class="data"><a {link}>{title}</a></p>'
