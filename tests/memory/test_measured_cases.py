"""What a file of measured passes says of sharding, critics and models of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.memory.measured import RECORDED
from tuner.accuracy import read_measured, workload_of
from tuner.errors import InputError
from tuner.workload import HeadKind

HOLDOUT = RECORDED / "verl-0.9.1-fsdp-4xh200-holdout.json"
CASE: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B",
    "pass": "update",
    "strategy": "fsdp2",
    "world_size": 4,
    "model_dtype": "fp32",
    "tokens": 4096,
    "sequence_length": 1024,
    "temperature": 1.0,
    "gradient_checkpointing": True,
    "reshard_after_forward": True,
    "use_torch_compile": True,
    "calculate_entropy": False,
    "allocated_before_bytes": 1,
    "peak_allocated_bytes": 2,
}
SMALL_LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
}


def measured(folder: Path, **settings: Any) -> Path:
    """A file with one pass."""
    file = folder / "measured.json"
    file.write_text(json.dumps({"cases": [CASE | settings]}))
    return file


@pytest.mark.parametrize(("size", "shard"), [(None, 4), (1, 1), (2, 2), (4, 4), (8, 4)])
def test_the_states_are_shared_by_fsdp_size_gpus(tmp_path: Path, size: int | None, shard: int) -> None:
    (case,) = read_measured(measured(tmp_path, fsdp_size=size)).cases
    parallel = workload_of(case).actor.engine.parallel
    assert (parallel.gpus, parallel.shard) == (4, shard)


def test_the_root_unit_is_freed_where_verl_frees_it(tmp_path: Path) -> None:
    frees = [
        workload_of(read_measured(measured(tmp_path, fsdp_size=size)).cases[0]).actor.engine.frees_root
        for size in (None, 1, 2)
    ]
    assert frees == [False, False, True]


def test_gpus_that_cannot_be_divided_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="world_size 4 is no multiple of fsdp_size 3"):
        read_measured(measured(tmp_path, fsdp_size=3))


def test_images_have_a_number_and_a_size(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="images_per_prompt and image_pixels go together"):
        read_measured(measured(tmp_path, images_per_prompt=2))


def test_images_must_fit_into_the_prompt(tmp_path: Path) -> None:
    file = measured(tmp_path, model="Qwen2.5-VL-3B-Instruct", images_per_prompt=2, image_pixels=448**2)
    (case,) = read_measured(file).cases
    seen = workload_of(case).batch.images
    assert seen is not None
    assert (seen.tokens, seen.per_prompt) == (512, 2)


def test_a_critic_has_a_value_head(tmp_path: Path) -> None:
    (case,) = read_measured(measured(tmp_path, critic=True)).cases
    assert workload_of(case).actor.head.kind is HeadKind.VALUE


def test_a_model_is_found_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shapes" / "small").mkdir(parents=True)
    (tmp_path / "shapes" / "small" / "config.json").write_text(json.dumps(SMALL_LLAMA))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (case,) = read_measured(measured(tmp_path, model="shapes/small")).cases
    model = workload_of(case).model
    assert (model.name, model.vocab) == ("small", 512)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_a_name_that_is_no_path_is_looked_up_as_a_name(tmp_path: Path, name: str) -> None:
    (case,) = read_measured(measured(tmp_path, model=name)).cases
    assert case.model == name


def test_every_pass_of_the_hold_out_has_a_workload() -> None:
    cases = read_measured(HOLDOUT).cases
    assert len(cases) == 178
    assert {workload_of(case).actor.engine.parallel.shard for case in cases} == {2, 4}
