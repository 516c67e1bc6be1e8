"""Bring the catalogue of the program's own texts up to date, or say what it lacks.

``python -m docs.tools.messages`` takes up what is new and drops what is gone; the translations are filled in
by hand. ``--check`` changes nothing and ends with 1 where that would change something, or where something is
not translated. A text that the documentation has as well takes its translation from there.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO, Any

import polib
from babel.messages.extract import extract_from_dir, extract_python

from tuner import memory
from tuner.counted import forms
from tuner.memory.ledger.symbols import MEANINGS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "locale" / "zh_CN" / "LC_MESSAGES"
CATALOGUE = FOLDER / "tuner.po"
OF_THE_PAGES = ("rules", "reference")  # catalogues with texts that the program has as well
KEYWORDS = {"_": None, "N_": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
_HEADER = {
    "Content-Type": "text/plain; charset=utf-8",
    "Language": "zh_CN",
    "Plural-Forms": "nplurals=1; plural=0;",
}


def marked(file: IO[bytes], keywords: Mapping[str, Any], comments: Any, options: Any) -> Iterator[Any]:
    """Babel's extraction from Python, with the nouns that ``counted`` and the words that ``agreeing`` get."""
    names = dict.fromkeys([*keywords, "counted", "agreeing"])
    for line, function, messages, said in extract_python(file, names, comments, options):
        if function not in ("counted", "agreeing"):
            yield line, function, messages, said
            continue
        literals: Any = messages  # one of them stands alone, of none there is nothing
        words = [word for word in ([literals] if isinstance(literals, str) else literals or ()) if word]
        if words:
            both = (words[0], words[-1]) if function == "agreeing" else forms(*words[:2])
            yield line, "ngettext", both, said


def extracted() -> dict[str, polib.POEntry]:
    """Every marked text of the program by its English, with the files it stands in."""
    entries: dict[str, polib.POEntry] = {}
    for file, message, context in _texts():
        singular, plural = message if isinstance(message, tuple) else (message, "")
        entry = polib.POEntry(msgid=singular, msgid_plural=plural, msgctxt=context)
        entry = entries.setdefault(_key(entry), entry)
        if (place := (f"tuner/{file}", "")) not in entry.occurrences:
            entry.occurrences.append(place)
    known = {english for english, _said in _pages("model")}
    for meaning, file in _symbols():
        if meaning not in known:
            entries.setdefault(meaning, polib.POEntry(msgid=meaning, occurrences=[(file, "")]))
    return entries


@cache  # of all modules, which takes some seconds
def _texts() -> tuple[tuple[str, Any, str | None], ...]:
    """Every marked text with its file and its context."""
    return tuple(
        (file, message, context)
        for file, _line, message, _comments, context in extract_from_dir(
            str(ROOT / "tuner"), method_map=[("**.py", "docs.tools.messages.marked")], keywords=KEYWORDS
        )
    )


def _symbols() -> Iterator[tuple[str, str]]:
    """What the symbols of formulas stand for, which most pages of the memory model have already."""
    yield from ((meaning, "tuner/memory/ledger/symbols.py") for meaning in MEANINGS.values())
    for module in walk_packages(memory.__path__, "tuner.memory."):
        if "trace" not in module.name:
            meanings = getattr(import_module(module.name), "SYMBOLS", {}).values()
            yield from ((meaning, f"{module.name.replace('.', '/')}.py") for meaning in meanings)


def _key(entry: polib.POEntry) -> str:
    return f"{entry.msgctxt}\x04{entry.msgid}" if entry.msgctxt else str(entry.msgid)


def updated(catalogue: polib.POFile) -> polib.POFile:
    """The catalogue with exactly the texts of the program."""
    known = {_key(entry): entry for entry in catalogue if not entry.obsolete}
    pages = dict(_pages(*OF_THE_PAGES))
    new = polib.POFile(wrapwidth=0)
    new.header, new.metadata = "Chinese texts of the program.", _HEADER
    for english, entry in sorted(extracted().items(), key=lambda item: (item[1].occurrences[0], item[0])):
        said = pages.get(english) or _said(known.get(english))
        if entry.msgid_plural:
            entry.msgstr_plural = {0: said}
        else:
            entry.msgstr = said
        new.append(entry)
    return new


def _pages(*names: str) -> Iterator[tuple[str, str]]:
    for name in reversed(names):
        for entry in polib.pofile(str(FOLDER / f"{name}.po")):
            if entry.msgstr not in ("", entry.msgid) and not entry.obsolete:
                yield entry.msgid, entry.msgstr


def _said(entry: polib.POEntry | None) -> str:
    return "" if entry is None else str(entry.msgstr_plural.get(0, "") or entry.msgstr)


def main(arguments: list[str]) -> int:
    """Update the catalogue, or check that it is up to date and whole."""
    old = polib.pofile(str(CATALOGUE), wrapwidth=0) if CATALOGUE.exists() else polib.POFile()
    new = updated(old)
    empty = [entry.msgid for entry in new if not _said(entry)]
    if arguments == ["--check"]:
        changed = str(old) != str(new)
        problems = [f"not translated: {text}" for text in empty]
        print(
            "\n".join(
                [*problems, "out of date: run python -m docs.tools.messages" if changed else "up to date"]
            )
        )
        return int(changed or bool(empty))
    new.save(str(CATALOGUE))
    print(f"{len(new)} texts, {len(empty)} not translated")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
