"""Written profiles: what comes back from the file, and what advice makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cli.runner import ROOT, run
from tests.validate.recorder import machine
from tuner.errors import InputError
from tuner.evidence import Evidence
from tuner.gpus import find_gpu
from tuner.units import GIGA, MIB, TERA
from tuner.validate.parts import ValidationPart
from tuner.validate.report.profile import MARK, PROFILE_FIGURES, TOTAL, profile_file, write_profile
from tuner.validate.report.schema import Measurement, PartReport, Status, Validation, ValidationFile

pytestmark = pytest.mark.sampled(6)

BASE = find_gpu("h200")
FIGURES = {
    "usable_bytes": 143156.5 * MIB,
    "context_bytes": 760 * MIB,
    "memory_bytes_per_s": 4200 * GIGA,
    "dense_bf16_flop_per_s": 700 * TERA,
    "host_bytes_per_s": 52.125 * GIGA,
    "link_bytes_per_s": 300 * GIGA,
    "products_factor": 0.95,
    "attention_factor": 1.125,
    "elementwise_factor": 0.8,
    "head_factor": 1.02,
    "host_factor": 0.7,
    "engine_factor": 0.5,
    "engine_sequence_factor": 0.4,
}
CONFIG = str(ROOT / "docs" / "examples" / "qwen2.5-7b-grpo.yaml")


def report(figures: dict[str, float], *, total: float | None = 143771 * MIB) -> ValidationFile:
    found = [
        Measurement(name=PROFILE_FIGURES[field], what="", unit="bytes", measured=value)
        for field, value in figures.items()
    ]
    if total is not None:
        found.append(Measurement(name=TOTAL, what="", unit="bytes", measured=total))
    parts = (
        PartReport(part=ValidationPart.MACHINE, status=Status.DONE, seconds=1, measurements=tuple(found)),
    )
    validation = Validation(
        tuner_version="0",
        date="2026-11-21",
        source="c.yaml",
        trainer="verl 0.9.1",
        model="m",
        budget_seconds=120,
        spent_seconds=9,
        machine=machine(),
        parts=parts,
    )
    return ValidationFile(what="", hardware="", software={}, date="2026-11-21", validation=validation)


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    file = write_profile(str(tmp_path / "node7"), report(FIGURES), base=BASE)
    assert file == tmp_path / "node7.yaml"
    assert [path.name for path in tmp_path.iterdir()] == ["node7.yaml"]
    gpu = find_gpu(str(file))
    measured = gpu.measured
    assert measured is not None
    assert {name: getattr(measured, name) for name in FIGURES} == pytest.approx(FIGURES)
    assert measured.date == "2026-11-21"
    assert measured.versions == (("driver", "580.1"), ("torch", "2.11.0"))
    assert replace(gpu, measured=None) == replace(BASE, measured=None)
    assert gpu.capacity_bytes == round(143156.5 * MIB) < gpu.memory_bytes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(figures=st.dictionaries(st.sampled_from(sorted(FIGURES)), st.floats(0.001, 4), min_size=1))
def test_any_part_of_it_comes_back(figures: dict[str, float], tmp_path: Path) -> None:
    wanted = {field: share * FIGURES[field] for field, share in figures.items()}
    gpu = find_gpu(str(write_profile(str(tmp_path / "some.yaml"), report(wanted), base=BASE)))
    for field in FIGURES:
        found = getattr(gpu.measured, field)
        assert found == (pytest.approx(wanted[field], rel=0.02) if field in wanted else None)


def test_the_drivers_total_takes_the_place_of_a_lie(tmp_path: Path) -> None:
    lying = replace(BASE, memory_bytes=BASE.memory_bytes * 6 // 5)
    file = str(tmp_path / "x")
    write_profile(file, report(FIGURES), base=lying)
    assert find_gpu(f"{file}.yaml").memory_bytes == BASE.memory_bytes
    write_profile(file, report(FIGURES, total=None), base=lying)
    assert find_gpu(f"{file}.yaml").memory_bytes == pytest.approx(lying.memory_bytes, abs=MIB)


def test_without_a_base_the_reports_card_is_taken(tmp_path: Path) -> None:
    file = write_profile(str(tmp_path / "x"), report(FIGURES))
    assert replace(find_gpu(str(file)), measured=None) == replace(BASE, measured=None)


def test_only_its_own_files_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_profile("mine", report(FIGURES), base=BASE) == Path("mine.yaml")
    assert write_profile("mine.yml", report(FIGURES), base=BASE) == Path("mine.yml")
    slower = FIGURES | {"memory_bytes_per_s": 1000 * GIGA}
    write_profile("mine", report(slower), base=BASE)
    measured = find_gpu("mine.yaml").measured
    assert measured is not None and measured.memory_bytes_per_s == 1000 * GIGA
    assert Path("mine.yaml").read_text().startswith(MARK)

    Path("theirs.yaml").write_text("precious: 1\n")
    for attempt in (
        lambda: profile_file("theirs"),
        lambda: write_profile("theirs", report(FIGURES), base=BASE),
    ):
        with pytest.raises(InputError, match="was not written by tuner") as caught:
            attempt()
        assert str(caught.value.location) == "theirs.yaml:1"
    assert Path("theirs.yaml").read_text() == "precious: 1\n"


@pytest.mark.parametrize("name", ["nowhere/x", "folder.yaml"])
def test_a_place_that_takes_no_file_is_named_before_the_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.yaml").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        profile_file(name)


def test_nothing_measured_and_an_unknown_card_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing was measured"):
        write_profile(str(tmp_path / "x"), report({}), base=BASE)
    assumed = replace(BASE, evidence=Evidence.HEURISTIC)
    with pytest.raises(InputError, match="none was named"):
        write_profile(str(tmp_path / "x"), report(FIGURES), base=assumed)
    assert not list(tmp_path.iterdir())


# -- what advice makes of it ---------------------------------------------------------------


def advised(gpu: str, *more: str) -> dict[str, Any]:
    result = run("advise", CONFIG, "--gpu", gpu, "--verl-version", "0.9.1", "-f", "json", *more)
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def terms(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    moments = [moment for phase in answer["memory"]["phases"] for moment in phase["moments"]]
    return [term for moment in moments for term in moment["terms"] if term["name"] == name]


def test_a_host_that_an_engine_showed_to_be_slow_makes_generation_longer(tmp_path: Path) -> None:
    small = ("--model", "Qwen2.5-1.5B-Instruct")
    file = str(write_profile(str(tmp_path / "slow"), report({"engine_factor": 0.25}), base=BASE))
    typical, slow = (
        {phase["phase"]: phase for phase in advised(gpu, *small)["time"]} for gpu in ("h200", file)
    )
    assert slow["rollout"]["seconds"] > 2 * typical["rollout"]["seconds"]
    assert [one["rollout"]["evidence"] for one in (typical, slow)] == ["modelled", "measured"]
    width_before, width = (one["rollout"]["high_s"] / one["rollout"]["low_s"] for one in (typical, slow))
    assert width < width_before
    others = [name for name in typical if name != "rollout"]
    assert all(slow[name]["seconds"] == typical[name]["seconds"] for name in others)
    apart = {"engine_factor": 1.0, "engine_sequence_factor": 0.25}
    file = str(write_profile(str(tmp_path / "apart"), report(apart), base=BASE))
    of_sequences = {phase["phase"]: phase for phase in advised(file, *small)["time"]}["rollout"]["seconds"]
    assert typical["rollout"]["seconds"] < of_sequences < slow["rollout"]["seconds"]


def test_advice_goes_by_what_was_measured_and_says_so(tmp_path: Path) -> None:
    slow = FIGURES | {"dense_bf16_flop_per_s": 300 * TERA}
    file = str(write_profile(str(tmp_path / "mine"), report(slow), base=BASE))
    before, after = advised("h200"), advised(file)
    assert after["memory"]["capacity_bytes"] == round(143156.5 * MIB)
    assert {(term["bytes"], term["evidence"]) for term in terms(after, "trainer_context")} == {
        (760 * MIB, "measured")
    }
    assert {term["evidence"] for term in terms(before, "trainer_context")} == {"heuristic"}
    for answer in (before, after):  # the engine's fraction is of what it sees as the card
        cards = {term["symbols"].get("M") for term in terms(answer, "kv_cache")}
        assert cards == {answer["memory"]["capacity_bytes"]}
    seconds = [sum(phase["seconds"] for phase in answer["time"]) for answer in (before, after)]
    assert seconds[1] > 1.5 * seconds[0]
    evidence = [
        {phase["phase"]: phase["evidence"] for phase in answer["time"]}["update_actor"]
        for answer in (before, after)
    ]
    assert evidence == ["modelled", "measured"]

    text = run("advise", CONFIG, "--gpu", file, "--verl-version", "0.9.1", "--full").out
    assert "the rollout engine's work on the host" in " ".join(text.split())
    words = " ".join(text.split())
    assert "on such a card on 2026-11-21 (driver 580.1, torch 2.11.0)" in words
    assert "rate of matrix products" in words
    assert "attention, element-wise kernels" in words
    bundled = run("advise", CONFIG, "--gpu", "h200", "--verl-version", "0.9.1").out
    assert "2026-11-21" not in bundled and "rate of matrix products" not in bundled
