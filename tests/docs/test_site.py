"""The checker of the built sites."""

from pathlib import Path

import pytest

from docs.tools.check_site import check

LANGUAGES = {"en": "en", "zh-cn": "zh-CN"}


def site(root: Path, body: str, *, chinese: str | None = None) -> Path:
    """Two sites of one page each."""
    for folder, lang in LANGUAGES.items():
        page = root / folder / "index.html"
        page.parent.mkdir()
        text = chinese if chinese is not None and folder == "zh-cn" else body
        page.write_text(f'<html lang="{lang}"><body>{text}</body></html>', encoding="utf-8")
    return root


def test_a_sound_site_has_no_problem(tmp_path: Path) -> None:
    body = (
        '<h1 id="top">Title</h1><a href="#top">up</a><a href="https://example.org">out</a><code>a**b</code>'
    )
    assert check(site(tmp_path, body)) == (2, [])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<a href="missing.html">x</a>', "no such page"),
        ('<a href="#missing">x</a>', "no such anchor"),
        ("<p>a ``literal``</p>", "markup in the text"),
        ("<p>**strong**</p>", "markup in the text"),
        ("<p>:ref:`x`</p>", "markup in the text"),
        ('<script src="https://cdn.example/math.js"></script>', "loads https://cdn.example/math.js"),
        ('<img src="//cdn.example/a.png">', "loads //cdn.example/a.png"),
    ],
)
def test_a_defect_is_found(tmp_path: Path, body: str, complaint: str) -> None:
    _, problems = check(site(tmp_path, body))
    assert len(problems) == len(LANGUAGES)
    assert all(complaint in problem for problem in problems)


def test_pages_and_anchors_must_be_the_same_in_both_languages(tmp_path: Path) -> None:
    root = site(tmp_path, '<h1 id="a">A</h1>', chinese='<h1 id="b">乙</h1>')
    (root / "en" / "extra.html").write_text('<html lang="en"></html>', encoding="utf-8")
    _, problems = check(root)
    assert problems == ["extra.html: in one language only", "index.html: anchors differ: ['a', 'b']"]


def test_the_language_is_declared(tmp_path: Path) -> None:
    root = site(tmp_path, "")
    (root / "zh-cn" / "index.html").write_text('<html lang="en"></html>', encoding="utf-8")
    assert check(root)[1] == ["zh-cn/index.html: lang is 'en'"]
