"""Recorded runs of ``tuner validate``: what is published can be read, and what its page makes of it."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.runner import ROOT, run
from tests.validate.parts import MACHINE, figure, verdict
from tuner.accuracy import compare, read_measured
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import Outcome, PartReport, Status, Validation, ValidationFile

DATA = ROOT / "docs" / "validation" / "data"
RECORDED = sorted(DATA.glob("validate-*.json"))
PEAK_ERROR = 0.03


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module("validation_reports")


def validation_file(**changes: object) -> ValidationFile:
    part = PartReport(
        part=ValidationPart.TRAINING_STEP, status=Status.DONE, seconds=1, measurements=(figure(),)
    )
    validation = Validation(
        tuner_version="0.1.0",
        date="2026-11-22",
        source="config.yaml",
        trainer="verl 0.9.1",
        model="Qwen3-4B",
        budget_seconds=120,
        spent_seconds=100,
        machine=MACHINE,
        parts=(part,),
        recommendations=(verdict(Outcome.REFUTED), verdict(Outcome.CONFIRMED)),
    )
    return ValidationFile(
        what="x",
        hardware="1 x H200",
        software={"torch": "2.11.0"},
        date="2026-11-22",
        validation=validation.model_copy(update=changes),
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_run_is_read_by_its_schema_and_by_accuracy(path: Path) -> None:
    file = ValidationFile.model_validate_json(path.read_text(encoding="utf-8"))
    assert file.validation.machine.device != "cpu"
    assert not file.validation.interrupted
    assert any(part.measurements for part in file.validation.parts)
    measured = {part.part for part in file.validation.parts if part.measurements}
    if not file.cases:  # no pass of a model was run
        assert measured in ({ValidationPart.MACHINE}, {ValidationPart.ROLLOUT})
        return
    cases = read_measured(path).cases
    assert cases == file.cases
    assert all(abs(compare(case).error) <= PEAK_ERROR for case in cases)
    assert run("accuracy", str(path)).code == 0


def test_reports_are_read_in_the_order_of_their_names_and_refused_if_they_are_none(
    pages: ModuleType, tmp_path: Path
) -> None:
    text = validation_file().model_dump_json(by_alias=True)
    for name in ("validate-b", "validate-a", "other"):
        (tmp_path / f"{name}.json").write_text(text)
    assert [path.stem for path in pages.read_validations(tmp_path)] == ["validate-a", "validate-b"]
    (tmp_path / "validate-c.json").write_text(text.replace('"outcome":"refuted"', '"outcome":"good"'))
    with pytest.raises(ValueError, match=re.escape("recommendations.0.outcome")):
        pages.read_validations(tmp_path)


def test_a_row_has_prediction_measurement_error_and_outcome(pages: ModuleType) -> None:
    wrong = figure(what="allocator's peak with 8,192 tokens", measured=50 * 2**30)
    inside = figure(what="a_ held", low=59 * 2**30, high=62 * 2**30)
    only = figure(what="held", predicted=None, low=59 * 2**30, high=62 * 2**30)
    unclaimed = figure(what="update, 2 x 4,096 tokens on 1 GPU", predicted=None, tolerance=None)
    assert pages.figure_rows([figure(), wrong, inside, only, unclaimed]) == [
        ["peak of the update", "", "61.00 GiB", "60.00 GiB", "+1.7%", "confirmed"],
        ["allocator's peak", "8,192", "61.00 GiB", "50.00 GiB", "+22.0%", "**refuted**"],
        [r"a\_ held", "", "61.00 GiB (59.00 GiB – 62.00 GiB)", "60.00 GiB", "+1.7%", "confirmed"],
        ["held", "", "59.00 GiB – 62.00 GiB", "60.00 GiB", "", "confirmed"],
        ["update on 1 GPU", "2 × 4,096", "", "60.00 GiB", "", ""],
    ]


def test_outcomes_are_counted(pages: ModuleType) -> None:
    validation = validation_file().validation
    assert pages.outcome_rows(validation) == [
        ["predicted figures", "1", "0", "0"],
        ["recommendations", "1", "1", "0"],
    ]


def test_recommendations_link_to_rules_that_there_are(pages: ModuleType) -> None:
    known = verdict(Outcome.CONFIRMED, code="BAT002", name="token-budget")
    rows = pages.advice_rows([known, verdict(Outcome.REFUTED)])
    assert [row[0] for row in rows] == [
        ":doc:`BAT002 token-budget </rules/token-budget>`",
        "KRN999 some-kernel",
    ]


def test_figures_of_the_output_head_are_grouped_by_its_name(pages: ModuleType) -> None:
    items = [
        figure(what="eager, chunked: a peak"),
        figure(what="fused: a peak"),
        figure(what="eager, chunked: right"),
    ]
    by_head = pages._by_head(items)
    assert {head: [item.what for item in group] for head, group in by_head.items()} == {
        "eager, chunked": ["a peak", "right"],
        "fused": ["a peak"],
    }


def test_the_machine_is_told_without_what_is_unknown(pages: ModuleType) -> None:
    validation = validation_file(machine=MACHINE.model_copy(update={"profile": None, "nodes": 3})).validation
    rows = dict(pages.machine_rows(validation))
    assert rows["GPU"] == "1 × NVIDIA H200"
    assert rows["Nodes of this kind"] == "3"
    assert "Profile of the prediction" not in rows
