"""The page around an answer in HTML: alone in one file, nothing loaded, the JSON report packed in it."""

from base64 import b64encode
from collections.abc import Iterable
from gzip import compress
from hashlib import sha256
from html import escape

from tuner.inputs.secrets import HIDDEN
from tuner.inputs.secrets.shapes import without_shapes
from tuner.language import _, chosen
from tuner.render.html_style import STYLE

#: A button beside each text to paste, made here so that there is none where scripts do not run.
_SCRIPT = """
for (const text of document.querySelectorAll("pre:not(.drawing)")) {{
  const button = document.createElement("button");
  button.textContent = "{copy}";
  button.onclick = () => navigator.clipboard.writeText(text.textContent).then(() => {{
    button.textContent = "{copied}";
  }});
  if (navigator.clipboard) text.before(button);
}}
"""


def html_page(title: str, sections: Iterable[str]) -> str:
    """A whole page.

    Args:
        title: as text.
        sections: as HTML; empty ones are left out.
    """
    content, language = "\n".join(filter(None, sections)), chosen().replace("_", "-")
    script = _SCRIPT.format(copy=escape(_("Copy")), copied=escape(_("Copied")))
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    return (
        f'<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body>\n<main>\n{content}\n</main>\n<script>{script}</script>\n</body></html>\n"
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
