"""Cuts a release and checks what it says of itself: ``python -m docs.tools.release cut 0.2.0``.

The version stands in ``tuner/__init__.py``, what is new in ``CHANGELOG.md``; a tag is the version behind a v.
It needs nothing but Python, so that a workflow can ask it before anything is installed.
"""

import argparse
import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION_FILE = Path("tuner/__init__.py")
CHANGELOG = Path("CHANGELOG.md")

_UNRELEASED = "## [Unreleased]\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:rc([1-9]\d*))?")
_STATED = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)
_HEADING = re.compile(r"^## \[(?P<name>[^]]+)\](?: - (?P<when>.*))?\n", re.MULTILINE)
_PART = re.compile(r"^### (.+)\n", re.MULTILINE)


class ReleaseError(Exception):
    """What keeps a release from being cut, or what two places say differently."""


def order(version: str) -> tuple[int, ...]:
    """The place of a version among others; a candidate such as 0.2.0rc1 stands before its release.

    Raises:
        ReleaseError: it is no version of this project.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ReleaseError(f"{version}: a version is written as 0.2.0, a candidate of it as 0.2.0rc1")
    *numbers, candidate = match.groups()
    return (*(int(number) for number in numbers), int(candidate) if candidate else sys.maxsize)


def stated_version(root: Path) -> str:
    """The version that the package says it has.

    Raises:
        ReleaseError: it is not stated once.
    """
    stated = _STATED.findall((root / VERSION_FILE).read_text(encoding="utf-8"))
    if len(stated) != 1:
        raise ReleaseError(
            f'{VERSION_FILE}: one line __version__ = "..." is expected, there are {len(stated)}'
        )
    return str(stated[0])


def sections(changelog: str) -> dict[str, tuple[str, str]]:
    """The sections by their names, each with its date and its text, the newest first."""
    matches = list(_HEADING.finditer(changelog))
    ends = [match.start() for match in matches[1:]] + [len(changelog)]
    return {
        match["name"]: (match["when"] or "", changelog[match.end() : end].strip("\n"))
        for match, end in zip(matches, ends, strict=True)
    }


def notes(root: Path, version: str) -> str:
    """What the changelog says of a version.

    Raises:
        ReleaseError: it says nothing of it.
    """
    _, text = sections((root / CHANGELOG).read_text(encoding="utf-8")).get(version, ("", ""))
    if not text:
        raise ReleaseError(f"{CHANGELOG}: nothing is said of {version}")
    return text


def check(root: Path, tag: str | None = None) -> str:
    """The version, where the changelog and the tag say the same.

    Raises:
        ReleaseError: they do not.
    """
    version = stated_version(root)
    order(version)
    if tag is not None and tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, and {VERSION_FILE} says {version}: tag v{version}")
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    names = list(sections(changelog))
    if names[:2] != ["Unreleased", version]:
        raise ReleaseError(f"{CHANGELOG}: [Unreleased] and then [{version}] are expected, not {names[:2]}")
    _day(sections(changelog)[version][0])
    notes(root, version)
    return version


def cut(root: Path, version: str, when: str) -> None:
    """State a version, and give what is unreleased its name and its day.

    A release takes over what the changelog says of its candidates, whose sections go.

    Raises:
        ReleaseError: the version is not above the last one, or nothing is new.
    """
    before = stated_version(root)
    if order(version) <= order(before):
        raise ReleaseError(f"{version} is not above {before}")
    _day(when)
    changelog = (root / CHANGELOG).read_text(encoding="utf-8")
    if changelog.count(_UNRELEASED) != 1:
        raise ReleaseError(f"{CHANGELOG}: one heading {_UNRELEASED.strip()} is expected")
    said = {name: text for name, (_, text) in sections(changelog).items()}
    candidates = [name for name in said if re.fullmatch(rf"{re.escape(version)}rc\d+", name)]
    text = _joined([said[name] for name in reversed(candidates)] + [said["Unreleased"]])
    if not text:
        raise ReleaseError(f"{CHANGELOG}: nothing is unreleased")
    start = changelog.index(_UNRELEASED)
    rest = _behind(changelog, {"Unreleased", *candidates})
    changelog = f"{changelog[:start]}{_UNRELEASED}\n## [{version}] - {when}\n\n{text}\n"
    (root / CHANGELOG).write_text(f"{changelog}\n{rest}" if rest else changelog, encoding="utf-8")
    program = (root / VERSION_FILE).read_text(encoding="utf-8")
    (root / VERSION_FILE).write_text(_STATED.sub(f'__version__ = "{version}"', program), encoding="utf-8")


def _day(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise ReleaseError(f"{text or 'no day'}: a day is written as 2026-01-31") from error


def _joined(texts: list[str]) -> str:
    """Sections as one: the lines of equal parts, such as Added, below one heading."""
    parts: dict[str, list[str]] = {}
    for text in texts:
        first, *others = _PART.split(text)
        pairs = zip(others[::2], others[1::2], strict=True)
        for name, lines in [("", first), *pairs]:
            if lines.strip():
                parts.setdefault(name, []).append(lines.strip("\n"))
    return "\n\n".join(
        (f"### {name}\n\n" if name else "") + "\n".join(lines) for name, lines in parts.items()
    )


def _behind(changelog: str, names: set[str]) -> str:
    """The changelog from the first section on that is none of these."""
    starts = (match.start() for match in _HEADING.finditer(changelog) if match["name"] not in names)
    return changelog[next(starts, len(changelog)) :]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m docs.tools.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("cut", help="state a version, and close the changelog's section for it")
    one.add_argument("version")
    one.add_argument(
        "--date", default=date.today().isoformat(), help="the day of the release; today by default"
    )
    one = commands.add_parser("check", help="print the version, if package, changelog and tag agree on it")
    one.add_argument("--tag")
    one = commands.add_parser("notes", help="print what the changelog says of a version")
    one.add_argument("version", nargs="?")
    for command in commands.choices.values():
        command.add_argument("--root", type=Path, default=ROOT, help="the copy of the repository")
    return parser.parse_args()


def main() -> None:
    """Do what the command line asks for."""
    asked = _arguments()
    try:
        if asked.command == "cut":
            cut(asked.root, asked.version, asked.date)
        elif asked.command == "check":
            print(check(asked.root, asked.tag))
        else:
            print(notes(asked.root, asked.version or stated_version(asked.root)))
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
