"""The tree of all pages, adapted to a page, is the one that Sphinx resolves for that page."""

from pathlib import Path

import pytest

from tests.docs.small_site import SmallSite, build

PAGES = {
    "index.rst": "Top\n===\n\n.. toctree::\n   :caption: Learn\n\n   guide/index\n   Elsewhere <https://example.org/a>\n\n"
    ".. toctree::\n   :hidden:\n\n   facts\n",
    "guide/index.rst": "Guide\n=====\n\n.. toctree::\n\n   first\n   deep/second\n",
    "guide/first.rst": "First & *least*\n===============\n\nPart\n----\n\nText.\n",
    "guide/deep/second.rst": "Second\n======\n\nText.\n",
    "facts.rst": "Facts\n=====\n\nText.\n",
    "alone.rst": ":orphan:\n\nAlone\n=====\n\nText.\n",
}
NAMES = [name.removesuffix(".rst") for name in PAGES]


def site(folder: Path, extensions: list[str]) -> SmallSite:
    conf = f"extensions = {extensions!r}\nhtml_theme = 'furo'\nhtml_last_updated_fmt = None\n"
    return build(folder, {"conf.py": conf, **PAGES}, extensions=())


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallSite, SmallSite]:
    """A site whose tree is adapted, and one whose tree Sphinx resolves for every page."""
    folder = tmp_path_factory.mktemp("navigation")
    return site(folder / "adapted", ["navigation"]), site(folder / "resolved", [])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_the_one_of_sphinx(name: str, sites: tuple[SmallSite, SmallSite]) -> None:
    adapted, resolved = sites
    assert adapted.page(name) == resolved.page(name)
    assert "sidebar-tree" in adapted.page(name)
    assert ("current-page" in adapted.page(name)) is (name not in ("alone", "index"))
