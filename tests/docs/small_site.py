"""Builds a site of a page or two with extensions of the documentation."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polib
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace


@dataclass(frozen=True)
class SmallSite:
    """A built site, and what Sphinx had to say."""

    folder: Path
    warnings: str

    def page(self, name: str) -> str:
        """A page as HTML."""
        return (self.folder / "html" / f"{name}.html").read_text(encoding="utf-8")

    def messages(self, name: str) -> set[str]:
        """What of a page is translated."""
        return {entry.msgid for entry in polib.pofile(str(self.folder / "gettext" / f"{name}.pot"))}


def build(folder: Path, files: Mapping[str, str], *, extensions: Sequence[str]) -> SmallSite:
    """Write files below a folder and build them, as pages and as messages."""
    source, warnings = folder / "source", io.StringIO()
    for name, text in {"conf.py": f"extensions = {list(extensions)!r}\n", **files}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for builder in ("html", "gettext"):
        with docutils_namespace():
            Sphinx(
                source,
                source,
                folder / builder,
                folder / f"doctrees-{builder}",
                builder,
                status=None,
                warning=warnings,
            ).build()
    return SmallSite(folder=folder, warnings=warnings.getvalue())
