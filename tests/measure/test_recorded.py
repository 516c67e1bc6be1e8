"""The recorded hold-outs, and the models that see, are what the script in the repository records."""

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "validation" / "data"

# By file: the module, its sets by number of GPUs, what has no record, and the number of passes.
HOLDOUTS = {
    "verl-0.9.1-fsdp-4xh200-holdout.json": (
        "holdout",
        {2: "two_gpus", 4: "four_gpus"},
        {  # left out when the time was over
            "llama-3.1-8b-bf16-entropy-checkpointing",
            "qwen3-4b-bf16-entropy-chunking-eager",
            "qwen2.5-7b-bf16-fsdp1-prefetch",
        },
        178,
    ),
    "verl-0.9.1-fsdp-4xh200-second-holdout.json": (
        "second_holdout",
        {2: "two_gpus"},
        {"olmo-2-7b-bf16"},  # its checkpointing fails: recomputed tensors have another dtype
        54,
    ),
    "verl-0.9.1-fsdp-fine-tuning-2xh100.json": ("fine_tuning", {2: "cases"}, set(), 20),
    "verl-0.9.1-fsdp-images-1xh100.json": ("images", {1: "cases"}, set(), 74),
    "verl-0.9.1-fsdp-images-1xh100-holdout.json": ("images", {1: "holdout"}, set(), 26),
    "verl-0.9.1-fsdp-images-2xh200.json": ("images", {2: "two_gpus"}, set(), 12),
}
#: Settings that came later than some recordings, as these were.
LATER = {"frozen_tower": False, "images_per_prompt": 0, "image_pixels": 0}


def _planned(module: str, sets: dict[int, str], absent: set[str]) -> list[dict[str, Any]]:
    """Settings of every pass, without those that have no record."""
    plan = importlib.import_module(f"measure.verl_engine.{module}")
    found = []
    for gpus, name in sets.items():
        for case_name, case in getattr(plan, name)().items():
            if case_name in absent:
                continue
            for one_pass in case.passes:
                settings = asdict(one_pass)
                kind = settings.pop("kind")
                found.append({**asdict(case.engine), **settings, "pass": kind, "world_size": gpus})
    return found


def _ordered(cases: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(case, sort_keys=True) for case in cases)


@pytest.mark.parametrize("file", HOLDOUTS)
def test_what_is_planned_was_recorded(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    module, sets, absent, count = HOLDOUTS[file]
    planned = _planned(module, sets, absent)
    recorded = json.loads((DATA / file).read_text())["cases"]
    assert len(recorded) == count
    settings = [LATER | case for case in recorded]
    assert _ordered([{key: case[key] for key in planned[0]} for case in settings]) == _ordered(planned)
