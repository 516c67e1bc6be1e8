"""``.. formulas::`` and ``.. constants::``: a module's formulas and constants, read from its text.

A formula has one home, the docstring of the function that computes it, and a constant has one, the
line that defines it. The page shows the module's own text and then each of them by name.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from formula_latex import latex
from tuner.memory.ledger.stated_terms import formula_of, is_stated
from tuner.memory.process.constant import Constant
from tuner.units import KIB, MIB

_SECTION = re.compile(r"^(?:Args|Returns|Raises|Yields):$")


def public_functions(module: ModuleType) -> list[Callable[..., Any]]:
    """Functions that the module defines for others, in the order of its text."""
    return [
        function
        for name, function in vars(module).items()
        if inspect.isfunction(inspect.unwrap(function))  # cached ones too
        and function.__module__ == module.__name__
        and not name.startswith("_")
    ]


def prose(docstring: str) -> str:
    """A docstring without the sections that describe arguments, results and errors."""
    kept: list[str] = []
    inside = False
    for line in docstring.splitlines():
        if _SECTION.match(line):
            inside = True
        elif inside and line and not line.startswith(" "):
            inside = False
        if not inside:
            kept.append(line)
    return "\n".join(kept).rstrip()


def _introduction(module: ModuleType) -> list[str]:
    """The module's text without its first paragraph, which says what the page's title says."""
    _, _, text = (inspect.getdoc(module) or "").partition("\n\n")
    return [*text.splitlines(), ""]


def _entry(function: Callable[..., Any]) -> Iterator[str]:
    parameters = ", ".join(inspect.signature(function).parameters)
    yield f".. py:function:: {function.__name__}({parameters})"
    yield f"   :module: {function.__module__}"
    yield ""
    yield from (f"   {line}" for line in text(function).splitlines())
    yield ""


def text(function: Callable[..., Any]) -> str:
    """A function's docstring; of one that writes its own formula, with this behind the first paragraph."""
    said = prose(inspect.getdoc(function) or "")
    if not is_stated(function):
        return said
    first, _, rest = said.partition("\n\n")
    return f"{first}\n\n.. math:: {latex(formula_of(function))}\n\n{rest}"


class _ModuleText(SphinxDirective):
    """Shared by both directives: import a module and parse what is made of it."""

    required_arguments = 1

    def module(self) -> ModuleType:
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(str(inspect.getsourcefile(module)))
        return module

    def parse(self, module: ModuleType, lines: list[str]) -> list[nodes.Node]:
        return nested_parse_to_nodes(self.state, StringList(lines, source=f"docstrings of {module.__name__}"))


class Formulas(_ModuleText):
    """All formulas of one module; ``:only:`` names some of its functions, in the order given."""

    option_spec: ClassVar[OptionSpec] = {"only": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """The module's text and its functions."""
        module = self.module()
        lines: list[str] = []
        if "only" in self.options:
            functions = [getattr(module, name) for name in self.options["only"].replace(",", " ").split()]
        else:
            functions = public_functions(module)
            lines = _introduction(module)
        for function in functions:
            lines += _entry(function)
        return self.parse(module, lines)


class Constants(_ModuleText):
    """All constants of one module that a ``#:`` comment or a stated source explains."""

    def run(self) -> list[nodes.Node]:
        """The module's text and its constants."""
        module = self.module()
        lines = _introduction(module)
        comments = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
        for name, value in vars(module).items():
            if isinstance(value, Constant):
                unit, size = ("KiB", KIB) if value.typical < MIB else ("MiB", MIB)
                interval = f"{value.low // size} to {value.high // size} {unit}"
                lines += _constant(
                    module, name, f"{value.typical // size} {unit}", [f"{interval}: {value.source}."]
                )
            elif ("", name) in comments:
                lines += _constant(module, name, repr(value), comments["", name])
        return self.parse(module, lines)


def _constant(module: ModuleType, name: str, value: str, text: list[str]) -> Iterator[str]:
    yield f".. py:data:: {name}"
    yield f"   :module: {module.__name__}"
    yield f"   :value: {value}"
    yield ""
    yield from (f"   {line}" for line in text)
    yield ""


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("formulas", Formulas)
    app.add_directive("constants", Constants)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
