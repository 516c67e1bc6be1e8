"""The table of what verl says: every statement has rules that exist, or a reason, and not both."""

from collections import Counter
from typing import Any

import pytest
import yaml

from tests.corpus import DATA
from tuner.render.rule_page import pages

TABLE = DATA.parents[1] / "docs" / "data" / "verl-rules.yaml"
CONTENT: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = CONTENT["rows"]
NAMES = {page.rule.name for page in pages()}
KEYS = {"id", "says", "where", "holds", "rules", "why", "note"}


def test_every_statement_is_there_once() -> None:
    expected = [f"D{number:02}" for number in range(1, 94)] + [f"C{number:02}" for number in range(1, 43)]
    assert [row["id"] for row in ROWS] == expected
    assert len(ROWS) == 135
    assert Counter(row["says"] for row in ROWS).most_common(1)[0][1] == 1


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_statement_has_rules_or_a_reason(row: dict[str, Any]) -> None:
    assert row.keys() <= KEYS
    assert ("rules" in row) != ("why" in row)
    assert row["holds"] in ("yes", "corrected", "no")
    assert row["says"].endswith(".")
    assert row["where"]
    if "rules" in row:
        assert row["rules"]
        assert set(row["rules"]) <= NAMES
    else:
        assert row["why"] in CONTENT["reasons"]


def test_every_reason_is_needed() -> None:
    assert {row["why"] for row in ROWS if "why" in row} == set(CONTENT["reasons"])
