"""``@kept``: answers that take long are computed for one language's site and read back for the other's.

They lie in a folder beside the built sites that is named after the sources which computed them, so a change
of those computes all of them anew. An answer that holds texts is one for each language; numbers are the same
in all. That two builds side by side share the work, every other language reads its pages in reverse.
"""

import hashlib
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import ParamSpec, TypeVar, cast

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

from tuner import language
from tuner.catalogues import catalogue

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "_build" / "answers"
#: What an answer may be computed from, beside the module of the function.
SOURCES = (
    *("tuner", "profiles", "locale", "pyproject.toml"),
    *("docs/_ext/calculator", "docs/examples", "docs/tools", "docs/validation", "tests/tables.py"),
)

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


@cache
def fingerprint() -> str:
    """Of the sources and of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for source in SOURCES:
        top = ROOT / source
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".mo"):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class _Store:
    """Where answers lie. Only a build has a folder to write to; a test reads there at most."""

    folder: Path | None = None
    read_only: bool = False
    catalogue: language.Catalogue | None = None  # of the pages' language; None for English


def cached_answer(*, words: bool) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """A function that is computed once for its arguments, whose ``repr`` has to tell them apart.

    Args:
        words: whether the answer shows texts of the program; where it does not, it is computed in English.
    """

    def keeping(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        values: dict[str, Value] = {}
        own = Path(function.__code__.co_filename).read_text(encoding="utf-8")

        @wraps(function)
        def remembered(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            with language.using(_Store.catalogue if words else None):
                asked = f"{own} {function.__qualname__} {args!r} {kwargs!r} {language.chosen()}"
                if asked not in values:
                    values[asked] = _from_folder(asked, lambda: function(*args, **kwargs))
            return values[asked]

        return remembered

    return keeping


def _from_folder(asked: str, compute: Callable[[], Value]) -> Value:
    if _Store.folder is None:
        return compute()
    path = _Store.folder / hashlib.sha256(asked.encode()).hexdigest()
    if path.is_file():
        return cast(Value, pickle.loads(path.read_bytes()))
    value = compute()
    if _Store.read_only:
        return value
    path.parent.mkdir(parents=True, exist_ok=True)  # a build of other sources may have swept it away
    with NamedTemporaryFile(dir=_Store.folder, delete=False) as file:
        pickle.dump(value, file)
    Path(file.name).replace(path)  # whole, or not there: the other build may be reading
    return value


@contextmanager
def kept_by_a_build() -> Iterator[None]:
    """What a build of the same sources has kept is read back, where there was one; nothing is written."""
    before = _Store.folder, _Store.read_only
    _Store.folder, _Store.read_only = FOLDER / fingerprint(), True
    try:
        yield
    finally:
        _Store.folder, _Store.read_only = before


def _open(app: Sphinx) -> None:
    # The catalogues' own build collects the English texts.
    if app.config.language != "en" and app.builder.name != "gettext":
        _Store.catalogue = catalogue(app.config.language, source="the pages' language")
    _Store.folder = FOLDER / fingerprint()
    for stale in FOLDER.glob("*"):
        if stale != _Store.folder:
            shutil.rmtree(stale, ignore_errors=True)


def _order(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    if app.config.language != "en":
        docnames.reverse()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Open the folder, and choose the order of the pages."""
    app.connect("builder-inited", _open)
    app.connect("env-before-read-docs", _order)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
