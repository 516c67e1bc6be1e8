"""Check the built sites without a network: links, anchors, markup and English left over, pictures, twins.

Usage::

    python docs/tools/check_site.py docs/_build/html
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITES = {"en": "en", "zh-cn": "zh-CN"}  # folder, lang of its pages
_ALTERNATES = {"en": "en", "zh-Hans": "zh-cn", "x-default": "en"}  # what search engines are told, its folder
_LEAKED = re.compile(r"``|\*\*|:(?:ref|doc|term|math|option):`|(?<![\w<])\|[a-z][a-z -]+\|(?!\w)")
_CODE = {"code", "math", "pre", "script", "style"}
_NAMES = {*_CODE, "svg", "title"}  # and what shows keys and names
# A word that is no part of a name, and names no version behind it.
_ENGLISH = re.compile(r"(?<![\w.%/+-])[a-z]{2,}(?![\w%/+-]|[.]\w| v?\d)")
_QUOTED = re.compile(r"“[^”]*”|\"[^\"]*\"|（[^（）]*）|<[^<>]*>")
_HAN = re.compile("[\u3400-\u9fff]")
_LEFT, _LEFT_IN_A_CELL = 3, 6  # as many words of English are a phrase, fewer may be a name
_ORIGINAL = "original"  # class of what is cited as its source has it
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
_GENERATED = {"search.html", "genindex.html"}


@dataclass
class Page:
    """What one page holds."""

    lang: str = ""
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)  # to pages and anchors
    loads: list[str] = field(default_factory=list)  # what a browser fetches by itself
    text: list[str] = field(default_factory=list)  # outside code
    phrases: list[tuple[str, bool]] = field(default_factory=list)  # outside names; whether in a table's cell
    alternates: dict[str, str] = field(default_factory=dict)  # language, address of the twin
    pictures: list[str] = field(default_factory=list)  # what each is described by


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._open: list[str] = []
        self._is_original: list[bool] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        if tag == "html":
            self.page.lang = values.get("lang", "")
        if "id" in values:
            self.page.ids.add(values["id"])
        if "hreflang" in values and tag == "link":
            self.page.alternates[values["hreflang"]] = values.get("href", "")
        if tag == "img" or (tag == "svg" and values.get("role") == "img"):
            self.page.pictures.append(values.get("alt") or values.get("aria-label") or "")
        if "href" in values and (tag == "a" or values.get("rel") == "alternate"):
            self.page.links.append(values["href"])
        else:
            self.page.loads += [values[name] for name in ("href", "src") if name in values and tag != "use"]
        if tag not in _VOID:
            self._open.append(tag)
            self._is_original.append(_ORIGINAL in (values.get("class") or "").split())

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
            del self._is_original[len(self._open) :]

    def handle_data(self, data: str) -> None:
        if not _CODE.intersection(self._open):
            self.page.text.append(data)
        if not _NAMES.intersection(self._open) and not any(self._is_original):
            self.page.phrases.append((data, "td" in self._open))
        if "svg" in self._open and self._open[-1] == "title" and self.page.pictures[-1:] == [""]:
            self.page.pictures[-1] = data


def read(path: Path) -> Page:
    """One page of the site."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def _check_page(root: Path, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    page, name = pages[path], path.relative_to(root)
    if page.lang != SITES[name.parts[0]]:
        yield f"{name}: lang is {page.lang!r}"
    yield from (f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc)
    if leaked := _LEAKED.search("".join(page.text)):
        yield f"{name}: markup in the text: {leaked[0]!r}"
    for link in page.links + page.loads:
        url = urlsplit(link)
        if url.scheme or url.netloc:
            continue
        target = (path.parent / unquote(url.path)).resolve() if url.path else path
        if not target.exists():
            yield f"{name}: no such page: {link}"
        elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
            yield f"{name}: no such anchor: {link}"


def _check_alternates(root: Path, path: Path, page: Page) -> Iterator[str]:
    name = path.relative_to(root)
    for language, folder in _ALTERNATES.items():
        given = page.alternates.get(language)
        twin = root / folder / name.relative_to(name.parts[0])
        if given is None or (path.parent / given).resolve() != twin:
            yield f"{name}: its page for {language} is {given!r}"


def _check_language(root: Path, path: Path, page: Page) -> Iterator[str]:
    """What stands on a Chinese page and is not Chinese."""
    name, chinese = path.relative_to(root), page.lang.startswith("zh")
    for description in page.pictures:
        if not description or (chinese and not _HAN.search(description)):
            yield f"{name}: a picture is described by {description!r}"
    for phrase, in_a_cell in page.phrases if chinese else ():
        words = () if _HAN.search(phrase) else _ENGLISH.findall(_QUOTED.sub(" ", phrase))
        if len(words) >= (_LEFT_IN_A_CELL if in_a_cell else _LEFT):
            yield f"{name}: left in English: {' '.join(phrase.split())!r}"


def _check_twins(root: Path, pages: dict[Path, Page]) -> Iterator[str]:
    first, second = (
        {
            path.relative_to(root / site): page.ids
            for path, page in pages.items()
            if path.is_relative_to(root / site)
        }
        for site in SITES
    )
    yield from (f"{name}: in one language only" for name in sorted(first.keys() ^ second.keys()))
    for name in sorted(first.keys() & second.keys()):
        if name.name not in _GENERATED and first[name] != second[name]:
            yield f"{name}: anchors differ: {sorted(first[name] ^ second[name])}"


def check(root: Path) -> tuple[int, list[str]]:
    """The number of pages below ``root`` and what is wrong with them."""
    root = root.resolve()
    pages = {path: read(path) for site in SITES for path in sorted((root / site).rglob("*.html"))}
    problems = [problem for path in pages for problem in _check_page(root, path, pages)]
    for path, page in pages.items():
        problems += [*_check_alternates(root, path, page), *_check_language(root, path, page)]
    return len(pages), [*problems, *_check_twins(root, pages)]


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 when something is, or when there is no page at all."""
    count, problems = check(Path(arguments[0]))
    print("\n".join([*problems, f"{count} pages, {len(problems)} problems"]))
    return int(bool(problems) or not count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
