"""Check Chinese translations against their English messages.

Sphinx warns of a lost reference and of nothing else: a literal that touches Chinese text, a key
that was translated, a number that changed or a phrase left in English would reach the page. Usage::

    python docs/tools/lint_catalogue.py locale/zh_CN/LC_MESSAGES/*.po
"""

import re
import sys
from calendar import month_name
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polib
import yaml

_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_FULL_WIDTH = "，。；：！？（）、“”《》"
_LITERAL = re.compile(r"``(.+?)``")
_ROLE = re.compile(r":(?P<name>[\w:+-]+):`(?P<body>[^`]+)`")
_LINK = re.compile(r"`[^`<]*<(?P<target>[^`>]+)>`__?")
_PLACEHOLDER = re.compile(r"(?<!\{)\{\w+(?:![rsa])?(?::[^{}]*)?\}")  # of str.format
_SUBSTITUTION = re.compile(r"\|[^|\s][^|]*\|")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_MARKUP = re.compile(r"``.+?``|:[\w:+-]+:`[^`]+`|`[^`<]*<[^`>]+>`__?|\*\*(?=\S).+?(?<=\S)\*\*")
# What reStructuredText accepts on either side of inline markup, as far as it occurs in Chinese text.
_MAY_PRECEDE = re.compile(r"$|[\s，。；：！？（、“《(\"'/-]")
_MAY_FOLLOW = re.compile(r"$|[\s，。；：！？）、”》)\"'.,;:!?/-]")
_MONTHS = tuple(month_name)[1:]
_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})\b(?= \d{{4}})")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"(?<![\w.%/-])[a-z][a-z'-]+(?![\w%/-]|\.\w)")
# A quotation, the original behind the Chinese term for it, a tag, or what a program fills in.
_ORIGINAL = re.compile(rf"\"[^\"]+\"|“[^”]+”|(?<=\w)（[^（）{_HAN}]+）|<[^>]+>|%\(\w+\)s")


@dataclass(frozen=True)
class Term:
    """How one English term is said."""

    english: re.Pattern[str]
    exception: re.Pattern[str] | None
    chinese: tuple[str, ...]
    forbidden: tuple[str, ...]


@cache
def terms() -> tuple[Term, ...]:
    """The list in ``terms.yaml``."""
    entries = yaml.safe_load(Path(__file__).with_name("terms.yaml").read_text(encoding="utf-8"))
    return tuple(
        Term(
            english=_words(entry["english"]),
            exception=_words(entry["except"]) if "except" in entry else None,
            chinese=tuple(entry["chinese"]),
            forbidden=tuple(entry["forbidden"]),
        )
        for entry in entries
    )


def _words(expression: str) -> re.Pattern[str]:
    """An expression as whole words; an empty one is found in any text."""
    return re.compile(rf"\b(?:{expression})\b" if expression else "", re.IGNORECASE)


@cache
def kept_words() -> frozenset[str]:
    """The words in ``kept_words.txt``."""
    lines = Path(__file__).with_name("kept_words.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def problems(message: str, translation: str) -> list[str]:
    """What is wrong with one translation, one sentence each; empty when nothing is."""
    return [problem for check in _CHECKS for problem in check(message, translation)]


def _same_markup(message: str, translation: str) -> Iterator[str]:
    kinds: dict[str, Callable[[str], list[str]]] = {
        "literals": _LITERAL.findall,
        "links": lambda text: [match["target"] for match in _LINK.finditer(text)],
        "roles": lambda text: [f"{match['name']} {_target(match['body'])}" for match in _ROLE.finditer(text)],
        "substitutions": _SUBSTITUTION.findall,
    }
    for kind, find in kinds.items():
        expected, translated = Counter(find(message)), Counter(find(translation))
        if expected != translated:
            lost, added = (
                sorted((expected - translated).elements()),
                sorted((translated - expected).elements()),
            )
            yield f"{kind} differ: lost {lost}, added {added}"
    if len(_STRONG.findall(message)) != len(_STRONG.findall(translation)):
        yield "strong emphasis differs"


def _target(body: str) -> str:
    """What a role points to: its title may be translated."""
    titled = re.search(r"<([^>]+)>$", body)
    return titled[1] if titled else body


def _same_placeholders(message: str, translation: str) -> Iterator[str]:
    expected, filled = (set(_PLACEHOLDER.findall(_LITERAL.sub(" ", text))) for text in (message, translation))
    if expected != filled:
        yield f"placeholders differ: lost {sorted(expected - filled)}, added {sorted(filled - expected)}"


def _markup_set_off(message: str, translation: str) -> Iterator[str]:
    for match in _MARKUP.finditer(translation):
        before = translation[: match.start()][-1:]
        after = translation[match.end() :][:1]
        if not (_MAY_PRECEDE.match(before) and _MAY_FOLLOW.match(after)):
            around = translation[max(0, match.start() - 4) : match.end() + 4]
            yield f"markup touches text, put a space: {around!r}"


def _no_single_backticks(message: str, translation: str) -> Iterator[str]:
    if "`" in _bare(translation):
        yield "a single backtick makes a title reference, or a literal is not closed"


def _spacing(message: str, translation: str) -> Iterator[str]:
    bare = _bare(translation)
    if touching := re.search(f"[{_HAN}][A-Za-z0-9]|[A-Za-z0-9%][{_HAN}]", bare):
        yield f"no space between Chinese and Latin: {touching[0]!r}"
    if half := re.search(rf"[{_HAN}]\s*[,;:!?()]", bare):
        yield f"half-width punctuation after Chinese: {half[0]!r}"
    if re.search(f"[{_HAN}]", bare) and re.search(r"[()]", _ORIGINAL.sub(" ", bare)):
        yield "half-width parenthesis in Chinese"
    if re.search(rf"[{_HAN}]\.(\s|$)", bare):
        yield "half-width full stop after Chinese"
    needed = re.sub(r"(?<=[`*]) (?=[（“《])|(?<=[）”》]) (?=[`:*])", "", translation)
    if spaced := re.search(rf"[{_FULL_WIDTH}] | [{_FULL_WIDTH}]", needed):
        yield f"space beside full-width punctuation: {spaced[0]!r}"
    if re.search(r"\d %", bare):
        yield "space before %"


def _same_numbers(message: str, translation: str) -> Iterator[str]:
    dated = _MONTH.sub(lambda match: str(_MONTHS.index(match[0]) + 1), _bare(message))
    expected = Counter(_NUMBER.findall(dated))
    translated = Counter(_NUMBER.findall(_bare(translation)))
    if expected != translated:
        yield f"numbers differ: {sorted(expected.elements())} and {sorted(translated.elements())}"


def _same_end(message: str, translation: str) -> Iterator[str]:
    if message.rstrip().endswith(".") != translation.rstrip().endswith(("。", ".")):
        yield "one of the two ends in a full stop"
    if message.rstrip().endswith(":") != translation.rstrip().endswith(("：", ":")):
        yield "one of the two ends in a colon"


def _terms(message: str, translation: str) -> Iterator[str]:
    english, chinese = _prose(message), _prose(translation)
    for term in terms():
        said = term.english.search(english)
        if said is None or (term.exception and term.exception.search(english)):
            continue
        if term.chinese and not any(word.lower() in chinese.lower() for word in term.chinese):
            yield f"{said[0]!r} is {' or '.join(term.chinese)}"
        running = _without_asides(chinese, term)
        meant = f" for {said[0]!r}" if said[0] else ""
        yield from (f"do not say {word}{meant}" for word in term.forbidden if word in running)


def _without_asides(chinese: str, term: Term) -> str:
    """A text without the forbidden words that stand in parentheses right behind the word for a term."""
    for word in term.chinese:
        for other in term.forbidden:
            chinese = chinese.replace(f"{word}（{other}）", word)
    return chinese


def _translated(message: str, translation: str) -> Iterator[str]:
    words = re.findall(r"\b[a-z]{2,}\b", _bare(message))
    if len(words) >= 3 and not re.search(f"[{_HAN}]", translation):
        yield "not translated"


def _no_english(message: str, translation: str) -> Iterator[str]:
    if not re.search(f"[{_HAN}]", translation):
        return  # a name, or what is not translated at all
    left = dict.fromkeys(_WORD.findall(_ORIGINAL.sub(" ", _bare(translation))))
    if words := [word for word in left if word not in kept_words()]:
        yield f"left in English: {', '.join(words)}; translate, or add to kept_words.txt"


def _bare(text: str) -> str:
    """A text without its markup, which leaves a space."""
    for pattern in (_LITERAL, _ROLE, _LINK, _SUBSTITUTION):
        text = pattern.sub(" ", text)
    return _PLACEHOLDER.sub("{}", text.replace("**", " "))


def _prose(text: str) -> str:
    """A text without literals and quotations, and with the titles of its roles and links."""
    text = _PLACEHOLDER.sub("{}", re.sub(r'"[^"]+"', " ", _LITERAL.sub(" ", text)))
    return re.sub(r"<[^>]+>(?=`)", "", _ROLE.sub(_shown, text))


def _shown(role: re.Match[str]) -> str:
    """What of a role is prose: its title, and the whole where it names a term; never a bare target."""
    return role[0] if role["name"] == "term" or role["body"].endswith(">") else " "


_CHECKS: tuple[Callable[[str, str], Iterator[str]], ...] = (
    _same_markup,
    _same_placeholders,
    _markup_set_off,
    _no_single_backticks,
    _spacing,
    _same_numbers,
    _same_end,
    _terms,
    _translated,
    _no_english,
)


def lint(path: Path) -> list[str]:
    """Problems of one catalogue, each with its file and line."""
    listed = []
    for entry in polib.pofile(str(path)):
        if entry.obsolete:
            continue
        translation = entry.msgstr_plural.get(0, "") if entry.msgid_plural else entry.msgstr
        if not translation or entry.fuzzy:
            listed.append(f"{path}:{entry.linenum}: {'fuzzy' if entry.fuzzy else 'not translated'}")
            continue
        listed += [f"{path}:{entry.linenum}: {problem}" for problem in problems(entry.msgid, translation)]
    return listed


def main(arguments: list[str]) -> int:
    """Print the problems of all catalogues; 1 when there is one."""
    listed = [problem for argument in arguments for problem in lint(Path(argument))]
    print("\n".join([*listed, f"{len(arguments)} catalogues, {len(listed)} problems"]))
    return int(bool(listed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
