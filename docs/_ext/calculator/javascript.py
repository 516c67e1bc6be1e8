"""Expressions as JavaScript, with the tables that they look into."""

import json
from collections import Counter
from typing import Any

from calculator import form, numbers
from calculator.numbers import Condition, Number
from calculator.questions import PHASES, Expressions, Traced
from calculator.reading import variables

#: In a script of its own, and in the tests: ``memory(answers)`` gives all that was asked.
_SCRIPT = """\
// Written when the documentation is built, from the functions of tuner/memory. Bytes are exact: whole numbers
// below 2^53.
var tunerMemory = (function () {{
"use strict";
var rows = {rows};
var results, a, r;
function v(i) {{ var x = results[i]; return x === undefined ? (results[i] = f[i]()) : x; }}
function floor(x, y) {{ return Math.floor(x / y); }}
function heard(texts) {{
  return texts.filter(function (text) {{ return v(text[1]); }}).map(function (text) {{ return text[0]; }});
}}
var f = [
{functions}
];
var phases = {phases};
return function (answers, row) {{
  results = []; a = answers; r = {{}};
  for (var name in rows) r[name] = rows[name][row[name]];
  var said = {{}};
{given}
  said.phases = [];
  phases.forEach(function (phase) {{
    if (!v(phase[1])) return;
    var moments = phase[2].map(function (moment) {{
      var terms = moment[1].map(function (term) {{
        return {{ item: term[0], name: term[1], bytes: v(term[2]), low: v(term[3]), high: v(term[4]) }};
      }});
      return {{ name: moment[0], terms: terms.filter(function (term) {{ return term.high; }}) }};
    }});
    said.phases.push({{ name: phase[0], moments: moments }});
  }});
  return said;
}};
}})();
"""


class Writer:
    """Writes expressions; what several of them need is a function that is computed once."""

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        roots = [one for one in traced.expressions.values() if isinstance(one, (Number, Condition))]
        counted = Counter(id(_bare(root)) for root in roots)
        for one in numbers.inside(numbers.together(roots)):
            counted.update(id(_bare(arg)) for arg in one.args if isinstance(arg, (Number, Condition)))
        self.often = {one for one, times in counted.items() if times > 1}
        self.functions: list[str] = []
        self.places: dict[int, int] = {}
        self.columns: dict[str, dict[str, int]] = {}

    def place(self, root: Any) -> int:
        """Where the function of an expression stands."""
        expression = root if isinstance(root, bool) else _bare(root)
        if id(expression) not in self.places:
            text = str(expression).lower() if isinstance(expression, bool) else self._text(expression)
            self.places[id(expression)] = len(self.functions)
            self.functions.append(text)
        return self.places[id(expression)]

    def _part(self, expression: Any) -> str:
        """An expression within another one."""
        bare = _bare(expression)
        if id(bare) in self.often and bare.op not in ("symbol", "constant"):
            return f"v({self.place(bare)})"
        return self._text(bare)

    def _text(self, expression: Any) -> str:
        if expression.op == "constant":
            return str(expression.args[0])
        if expression.op == "symbol":
            return self._symbol(*expression.args)
        args = [self._part(arg) for arg in expression.args]
        match expression.op:
            case "floor":
                return f"floor({args[0]},{args[1]})"
            case "max" | "min":
                return f"Math.{expression.op}({args[0]},{args[1]})"
            case "if":
                return f"({args[0]}?{args[1]}:{args[2]})"
            case "==":
                return f"({args[0]}==={args[1]})"
            case "not":
                return f"!{args[0]}"
            case "+":
                return f"({args[0]}+{args[1]})".replace("+-", "-")
            case op:
                return f"({args[0]}{op}{args[1]})"

    def _symbol(self, variable: str, column: str) -> str:
        if variable == "form":
            return f"a.{column}"
        if variable == "layers":
            variable, column = "model", "model.layers"
        columns = self.columns.setdefault(variable, {})
        return f"r.{variable}[{columns.setdefault(column, len(columns))}]"

    def rows(self) -> dict[str, list[list[Any]]]:
        """The tables, with the columns that are used."""
        tables = self.traced.family.tables
        return {
            variable: [[row[column] for column in columns] for row in tables[variable]]
            for variable, columns in self.columns.items()
        }


def _bare(expression: Any) -> Any:
    while not isinstance(expression, bool) and expression.op == "kept":
        expression = expression.args[0]
    return expression


def script(traced: Traced) -> str:
    """The memory model as a script."""
    writer, expressions = Writer(traced), traced.expressions
    phases = [_phase(writer, expressions, phase.value) for phase in PHASES]
    given = [f"  said.capacity = v({writer.place(expressions['capacity',])});", "  said.rollout = {"]
    rollout = [name for name in expressions if name[0] == "rollout" and len(name) == 2]
    given.append(", ".join(f"{name[1]}: v({writer.place(expressions[name])})" for name in rollout) + "};")
    for kind in ("problem", "doubt"):
        texts = [[name[1], writer.place(expressions[name])] for name in expressions if name[0] == kind]
        given.append(f"  said.{kind}s = heard({json.dumps(texts)});")
    return _SCRIPT.format(
        rows=json.dumps(writer.rows(), separators=(",", ":")),
        functions=",\n".join(f"function(){{return {text}}}" for text in writer.functions),
        phases=json.dumps(phases, separators=(",", ":")),
        given="\n".join(given),
    )


def _phase(writer: Writer, expressions: Expressions, phase: str) -> list[Any]:
    """A phase as data: its name, whether it is there, its moments with their terms."""
    moments: dict[str, dict[tuple[str, str], list[int]]] = {}
    for name, expression in expressions.items():
        if name[0] == phase and len(name) == 5:
            _, moment, item, term, _ = name
            moments.setdefault(moment, {}).setdefault((item, term), []).append(writer.place(expression))
    listed = [
        [moment, [[*term, *places] for term, places in terms.items()]] for moment, terms in moments.items()
    ]
    return [phase, writer.place(expressions[phase,]), listed]


def rows(answers: form.Answers) -> dict[str, int]:
    """Which row of each table the answers choose."""
    chosen = {variable: list(names) for variable, names in variables().items()}
    model = next(row for row, names in enumerate(form.shapes().values()) if answers["model"] in names)
    return {"model": model} | {
        variable: names.index(str(answers[variable]))
        for variable, names in chosen.items()
        if variable != "model"
    }
