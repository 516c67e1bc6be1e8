"""Numbers that pages state of recorded seconds, against what the command prints of the same file."""

import json
from statistics import median
from typing import Any

import pytest

from computed import computed
from figures import seconds_by_basis
from tests.cli.runner import ROOT, run
from tests.memory.measured import STEPS_OF_RUNS
from tuner.accuracy import RunsFile
from tuner.accuracy.seconds import TimedFile

pytestmark = pytest.mark.sampled(6)

FILES = tuple(
    f"warm-passes-{run}.json"
    for run in ("h100-another", "h100-third", "2xh100-another", "h200-another", "2xh200")
)
THREE_WITH_ONE_H100 = tuple(f"warm-passes-{run}.json" for run in ("h100", "h100-another", "h100-third"))
THREE_MACHINES = (
    "warm-passes-2xh100.json",
    "warm-passes-2xh100-host.json",
    "warm-passes-2xh100-another.json",
)
RUNS = "steps-of-public-runs.jsonl"
PASS = (
    "model",
    "strategy",
    "tokens",
    "sequence_length",
    "pass",
    "gradient_checkpointing",
    "layers",
    "ulysses",
    "forward_prefetch",
)


@pytest.mark.parametrize("file", FILES)
def test_errors_of_recorded_passes_are_those_of_the_command(file: str) -> None:
    result = run("accuracy", str(ROOT / "docs/validation/data" / file), "--output-format", "json")
    rows = json.loads(result.out)["seconds"]
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows]
    assert len(errors) >= 29
    assert float(computed(f"seconds-error {file}").split()[0]) == pytest.approx(
        100 * median(errors), abs=0.06
    )
    close = sum(error <= 0.12 for error in errors) / len(errors)
    assert float(computed(f"seconds-close {file} 12").split()[0]) == pytest.approx(100 * close, abs=0.6)


CLOSE = 0.12 + 1e-9


def cases_of(file: str) -> list[dict[str, Any]]:
    """The recorded passes of a file."""
    text = (ROOT / "docs/validation/data" / file).read_text(encoding="utf-8")
    cases: list[dict[str, Any]] = json.loads(text)["cases"]
    return cases


def nearest(files: tuple[str, ...]) -> tuple[int, int, int]:
    """Passes that several machines ran, their seconds, and how many the best number for each is close to."""
    passes: dict[tuple[object, ...], list[float]] = {}
    for file in files:
        for case in cases_of(file):
            case = {"ulysses": 1, "forward_prefetch": False, **case}
            passes.setdefault(tuple(case[name] for name in PASS), []).append(case["seconds"])
    repeated = [seconds for seconds in passes.values() if len(seconds) > 1]
    near = sum(
        max(
            sum(abs(guess / measured - 1) <= CLOSE for measured in seconds)
            for second in seconds
            for guess in (0.88 * second, second, 1.12 * second)
        )
        for seconds in repeated
    )
    return len(repeated), sum(map(len, repeated)), near


def test_no_prediction_is_near_the_seconds_of_all_machines() -> None:
    assert nearest(THREE_MACHINES) == (8, 19, 16)
    assert "Eight of the passes" in text() and "more than 16 of these 19 seconds" in text()


def test_how_near_one_prediction_is_to_three_machines_with_one_h100() -> None:
    passes, seconds, near = nearest(THREE_WITH_ONE_H100)
    predicted = sum(abs(ratio - 1) <= CLOSE for file in THREE_WITH_ONE_H100 for _, ratio in ratios(file))
    words = "All {} passes were run by three machines with one H100: no number for each of them"
    assert words.format(passes) in text()
    assert f"more than {near} of these {seconds} seconds, and" in text()
    assert f"the predicted ones are within 12 % of {predicted}." in text()
    example = {"model": "Qwen2.5-1.5B", "strategy": "fsdp", "tokens": 2048, "pass": "log_prob"}
    took = [
        f"{1000 * row['measured_s']:.0f}"
        for file in THREE_WITH_ONE_H100
        for case, (row, _) in zip(cases_of(file), ratios(file), strict=True)
        if example.items() <= case.items()
    ]
    assert "under FSDP1, for example, took {}, {} and {} ms".format(*took) in text()


