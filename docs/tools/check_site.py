"""Check the built sites without a network: links, anchors, leaked markup, twins in both languages.

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
_LEAKED = re.compile(r"``|\*\*|:(?:ref|doc|term|math|option):`|(?<![\w<])\|[a-z][a-z -]+\|(?!\w)")
_CODE = {"code", "math", "pre", "script", "style"}
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


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        if tag == "html":
            self.page.lang = values.get("lang", "")
        if "id" in values:
            self.page.ids.add(values["id"])
        if "href" in values and (tag == "a" or values.get("rel") == "alternate"):
            self.page.links.append(values["href"])
        else:
            self.page.loads += [values[name] for name in ("href", "src") if name in values and tag != "use"]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not _CODE.intersection(self._open):
            self.page.text.append(data)


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
    return len(pages), [*problems, *_check_twins(root, pages)]


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 when something is, or when there is no page at all."""
    count, problems = check(Path(arguments[0]))
    print("\n".join([*problems, f"{count} pages, {len(problems)} problems"]))
    return int(bool(problems) or not count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
