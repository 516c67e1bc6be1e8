"""The two sites: the switch between them by a relative link, and what one language writes otherwise."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata


@dataclass(frozen=True)
class Language:
    """One site."""

    code: str  # Sphinx's name
    folder: str  # below the root of the sites
    tag: str  # BCP 47, for hreflang and lang
    label: str  # its own name for itself


LANGUAGES = (
    Language(code="en", folder="en", tag="en", label="English"),
    Language(code="zh_CN", folder="zh-cn", tag="zh-Hans", label="简体中文"),
)

_FIGURES = ((re.compile(r"(?<=\d)[ \u00a0]%"), "%"), (re.compile(r"(?<=\d)[ \u00a0]tokens\b"), " 个 token"))


class ChineseFigures(SphinxPostTransform):
    """Writes percentages and numbers of tokens as Chinese does; they are computed as in English."""

    default_priority = 900

    def run(self, **kwargs: object) -> None:
        """Rewrite the text of one page, without what is quoted or code."""
        if self.config.language != "zh_CN":
            return
        for text in list(self.document.findall(nodes.Text)):
            code = isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw))
            said = _chinese(text.astext())
            if not code and said != text.astext():
                text.parent.replace(text, nodes.Text(said))


def _chinese(text: str) -> str:
    for pattern, written in _FIGURES:
        text = pattern.sub(written, text)
    return text


def _add_links(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put the links of one page into its template's context."""
    up = "../" * (pagename.count("/") + 1)
    links = [
        {
            "href": f"{up}{language.folder}/{pagename}.html",
            "tag": language.tag,
            "label": language.label,
            "current": language.code == app.config.language,
        }
        for language in LANGUAGES
    ]
    context["language_links"] = links
    alternates = [(link["tag"], link["href"]) for link in links] + [("x-default", links[0]["href"])]
    tags = "".join(f'<link rel="alternate" hreflang="{tag}" href="{href}">' for tag, href in alternates)
    context["metatags"] = context.get("metatags", "") + tags


def _write_root(app: Sphinx, exception: Exception | None) -> None:
    """Write the page above both sites, which sends a reader to one of them."""
    if exception is not None or app.builder.name != "html":
        return
    template = Path(app.srcdir, "_templates", "choose-language.html").read_text(encoding="utf-8")
    Path(app.outdir).parent.joinpath("index.html").write_text(template, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the links, the root page and the figures."""
    app.add_post_transform(ChineseFigures)
    app.connect("html-page-context", _add_links)
    app.connect("build-finished", _write_root)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