def test_the_first_prediction_of_the_third_machine_is_the_one_of_its_record() -> None:
    record = json.loads((ROOT / "docs/validation/data" / FILES[1]).read_text(encoding="utf-8"))
    (note,) = (note for note in record["notes"] if "when they were first predicted" in note)
    error, near = note.split("median error ")[1].split(", ")
    assert (
        f"their median error was {error}, and {near.split(' within')[0]} of them were within 12 %" in text()
    )


def ratios(file: str, phase: str = "") -> list[tuple[dict[str, Any], float]]:
    """Each row of the command with its predicted over its measured seconds."""
    result = run("accuracy", str(ROOT / "docs/validation/data" / file), "--output-format", "json")
    rows = json.loads(result.out)["seconds"]
    return [(row, row["predicted_s"] / row["measured_s"]) for row in rows if phase in ("", row["phase"])]


def text() -> str:
    return (ROOT / "docs/validation/index.rst").read_text(encoding="utf-8")


def fills_the_gpu(case: dict[str, Any]) -> bool:
    """What the page calls passes whose kernels fill the time."""
    model, tokens = case["model"], case["tokens"]
    large = tokens >= 8192 and ("7B" in model or "4B" in model)
    return "30B" in model or large or (tokens >= 24576 and "1.5B" in model)


def test_passes_over_two_h100_lie_between_what_the_page_says() -> None:
    filled, waiting = [], []
    for file in THREE_MACHINES:
        for case, (_, ratio) in zip(cases_of(file), ratios(file), strict=True):
            (filled if fills_the_gpu(case) else waiting).append(ratio)
    assert f"are {min(filled):.2f} to {max(filled):.2f} of the measured ones" in text()
    assert f"between {min(waiting):.2f} and {max(waiting):.2f} of the measured seconds" in text()


def test_updates_of_a_sparse_model_lie_between_what_the_changelog_says() -> None:
    updates = [
        ratio
        for name in (*THREE_WITH_ONE_H100, "warm-passes-h200.json", "warm-passes-h200-another.json")
        for case, (_, ratio) in zip(cases_of(name), ratios(name), strict=True)
        if "30B" in case["model"] and case["pass"] == "update"
    ]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"come out at {min(updates):.2f} to {max(updates):.2f} of what was measured" in changes


def test_updates_on_an_h20_and_an_a100_are_off_as_the_page_says() -> None:
    updates = {row["case"]: (row, ratio) for row, ratio in ratios(RUNS, "update_actor")}
    lines = (ROOT / "docs/validation/data" / RUNS).read_text(encoding="utf-8").splitlines()
    runs = {one["id"]: one for one in map(json.loads, lines) if "id" in one}
    fsdp = [
        100 * (updates[name][1] - 1)
        for name, one in runs.items()
        if name.startswith("mcp-dapo32b") and "actor_rollout_ref.actor.strategy=fsdp" in one["overrides"]
    ]
    assert f"come out {min(fsdp):.0f} to {max(fsdp):.0f} % too long" in text()
    steps = [(runs[name], updates[name][0]) for name in ("gpg7b-fsdp-early", "gpg7b-fsdp-late")]
    tokens = [5 * 1024 * (one["prompt_length_mean"] + one["response_length_mean"]) for one, _ in steps]
    for key, words in (
        ("measured_s", "{:.0f} µs more for each token, and {:.0f} s whatever the tokens"),
        ("predicted_s", "the model has {:.0f} µs and {:.0f} s"),
    ):
        early, late = (row[key] for _, row in steps)
        slope = (late - early) / (tokens[1] - tokens[0])
        assert words.format(1e6 * slope, early - slope * tokens[0]) in text()


def test_the_picture_by_basis_predicts_no_run_that_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def predicted(source: str, file: RunsFile) -> TimedFile:
        asked.extend(run.source for run in file.runs)
        return TimedFile(source=source)

    monkeypatch.setattr(seconds_by_basis, "timed_runs", predicted)
    monkeypatch.setattr(seconds_by_basis, "timed_record", lambda folder: TimedFile(source=folder))
    seconds_by_basis._of_runs.__wrapped__(False)
    lines = (ROOT / "tests/data/step-times-apart.txt").read_text().splitlines()
    apart = tuple(line for line in lines if line and not line.startswith("//"))
    sources = [json.loads(line)["source"] for line in STEPS_OF_RUNS.read_text().splitlines()]
    assert asked == [source for source in sources if not source.startswith(apart)]
    assert 0 < len(asked) < len(sources)
