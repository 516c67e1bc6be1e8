"""Figures that pages compute as English has them are written as Chinese has them."""

from pathlib import Path

import pytest

from tests.docs.small_site import build

PAGE = "Page\n====\n\nSaves 64 % of 4,096\u00a0tokens, by ``64 %``; 3 tokensets.\n"


@pytest.mark.parametrize(
    ("language", "percent", "tokens"),
    [("zh_CN", "64%", "4,096 个 token"), ("en", "64 %", "4,096\u00a0tokens")],
)
def test_figures(language: str, percent: str, tokens: str, tmp_path: Path) -> None:
    files = {
        "conf.py": f"extensions = ['languages']\nlanguage = {language!r}\n",
        "index.rst": PAGE,
        "_templates/choose-language.html": "",
    }
    page = build(tmp_path, files, extensions=()).page("index")
    assert f"Saves {percent} of {tokens}, by" in page.replace("&#160;", "\u00a0")
    assert "3 tokensets" in page
    assert '<span class="pre">64</span> <span class="pre">%</span>' in page
