"""The options that a program asks for with ``argparse``, and what the arguments of a launch give for them."""

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tuner.inputs.overrides import Argument
from tuner.inputs.program.constants import UNKNOWN, Constants, UnsettledValue, called_name

_MANY = ("*", "+", "...")
_SWITCHES = {"store_true": True, "store_false": False}
Given = str | int | float | None | UnsettledValue | tuple[Argument, ...]


class ProgramOption(Struct, frozen=True, kw_only=True):
    """One option or positional argument of a program."""

    flags: tuple[str, ...]  # none of a positional argument
    name: str  # of the attribute that holds its value
    default: Given = None
    many: bool = False  # takes words up to the next option
    switched: bool | None = None  # its value where it is given, of one that takes no word


class TakenOptions(Struct, frozen=True, kw_only=True):
    """What a launch gives a program: the values by their attributes, and the words that no option takes."""

    values: dict[str, Given]
    rest: tuple[Argument, ...]


def options_of(tree: ast.Module, constants: Constants) -> Iterator[ProgramOption]:
    """The options that a module asks for, in their order."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        names = [constants.value(argument) for argument in call.args]
        if called_name(call) != "add_argument" or not names:
            continue
        words = {word.arg: constants.value(word.value) for word in call.keywords if word.arg is not None}
        flags = tuple(name for name in names if isinstance(name, str) and name.startswith("-"))
        long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else names[0])
        asked = words.get("dest")
        name = asked if isinstance(asked, str) else str(long).lstrip("-").replace("-", "_")
        many = words.get("nargs") in _MANY or any(
            word.arg == "nargs" and isinstance(word.value, ast.Attribute) for word in call.keywords
        )
        switched = _SWITCHES.get(str(words.get("action")))
        default = words.get("default") if switched is None else not switched
        yield ProgramOption(flags=flags, name=name, default=default, many=many, switched=switched)


def taken_options(options: Sequence[ProgramOption], arguments: Sequence[Argument]) -> TakenOptions:
    """What each option gets of the arguments of a launch, as ``parse_known_args`` has it."""
    by_flag = {flag: option for option in options for flag in option.flags}
    values: dict[str, Given] = {option.name: option.default for option in options}
    positional = [option for option in options if not option.flags]
    rest, left = list[Argument](), list(arguments)
    while left:
        word = left.pop(0)
        flag, equals, value = word.text.partition("=")
        option = by_flag.get(flag) if word.text.startswith("-") else None
        if option is None and not word.text.startswith("-") and positional:
            option = positional[0] if positional[0].many else positional.pop(0)
            flag, equals, value = "", "=", word.text
        if option is None:
            rest.append(word)
        elif option.switched is not None:
            values[option.name] = option.switched
        elif option.many:
            first = [word] if not flag else []
            before = values[option.name] if not option.flags else ()
            more = _words(left)
            values[option.name] = (*(before if isinstance(before, tuple) else ()), *first, *more)
        else:
            values[option.name] = value if equals else left.pop(0).text if left else UNKNOWN
    return TakenOptions(values=values, rest=tuple(rest))


def _words(left: list[Argument]) -> Iterator[Argument]:
    """The words up to the next option, which are taken off the list."""
    while left and not left[0].text.startswith("-"):
        yield left.pop(0)
