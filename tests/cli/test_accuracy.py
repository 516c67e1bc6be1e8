import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import process, run
from tests.memory.measured import VERL_FSDP
from tests.memory.test_accuracy import PASS, WORST_ADDED_ERROR, WORST_PEAK_ERROR
from tuner.render.schemas import schema
from tuner.units import GIB


def written(folder: Path, *cases: Any, **fields: Any) -> str:
    path = folder / "measured.json"
    path.write_text(json.dumps({"cases": cases, **fields}))
    return str(path)


def valid(content: Any, name: str) -> None:
    jsonschema.validate(content, schema(name), cls=jsonschema.Draft202012Validator)


def test_the_recorded_file_is_met_within_the_limits() -> None:
    result = run("accuracy", str(VERL_FSDP), "--output-format", "json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    valid(report, "accuracy")
    assert report["summary"]["cases"] == len(report["cases"]) == 52
    assert report["summary"]["peak"]["worst"] <= WORST_PEAK_ERROR
    assert report["summary"]["added"]["worst"] <= WORST_ADDED_ERROR
    inside = [case["reserved_in_interval"] for case in report["cases"]]
    assert report["summary"]["reserved"] == {"inside": sum(inside), "recorded": 52}
    for case in report["cases"]:
        assert sum(term["bytes"] for term in case["terms"]) == case["predicted_peak_bytes"]
        assert case["error"] == case["predicted_peak_bytes"] / case["measured_peak_bytes"] - 1
        assert case["measured_peak_bytes"] == case["case"]["peak_allocated_bytes"]
        low, high = case["interval_bytes"]
        assert case["measured_reserved_bytes"] == case["case"]["peak_reserved_bytes"]
        assert case["reserved_in_interval"] is (low <= case["measured_reserved_bytes"] <= high)
        assert all(term["formula"] for term in case["terms"])


def test_the_recorded_file_is_as_the_schema_says() -> None:
    valid(json.loads(VERL_FSDP.read_text()), "measured")


def test_text_and_json_agree() -> None:
    text = run("accuracy", str(VERL_FSDP)).out
    assert max(map(len, text.splitlines())) <= 80
    assert "Size of the error over 52 cases" in text
    report = json.loads(run("accuracy", str(VERL_FSDP), "-f", "json").out)
    rows = [line.split() for line in text.splitlines() if line[:6].strip().isdigit()]
    for row, case in zip(rows, report["cases"], strict=True):
        assert row[0] == str(case["index"])
        amounts = [f"{case[f'{kind}_peak_bytes'] / GIB:.2f}" for kind in ("predicted", "measured")]
        assert row[3:6] == [*amounts, f"{case['error']:+.1%}"]
    foreign = sum(case["foreign_bytes"] > 0 for case in report["cases"])
    assert text.count("held by something else") == foreign > 0
    inside = report["summary"]["reserved"]["inside"]
    assert f"reserved peak inside the interval: {inside} of 52 ({inside / 52:.1%})" in text
    outside = [case for case in report["cases"] if not case["reserved_in_interval"]]
    assert text.count("        reserved ") == len(outside) == 52 - inside


def test_reserved_bytes_that_were_not_recorded_are_not_judged(tmp_path: Path) -> None:
    file = written(tmp_path, PASS)
    (case,) = json.loads(run("accuracy", file, "-f", "json").out)["cases"]
    assert (case["measured_reserved_bytes"], case["reserved_in_interval"]) == (None, None)
    assert "inside the interval" not in run("accuracy", file).out


def test_several_files_are_summed_up_together(tmp_path: Path) -> None:
    file = written(tmp_path, PASS)
    report = json.loads(run("accuracy", file, str(VERL_FSDP), "-f", "json").out)
    assert [(case["source"], case["index"]) for case in report["cases"][:2]] == [
        (file, 0),
        (str(VERL_FSDP), 0),
    ]
    assert report["summary"]["cases"] == 53
    assert "over 53 cases" in run("accuracy", file, str(VERL_FSDP)).out


def test_newer_fields_and_strategies_are_read(tmp_path: Path) -> None:
    newer = {
        "ulysses": 2,
        "optimizer_offload": True,
        "non_torch_bytes": GIB,
        "peak_reserved_bytes": 50 * GIB,
        "peak_requested_bytes": 39 * GIB,
        "reserved_before_bytes": GIB,  # not known today
        "seconds": 0.5,
        "wait_seconds": 0.1,
    }
    cases = [PASS, {**PASS, **newer}, {**PASS, **newer, "strategy": "fsdp"}]
    valid({"cases": cases}, "measured")
    result = run("accuracy", written(tmp_path, *cases))
    assert result.code == 0, result.err
    assert "strategy=fsdp, ulysses=2, optimizer_offload" in result.out
    report = json.loads(run("accuracy", written(tmp_path, *cases), "-f", "json").out)
    valid(report, "accuracy")
    assert [case["case"]["ulysses"] for case in report["cases"]] == [1, 2, 2]


BAD_CASES = [
    ({"model": "nobody/unheard-of"}, "cases[1].model: no model 'nobody/unheard-of'"),
    ({"model": ""}, "cases[1].model: the model path is empty"),
    ({"tokens": None}, "cases[1].tokens: input should be a valid integer"),
    ({"tokens": "4096"}, "cases[1].tokens: input should be a valid integer"),
    ({"tokens": 0}, "cases[1].tokens: input should be greater than or equal to 1"),
    ({"tokens": 10**400}, "cases[1].tokens: "),
    ({"tokens": 1000}, "cases[1]: tokens 1000 times ulysses 1 is no multiple of sequence_length 2048"),
    ({"ulysses": 3}, "cases[1]: world_size 4 is no multiple of ulysses 3"),
    ({"strategy": "megatron"}, "cases[1].strategy: input should be 'fsdp' or 'fsdp2'"),
    ({"pass": "rollout"}, "cases[1].pass: input should be 'log_prob', 'update' or 'fine_tuning'"),
    ({"fused_kernels": "liger"}, "cases[1].fused_kernels: input should be 'torch', 'triton' or 'tuner'"),
    ({"model_dtype": "int4"}, "cases[1].model_dtype: "),
    ({"ulysess": 2}, "cases[1].ulysess: is not known"),
    ({"sequence_parallel": 2}, "cases[1].sequence_parallel: is not known"),
    ({"temperature": float("nan")}, "cases[1].temperature: input should be"),
    ({"peak_allocated_bytes": 0}, "cases[1]: peak_allocated_bytes is not above allocated_before_bytes"),
    ({"forward_only_engine": True}, "cases[1]: pass is update, which a forward_only_engine does not have"),
    ({"tokens": 0, "ulysses": 0}, "(1 more)"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_CASES)
def test_a_bad_case_is_one_message_with_its_place(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    file = written(tmp_path, PASS, {**PASS, **changes})
    result = run("accuracy", file)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {file}: cases[1]")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


BAD_FILES = {
    "empty": (b"", "nvalid JSON"),
    "binary": (bytes(range(256)), "nvalid JSON"),
    "latin": (b'{"what": "\xe9", "cases": []}', "nvalid JSON"),
    "broken": (b'{"cases": [}', "line 1 column"),
    "deep": (b"[" * 100_000, "nvalid JSON"),
    "list": (b"[]", "input should be an object"),
    "none": (b'{"cases": []}', "cases: "),
    "absent": (b"{}", "cases: is missing"),
    "other": (b'{"cases": [1]}', "cases[0]: input should be an object"),
    "field": (b'{"cases": [{}]}', "cases[0].model: is missing (1"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_message(name: str, tmp_path: Path) -> None:
    content, words = BAD_FILES[name]
    path = tmp_path / f"{name}.json"
    path.write_bytes(content)
    result = run("accuracy", str(VERL_FSDP), str(path))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {path}: ")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    assert "there is no such file" in run("accuracy", str(tmp_path / "missing.json")).err
    assert "is a directory" in run("accuracy", str(tmp_path)).err
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (16 * 2**20 + 1))
    assert "larger than the limit of 16 MiB" in run("accuracy", str(large)).err


def test_a_process_of_its_own_and_a_closed_pipe() -> None:
    result = process("accuracy", str(VERL_FSDP), shell="| head -c 1 >/dev/null")
    assert (result.code, result.err) == (0, "")
