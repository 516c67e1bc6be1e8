import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.cli import answers
from tests.cli.golden import expect
from tuner.errors import Location
from tuner.render.checked.context import RenderContext, rendered
from tuner.render.checked.lines import findings_of_input
from tuner.render.json import advice_json
from tuner.render.report_values import SCHEMA_VERSION
from tuner.render.schemas import SCHEMAS, schema
from tuner.render.terminal import Terminal
from tuner.review.input_findings import InputFindings, InputProblem
from tuner.review.review import Review


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schemas_are_valid_and_named(name: str) -> None:
    content = schema(name)
    jsonschema.Draft202012Validator.check_schema(content)
    assert content["$id"] == f"urn:tuner:schema:{name}:{SCHEMA_VERSION}"


def test_a_change_of_a_field_is_a_change_of_the_version() -> None:
    """The golden file begins with the version that has these fields; ``report.py`` has the rule."""
    fields = {f"{name} {field}" for name in SCHEMAS for field in _fields(schema(name))}
    expect("schema_fields.txt", "\n".join([SCHEMA_VERSION, *sorted(fields)]))


def _fields(content: dict[str, Any]) -> Iterator[str]:
    """Every field of a schema, with a question mark where it may be null."""
    for title, definition in {**content.get("$defs", {}), "": content}.items():
        for field, shape in definition.get("properties", {}).items():
            nullable = {"type": "null"} in shape.get("anyOf", ())
            yield f"{title}.{field}{'?' if nullable else ''}"


def test_the_report_validates_and_holds_raw_bytes() -> None:
    answer = answers.answer()
    report = json.loads(advice_json(answer))
    jsonschema.validate(report, schema("report"), cls=jsonschema.Draft202012Validator)
    phases = {phase["phase"]: phase for phase in report["memory"]["phases"]}
    update = phases["update_actor"]
    assert report["verdict"] == "does_not_fit"
    assert report["memory"]["worst_phase"] == "update_actor"
    assert update["peak_bytes"] == answer.advice.estimate.worst.peak_bytes
    peak = next(moment for moment in update["moments"] if moment["name"] == update["peak_moment"])
    assert sum(term["bytes"] for term in peak["terms"]) == update["peak_bytes"]
    assert update["seconds"] == 29.9
    worst = answer.advice.estimate.worst
    assert tuple(update["interval_bytes"]) == worst.interval
    assert worst.interval[0] < worst.peak_bytes < worst.interval[1]
    assert tuple(update["reserved_interval_bytes"]) == worst.reserved_interval
    assert [tuple(term["interval_bytes"]) for term in peak["terms"]] == [
        (term.low, term.high) for term in worst.peak.terms
    ]


def test_the_report_holds_settings_with_their_origin_and_unknown_keys() -> None:
    premises = json.loads(advice_json(answers.answer()))["premises"]
    fraction, budget = premises["settings"]
    assert (fraction["value"], fraction["layer"]) == (0.6, "override")
    assert (budget["value"], budget["location"]) == (
        16384,
        {"source": "config.yaml", "line": 12, "column": 5},
    )
    assert premises["unknown_keys"][0]["nearest"] == "actor_rollout_ref.rollout.n"


def test_the_report_holds_findings_in_order_with_prices() -> None:
    report = json.loads(advice_json(answers.answer()))
    assert [finding["code"] for finding in report["findings"]] == ["CFG901", "MEM901", "KRN901"]
    assert report["findings"][0]["price"] is None
    assert report["findings"][1]["price"]["seconds_after"] == 104.0
    assert report["combination"]["fits"] is True


def test_the_published_schema_changes_only_on_purpose() -> None:
    expect("report.schema.json", json.dumps(schema("report"), indent=1))


def test_check_json_validates() -> None:
    problem = InputProblem(message="broken.yaml:3: broken", location=Location(source="broken.yaml", line=3))
    review = Review(
        inputs=(findings_of_input(answers.answer()), InputFindings(source="broken.yaml", problem=problem))
    )
    report = json.loads(rendered("json", review, RenderContext(terminal=Terminal())))
    jsonschema.validate(report, schema("check"), cls=jsonschema.Draft202012Validator)
    assert report["unreadable"] == ["broken.yaml:3: broken"]
    assert [given["location"] and given["location"]["line"] for given in report["inputs"]] == [None, 3]
    assert [finding["code"] for finding in report["findings"]] == [
        line.code for line in review.inputs[0].lines
    ]
