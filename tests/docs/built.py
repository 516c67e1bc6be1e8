"""The site as it was built last, and a browser to look at it with: without either a test is skipped."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.tools.check_site import SITES
from docs.tools.program import ROOT

SITE = ROOT / "docs" / "_build" / "html"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_program() -> str:
    """Chromium or Chrome: what ``CHROME_BIN`` names, else the first on the path."""
    named = os.environ.get("CHROME_BIN")
    found = named or next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium on the path, and CHROME_BIN names none")
    return found


def site() -> Path:
    """The folder with a site for each language."""
    missing = [folder for folder in SITES if not (SITE / folder / "searchindex.js").is_file()]
    if missing:
        pytest.skip(f"the site is not built: no {', '.join(missing)} in {SITE.relative_to(ROOT)}")
    return SITE


def pages(folder: str) -> Iterator[Path]:
    """All pages of one language."""
    return iter(sorted((site() / folder).rglob("*.html")))
