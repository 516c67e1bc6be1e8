"""The switch of languages stands on every page, also where the drawer of a narrow screen is closed."""

import re

import pytest

from docs.tools.program import ROOT
from tests.docs.small_site import SmallSite, build

CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / "docs/_ext")!r})
extensions = ["languages"]
html_theme = "furo"
templates_path = [{str(ROOT / "docs/_templates")!r}]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallSite:
    files = {
        "conf.py": CONF,
        "index.rst": "Title\n=====\n\nText.\n\n.. index:: word\n",
        "_templates/choose-language.html": "",
    }
    return build(tmp_path_factory.mktemp("small"), files, extensions=["languages"])


@pytest.mark.parametrize("page", ["index", "search", "genindex"])
def test_the_switch_stands_outside_of_the_drawer(small: SmallSite, page: str) -> None:
    html = small.page(page)
    (switch,) = re.findall(r'<div class="narrow-only">(.*?)</div>', html, re.DOTALL)
    assert f'href="../zh-cn/{page}.html"' in switch
    assert html.index("narrow-only") > html.index('<article role="main"')
