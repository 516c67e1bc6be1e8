"""What some commands print that only work on text: enough for what stands in ``$(...)`` of launch scripts."""

import re
from collections.abc import Callable, Sequence

from tuner.inputs.shell.values import Text, joined, text

_MOST_NUMBERS = 10_000
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}


def printed(name: str, arguments: Sequence[Text], given: Text | None) -> Text | None:
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
    program = _PROGRAMS.get(name)
    words = [argument.known for argument in arguments]
    known = [word for word in words if word is not None]
    if program is None or len(known) != len(words):
        return None
    standard = None if given is None else given.known
    try:
        output = program(known, standard)
    except (ValueError, IndexError, TypeError):
        return None
    return None if output is None else text(output)


def _echo(arguments: Sequence[Text]) -> Text:
    options = 0
    while options < len(arguments) and arguments[options].known in ("-n", "-e", "-ne", "-en"):
        options += 1
    return joined(arguments[options:], " ")


def _printf(words: list[str], _: str | None) -> str | None:
    form = words[0]
    if re.search(r"%[^sd%]", form):  # widths can be of any size
        return None
    for escape, character in _ESCAPES.items():
        form = form.replace(escape, character)
    values = [int(word) if word.lstrip("-").isdigit() else word for word in words[1:]]
    pieces = form.count("%") - 2 * form.count("%%")
    return form % tuple(values[:pieces] + [""] * (pieces - len(values)))


def _basename(words: list[str], _: str | None) -> str:
    name = words[0].rstrip("/").rpartition("/")[2] or "/"
    return name.removesuffix(words[1]) if len(words) > 1 and name != words[1] else name


def _dirname(words: list[str], _: str | None) -> str:
    folder, slash, _name = words[0].rstrip("/").rpartition("/")
    return folder or ("/" if slash else ".")


def _seq(words: list[str], _: str | None) -> str:
    numbers = [int(word) for word in words]
    first, step, last = {1: (1, 1, numbers[0])}.get(len(numbers), (numbers[0], 1, numbers[-1]))
    if len(numbers) == 3:
        step = numbers[1]
    return "\n".join(map(str, range(first, last + (1 if step > 0 else -1), step)[:_MOST_NUMBERS]))


def _tr(words: list[str], given: str | None) -> str | None:
    if given is None:
        return None
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
    from tuner.inputs.shell.arithmetic import applied

    if len(words) != 3:
        return None
    value = applied(words[1], int(words[0]), int(words[2]))
    return None if value is None else str(value)


def _wc(words: list[str], given: str | None) -> str | None:
    if given is None or len(words) != 1:
        return None
    lines = given.count("\n") + (1 if given and not given.endswith("\n") else 0)
    return {"-w": str(len(given.split())), "-l": str(lines)}.get(words[0])


def _cut(words: list[str], given: str | None) -> str | None:
    if given is None:
        return None
    joined_words = " ".join(words).replace("-d ", "-d").replace("-f ", "-f")
    options = {word[:2]: word[2:] for word in joined_words.split(" ")}
    if set(options) != {"-d", "-f"} or not options["-f"].isdigit():
        return None
    parts = given.split(options["-d"].strip("'\""))
    return parts[int(options["-f"]) - 1] if int(options["-f"]) <= len(parts) else ""


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
