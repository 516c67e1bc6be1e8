"""What some commands print that only work on text: enough for what stands in ``$(...)`` of launch scripts."""

import re
from collections.abc import Callable, Iterator, Sequence

from tuner.inputs.shell.values import Text, joined, text

_MOST_NUMBERS = 10_000
_ESCAPE = re.compile(r"\\([ntr\\])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_DIRECTIVE = re.compile(r"%([sd%])")  # without a width, which can be of any size
_SUMS = frozenset("+-*/%")
_ECHO_OPTION = re.compile(r"-[neE]+")


def command_output(name: str, arguments: Sequence[Text], given: Text | None) -> Text | None:
    """What a command prints; None where that is not known.

    Args:
        name: of the command.
        arguments: behind the name.
        given: its standard input, None where nobody says.
    """
    if name == "echo":
        return _echo(arguments)
    if name == "cat" and not arguments:
        return given
    if name == "wc" and [argument.string for argument in arguments] == ["-l"] and given is not None:
        return _lines(given)
    program = _PROGRAMS.get(name)
    words = [argument.string for argument in arguments]
    known = [word for word in words if word is not None]
    if program is None or len(known) != len(words):
        return None
    standard = None if given is None else given.string
    try:
        output = program(known, standard)
    except (ValueError, IndexError, TypeError):
        return None
    return None if output is None else text(output)


def _echo(arguments: Sequence[Text]) -> Text:
    options = ""
    words = list(arguments)
    while words and _ECHO_OPTION.fullmatch(words[0].string or ""):
        options += words.pop(0).string or ""
    line = joined(words, " ")
    if "e" in options:
        line = text(*(_escaped(piece) if isinstance(piece, str) else piece for piece in line.pieces))
    return line if "n" in options else text(line, "\n")


def _escaped(words: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], words)


def _printf(words: list[str], _: str | None) -> str | None:
    form, values = words[0], words[1:]
    if "%" in _DIRECTIVE.sub("", form):
        return None
    wanted = sum(match[1] != "%" for match in _DIRECTIVE.finditer(form))
    rounds = -(-len(values) // wanted) if wanted and values else 1  # the form is used up to the last value
    rest = iter(values)
    return "".join(
        _DIRECTIVE.sub(lambda match: _directed(match, rest), _escaped(form)) for _ in range(rounds)
    )


def _directed(directive: re.Match[str], values: Iterator[str]) -> str:
    if directive[1] == "%":
        return "%"
    return str(int(next(values, "0"))) if directive[1] == "d" else next(values, "")


def _basename(words: list[str], _: str | None) -> str:
    name = words[0].rstrip("/").rpartition("/")[2] or "/"
    return (name.removesuffix(words[1]) if len(words) > 1 and name != words[1] else name) + "\n"


def _dirname(words: list[str], _: str | None) -> str:
    folder, slash, _name = words[0].rstrip("/").rpartition("/")
    return (folder or ("/" if slash else ".")) + "\n"


def _seq(words: list[str], _: str | None) -> str:
    numbers = [int(word) for word in words]
    first, step, last = {1: (1, 1, numbers[0])}.get(len(numbers), (numbers[0], 1, numbers[-1]))
    if len(numbers) == 3:
        step = numbers[1]
    numbers_between = range(first, last + (1 if step > 0 else -1), step)[:_MOST_NUMBERS]
    return "".join(f"{number}\n" for number in numbers_between)


def _tr(words: list[str], given: str | None) -> str | None:
    if given is None:
        return None
    words = [_escaped(word) for word in words]
    if words[0] == "-d":
        return given.translate({ord(character): None for character in words[1]})
    classes = {("[:upper:]", "[:lower:]"): str.lower, ("[:lower:]", "[:upper:]"): str.upper}
    classes |= {("A-Z", "a-z"): str.lower, ("a-z", "A-Z"): str.upper}
    change = classes.get((words[0], words[1]))
    if change is not None:
        return change(given)
    if len(words[0]) != len(words[1]) or "-" in words[0] or "[" in words[0]:
        return None
    return given.translate(str.maketrans(words[0], words[1]))


def _expr(words: list[str], _: str | None) -> str | None:
    """``expr``: one operation on two numbers, or a sum of products, worked out from left to right."""
    from tuner.inputs.shell.arithmetic import applied

    operators, numbers = words[1::2], [int(word) for word in words[::2]]
    if len(numbers) != len(operators) + 1:
        return None
    if len(operators) > 1 and not _SUMS.issuperset(operators):
        return None
    terms: list[int | None] = [numbers[0]]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator in ("+", "-"):
            terms.append(number if operator == "+" else -number)
        else:
            terms[-1] = applied(operator, terms[-1], number)
    known = [term for term in terms if term is not None]
    return f"{sum(known)}\n" if len(known) == len(terms) else None


def _wc(words: list[str], given: str | None) -> str | None:
    if given is None or len(words) != 1:
        return None
    return f"{len(given.split())}\n" if words[0] == "-w" else None


def _lines(given: Text) -> Text | None:
    """``wc -l``, which needs to know the ends of lines alone."""
    if not all(unknown.one_line for unknown in given.unknowns):
        return None
    count = sum(piece.count("\n") for piece in given.pieces if isinstance(piece, str))
    return text(f"{count}\n")


def _cut(words: list[str], given: str | None) -> str | None:
    if given is None:
        return None
    joined_words = " ".join(words).replace("-d ", "-d").replace("-f ", "-f")
    options = {word[:2]: word[2:] for word in joined_words.split(" ")}
    if set(options) != {"-d", "-f"} or not options["-f"].isdigit():
        return None
    delimiter, number = options["-d"].strip("'\""), int(options["-f"])
    parted = [line.split(delimiter) for line in given.splitlines()]
    # A line without the delimiter is printed whole.
    chosen = [
        (parts * number if len(parts) == 1 else [*parts, *[""] * number])[number - 1] for parts in parted
    ]
    return "".join(f"{part}\n" for part in chosen)


_PROGRAMS: dict[str, Callable[[list[str], str | None], str | None]] = {
    "printf": _printf,
    "basename": _basename,
    "dirname": _dirname,
    "seq": _seq,
    "tr": _tr,
    "expr": _expr,
    "wc": _wc,
    "cut": _cut,
}
