"""``.. run:: tuner ...``: a command with the output it gives today, produced while building.

Nothing shown is pasted, so a page cannot show what the program no longer prints. A command
that ends with another exit status than the page says fails the build.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from docs.tools.program import run_here
from kept_answers import cached_answer
from tuner import language
from tuner.consultation import planning

COLUMNS = 88  # what a page shows without scrolling
# A word of a command line with its quotation marks, which no line is broken between.
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")


class Run(SphinxDirective):
    """One command.

    ``:exit:`` is the status it must end with. ``:from:`` shows the output from the first line that has this
    text on, or one of several that ``|`` parts, for each language its own; ``:head:`` so many lines only.
    ``:advised:`` first asks the same command for its advice and then adds all overrides that go together.
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[OptionSpec] = {
        "exit": directives.nonnegative_int,
        "from": directives.unchanged_required,
        "head": directives.positive_int,
        "advised": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """The command and its output as one block that is not translated."""
        words = _WORD.findall(self.arguments[0])
        if self.env.config.language != "en":  # the program answers in the language of the page
            words[1:1] = ["--lang", "zh"]
        if "advised" in self.options:
            words += self._advised(words)
        lines = self._output(words, self.options.get("exit", 0)).rstrip().splitlines()
        first = self._first(lines)
        head = self.options.get("head", len(lines))
        shown = lines[first : first + head]
        shown = ["..."] * (first > 0) + shown + ["..."] * (first + head < len(lines))
        text = "\n".join([f"$ {_wrapped(words)}", *shown])
        return [nodes.literal_block(text, text, language="text")]

    def _first(self, lines: list[str]) -> int:
        wanted = self.options.get("from", "").split(" | ")
        found = next((place for place, line in enumerate(lines) if any(one in line for one in wanted)), None)
        if found is None:
            raise self.error(f"no line of the output has {wanted!r}")
        return found

    def _advised(self, words: list[str]) -> list[str]:
        report = json.loads(self._output([*words, "--output-format", "json"], 0))
        return list(report["combination"]["overrides"])

    def _output(self, words: list[str], expected: int) -> str:
        command = " ".join(words)
        status, printed = ran(command)
        if status != expected:
            raise self.error(f"{command}: exit status {status}, not {expected}\n{printed}")
        return printed


@cached_answer(words=True)
def ran(command: str) -> tuple[int, str]:
    """The exit status of a command, and what it prints."""
    with plans_kept(language.chosen()):
        return run_here(command, columns=COLUMNS)


@cached_answer(words=False)
def numbers_of_plan(command: str) -> dict[str, Any]:
    """What a plan says as JSON, of which only the numbers are for a reader of any language."""
    with plans_kept(*_planned):  # one that a page shows in its language has the same
        status, printed = run_here(f"{command} --output-format json", columns=COLUMNS)
    if status:
        raise ValueError(f"{command}: {printed}")
    numbers: dict[str, Any] = json.loads(printed[printed.index("{") :])
    return numbers


_planned: dict[str, dict[str, planning.PlanAnswer]] = {}  # by language and by what was asked
_plan_answer = planning.plan_answer


@contextmanager
def plans_kept(*languages: str) -> Iterator[None]:
    """A plan that several formats show is made once, in one of these languages: it takes seconds."""

    def plan_answer(*given: Any, watch: Any = None, **options: Any) -> planning.PlanAnswer:
        asked = repr((given, sorted(options.items())))
        for one in languages:
            if asked in _planned.get(one, {}):
                return _planned[one][asked]
        made = _planned.setdefault(language.chosen(), {})
        made[asked] = _plan_answer(*given, watch=watch, **options)
        return made[asked]

    with patch.object(planning, "plan_answer", plan_answer):
        yield


def _wrapped(words: list[str]) -> str:
    """A command line, continued over several lines where it is long."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > COLUMNS - 4:
            lines.append("   ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines).strip()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("run", Run)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
