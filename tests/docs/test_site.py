"""The checker of the built sites."""

from pathlib import Path

import pytest

from docs.tools.check_site import check

LANGUAGES = {"en": "en", "zh-cn": "zh-CN"}
TWINS = "".join(
    f'<link rel="alternate" hreflang="{language}" href="../{folder}/index.html">'
    for language, folder in (("en", "en"), ("zh-Hans", "zh-cn"), ("x-default", "en"))
)


def site(root: Path, body: str, *, chinese: str | None = None) -> Path:
    """Two sites of one page each."""
    for folder, lang in LANGUAGES.items():
        page = root / folder / "index.html"
        page.parent.mkdir()
        text = chinese if chinese is not None and folder == "zh-cn" else body
        page.write_text(
            f'<html lang="{lang}"><head>{TWINS}</head><body>{text}</body></html>', encoding="utf-8"
        )
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
        ('<img src="//cdn.example/a.png" alt="图">', "loads //cdn.example/a.png"),
    ],
)
def test_a_defect_is_found(tmp_path: Path, body: str, complaint: str) -> None:
    _, problems = check(site(tmp_path, body))
    assert len(problems) == len(LANGUAGES)
    assert all(complaint in problem for problem in problems)


def test_pages_and_anchors_must_be_the_same_in_both_languages(tmp_path: Path) -> None:
    root = site(tmp_path, '<h1 id="a">A</h1>', chinese='<h1 id="b">乙</h1>')
    extra = f'<html lang="en"><head>{TWINS.replace("index", "extra")}</head></html>'
    (root / "en" / "extra.html").write_text(extra, encoding="utf-8")
    _, problems = check(root)
    assert problems == [
        "en/extra.html: no such page: ../zh-cn/extra.html",
        "extra.html: in one language only",
        "index.html: anchors differ: ['a', 'b']",
    ]


def test_the_language_is_declared(tmp_path: Path) -> None:
    root = site(tmp_path, "")
    undeclared = f'<html lang="en"><head>{TWINS}</head></html>'
    (root / "zh-cn" / "index.html").write_text(undeclared, encoding="utf-8")
    assert check(root)[1] == ["zh-cn/index.html: lang is 'en'"]


def test_twins_are_declared(tmp_path: Path) -> None:
    root = site(tmp_path, "")
    page = root / "en" / "index.html"
    wrong = page.read_text(encoding="utf-8").replace("../zh-cn/", "../en/")
    page.write_text(wrong.replace('hreflang="x-default"', 'hreflang="fr"'), encoding="utf-8")
    assert check(root)[1] == [
        "en/index.html: its page for zh-Hans is '../en/index.html'",
        "en/index.html: its page for x-default is None",
    ]


def test_a_picture_without_a_description_is_found(tmp_path: Path) -> None:
    plain = '<svg role="img"></svg><svg></svg><svg role="img"><title>Bars</title></svg>'
    english = '<svg role="img" aria-label="Bars of memory"></svg>'
    root = site(tmp_path, plain, chinese=english)
    assert check(root)[1] == [
        "en/index.html: a picture is described by ''",
        "zh-cn/index.html: a picture is described by 'Bars of memory'",
    ]


def test_text_left_in_english_is_found(tmp_path: Path) -> None:
    sound = (
        "<p>显存</p><p>gpu_memory_utilization，“Batch size tuning tips”，<code>as it is</code> torch 2.11</p>"
        "<table><tr><td>array of string</td></tr></table>"
        '<p class="original">a sheet as it is called by them</p>'
    )
    left, whole = tmp_path / "left", tmp_path / "whole"
    left.mkdir()
    whole.mkdir()
    assert check(site(whole, "<p>On this page</p>", chinese=sound)) == (2, [])
    _, problems = check(site(left, "", chinese="<p>Skip to this content</p>"))
    assert problems == ["zh-cn/index.html: left in English: 'Skip to this content'"]
