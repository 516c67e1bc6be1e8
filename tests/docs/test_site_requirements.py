"""The table of what the site is held to: every requirement is there once, and what holds it exists."""

import ast
from functools import cache

import pytest

from docs.tools.program import ROOT
from site_requirements import requirements

ROWS = requirements()


@cache
def functions(path: str) -> set[str]:
    return {
        node.name
        for node in ast.parse(ROOT.joinpath(path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_requirement_is_there_once() -> None:
    assert [row["number"] for row in ROWS] == list(range(44, 66))
    assert len({row["says"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row["number"] for row in ROWS])
def test_a_requirement_is_held_or_has_a_reason(row: dict[str, object]) -> None:
    assert ("held_by" in row) != ("why" in row)
    steps = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in row.get("held_by", ()):
        if name.startswith(".ci/run: "):
            assert f'step "{name.removeprefix(".ci/run: ")}' in steps
        else:
            path, _, function = name.partition("::")
            assert function in functions(path)
