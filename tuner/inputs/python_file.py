"""Launches inside of a file of Python: lists of words for a process, and command lines as strings.

The file is parsed and never run. Names that are assigned one plain value are known, all else is open.
"""

import ast
import re
from collections.abc import Iterator

from tuner.inputs.manifest import Piece, is_launch, laid_out, on_one_line

_PLAIN = (str, int, float)
_BARE = re.compile(r"[\w./=:,@%+-]+")  # needs no quotes
_ADDING = ("append", "extend")
_OPTION, _PARSING = "add_argument", ("parse_args", "parse_known_args")
_PYTHON = "python3"  # for sys.executable
_SUMS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/"}


def script_in_python(text: str) -> str | None:
    """The script that a file of Python has run; None where it has none, or is no Python."""
    try:
        tree = ast.parse(text)
        statements = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    commands = [command for command in _commands(statements) if is_launch(command)]
    if not commands:
        return None
    values = "".join(f"export {name}={on_one_line(str(value))}; " for name, value in _constants(statements))
    for name, value in dict(_option_defaults(statements)).items():  # who starts it may give another
        values += f"export {name}=${{{name}:-{on_one_line(str(value))}}}; "
    return values + laid_out(sorted(commands, key=lambda command: command[0].line))


def _constants(statements: list[ast.AST]) -> Iterator[tuple[str, object]]:
    """Names that get one plain value and no other."""
    values: dict[str, set[object]] = {}
    for node in statements:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            plain = isinstance(node.value, ast.Constant) and isinstance(node.value.value, _PLAIN)
            value = node.value.value if isinstance(node.value, ast.Constant) and plain else node
            values.setdefault(node.targets[0].id, set()).add(value)
    for name, constants in values.items():
        if len(constants) == 1 and isinstance(next(iter(constants)), _PLAIN) and name.isascii():
            yield name, next(iter(constants))


def _option_defaults(statements: list[ast.AST]) -> Iterator[tuple[str, object]]:
    """What options of the command line are without one, as ``args_model`` for ``args.model``."""
    calls = [
        node for node in statements if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    options = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == _OPTION]
    for node in statements if options else ():
        call = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        parsed = call is not None and isinstance(call.func, ast.Attribute) and call.func.attr in _PARSING
        for holder in _options_name(node) if parsed and isinstance(node, ast.Assign) else ():
            for option in options:
                name, default = _option(option)
                if name and default is not None:
                    yield f"{holder}_{name}", default


def _options_name(node: ast.Assign) -> Iterator[str]:
    """The name of the options: ``args = ...`` or ``args, others = ...``."""
    target = node.targets[0]
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    if isinstance(first, ast.Name) and first.id.isascii():
        yield first.id


def _option(call: ast.Call) -> tuple[str, object]:
    """The name under which an option is kept, and its default where that is a plain value."""
    flags = [
        word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    given = {word.arg: word.value for word in call.keywords}
    name, default = given.get("dest"), given.get("default")
    kept = name.value if isinstance(name, ast.Constant) else long.lstrip("-").replace("-", "_")
    plain = isinstance(default, ast.Constant) and isinstance(default.value, _PLAIN)
    known = str(kept).isascii() and str(kept).isidentifier()
    return str(kept) if known else "", default.value if isinstance(default, ast.Constant) and plain else None


def _commands(statements: list[ast.AST]) -> Iterator[list[Piece]]:
    """Every list of words with what is added under its name, and every string that is a command line."""
    named: dict[str, list[Piece]] = {}
    parts = set(_no_lines(statements))
    for node in sorted(statements, key=lambda node: getattr(node, "lineno", 0)):
        target = _target(node)
        words = _words(_value(node))
        if target is not None and words:
            if isinstance(node, ast.Assign):
                if target in named:
                    yield named[target]
                named[target] = []
            named.setdefault(target, []).extend(words)
        elif isinstance(node, ast.Call):
            for argument in node.args:
                yield _words(argument)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in parts:
            line = _string_template(node)
            if line is not None and any(mark in line for mark in (" ", "\n")):
                yield [Piece(line=node.lineno, text=line)]
    yield from named.values()


def _no_lines(statements: list[ast.AST]) -> Iterator[int]:
    """Strings that are no command line: parts of longer ones, and those that document something."""
    for node in statements:
        if isinstance(node, ast.JoinedStr):
            yield from map(id, node.values)
        elif isinstance(node, ast.Expr):
            yield id(node.value)


def _target(node: ast.AST) -> str | None:
    """The name whose list a statement makes or makes longer."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    call = node.func if isinstance(node, ast.Call) else None
    if isinstance(call, ast.Attribute) and call.attr in _ADDING and isinstance(call.value, ast.Name):
        return call.value.id
    return None


def _value(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Assign | ast.AugAssign):
        return node.value
    return node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None


def _words(node: ast.AST | None) -> list[Piece]:
    """The words of a list or of one word, quoted for a shell."""
    nodes = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    words = []
    for element in nodes:
        template = None if element is None else _string_template(element)
        if template is not None and isinstance(element, ast.expr):
            words.append(Piece(line=element.lineno, text=_word(template)))
    listed = isinstance(node, ast.List | ast.Tuple)
    return words if listed or (len(words) == 1 and " " not in words[0].text) else []


def _string_template(node: ast.AST) -> str | None:
    """A string with ``${name}`` for what it has to be filled with; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
        return _PYTHON
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = (str(part.value) if isinstance(part, ast.Constant) else _filled(part) for part in node.values)
    return "".join(parts)


def _filled(part: ast.expr) -> str:
    """What the shell fills in for an expression: a variable, a path below one, or a sum of whole numbers."""
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    if not isinstance(inner, ast.BinOp):
        return str(inner.value) if isinstance(inner, ast.Constant) else f"${{{_name(inner)}}}"
    if isinstance(inner.op, ast.Div):
        return f"{_filled(inner.left)}/{_filled(inner.right)}"
    total = _sum(inner)
    return f"${{{_name(inner)}}}" if total is None else f"$(({total}))"


def _sum(node: ast.expr) -> str | None:
    """A sum or product of names and whole numbers as the shell has it; None for anything else."""
    if isinstance(node, ast.BinOp):
        sign, left, right = _SUMS.get(type(node.op)), _sum(node.left), _sum(node.right)
        return None if sign is None or left is None or right is None else f"({left} {sign} {right})"
    if isinstance(node, ast.Constant):
        return str(node.value) if type(node.value) is int else None
    return _name(node) if isinstance(node, ast.Name | ast.Attribute) else None


def _name(part: ast.expr) -> str:
    """A name of the shell for an expression: ``args.model`` is ``args_model``."""
    written = "".join(
        letter if letter.isascii() and letter.isalnum() else "_" for letter in ast.unparse(part)
    )
    return written if written[:1].isalpha() else f"_{written}"


def _word(word: str) -> str:
    """As a shell has it, in double quotes where it needs any: in them variables stay what they are."""
    if _BARE.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped}"'
