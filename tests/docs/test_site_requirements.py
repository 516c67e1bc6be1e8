"""The table of what the site is held to: every requirement is there once, and what holds it exists."""

import ast
from functools import cache

import pytest

from docs.tools.program import ROOT
from site_requirements import CHECK, requirements

SITE = requirements()
OF_CHECK = requirements(CHECK)
ROWS = [*SITE, *OF_CHECK]


@cache
def functions(path: str) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(ROOT.joinpath(path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_every_requirement_is_there_once() -> None:
    assert [row["number"] for row in SITE] == list(range(44, 66))
    assert [row["number"] for row in OF_CHECK] == [*range(1, 47), 64, 65]
    assert len({row["says"] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['number']}-{place}" for place, row in enumerate(ROWS)])
def test_a_requirement_is_held_or_has_a_reason(row: dict[str, object]) -> None:
    assert ("held_by" in row) != ("why" in row)
    steps = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in row.get("held_by", ()):
        if name.startswith(".ci/run: "):
            assert f'step "{name.removeprefix(".ci/run: ")}' in steps
        else:
            path, _, function = name.partition("::")
            assert function in functions(path)
