"""verl's own examples that do not fit: the page's tables, and its sums by hand."""

import pytest
from msgspec.structs import replace

from docs._ext.verl_examples import (
    RELEASE,
    as_the_branch,
    examples,
    peak_and_fit,
    priced,
    row,
    shards,
)
from tests.cli.runner import ROOT
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.memory.megatron.layers import attention_bytes, layer_bytes, mlp_bytes, norm_bytes, rotary_bytes
from tuner.model_shape import QueryKeyNorm
from tuner.units import GIB

pytestmark = pytest.mark.sampled(12)

FILE = "verl-main-examples.jsonl"
PAGE = (ROOT / "docs" / "validation" / "verl-examples.rst").read_text(encoding="utf-8")
EXAMPLES = {
    example["path"].removeprefix("examples/"): tuple(example["overrides"]) for example in examples(FILE)
}
MEGATRON_8B = EXAMPLES["grpo_trainer/run_qwen3_8b_megatron.sh"]
SHARDED = sorted(path for path, overrides in EXAMPLES.items() if shards(overrides))


def parts_of(path: str) -> dict[str, float]:
    return {name: size / GIB for name, size in priced(*as_the_branch(EXAMPLES[path])).parts}


@pytest.mark.parametrize("path", sorted(EXAMPLES))
def test_what_the_page_calls_too_large_is_too_large(path: str) -> None:
    assert not priced(*as_the_branch(EXAMPLES[path])).fits


def test_bytes_of_a_layer_and_of_two_micro_batches_by_hand() -> None:
    workload = consult(
        MEGATRON_8B[0], MEGATRON_8B[1:], Premises(gpu="h100-sxm", verl_version=RELEASE)
    ).advice.workload
    model, engine = workload.model, workload.actor.engine
    without_norms = attention_bytes(replace(model, qk_norm=QueryKeyNorm.NONE), engine)
    parts = (
        2 * norm_bytes(model.hidden, engine),
        without_norms,
        attention_bytes(model, engine) - without_norms,
        rotary_bytes(model, engine),
        mlp_bytes(model, engine, 0),
    )
    assert parts == (32_776, 20_608, 10_400, 2_048, 122_880)
    assert layer_bytes(model, engine, 0) == sum(parts) == 188_712
    for number in (*parts, sum(parts)):
        assert f"{number:,}" in PAGE
    in_flight = 2 * 24_576 * 18 * sum(parts) / 2 / GIB
    assert f"{in_flight:.1f} GiB" in PAGE
    assert in_flight == pytest.approx(parts_of("grpo_trainer/run_qwen3_8b_megatron.sh")["activations"], abs=1)


def test_states_of_experts_that_no_rank_shares_by_hand() -> None:
    of_a_gpu = 48 * 128 * 3 * 2048 * 768 / 8
    assert f"{of_a_gpu * (12 + 4 + 2) / GIB:.1f} GiB" in PAGE
    assert parts_of("gspo_trainer/run_qwen3_30b_a3b_megatron.sh")["optimizer"] > 12 * of_a_gpu / GIB


@pytest.mark.parametrize(
    ("path", "size"),
    [("grpo_trainer/run_qwen2_5_32b_fsdp.sh", "61.0"), ("grpo_trainer/run_qwen3_30b_a3b_fsdp.sh", "113.7")],
)
def test_gradients_are_whole_on_each_gpu(path: str, size: str) -> None:
    assert size in PAGE
    assert f"{parts_of(path)['gradients']:.1f}" == size


def test_six_are_too_large_with_gradients_that_are_reduced_each_time() -> None:
    names = ("gpt_oss", "mistral_nemo", "lora/run_qwen2_5_vl_7b", "qwen3_30b", "qwen3_vl_30b", "seed_oss")
    too_large = [path for path in SHARDED if not peak_and_fit(*EXAMPLES[path])[1]]
    assert all(any(name in path for path in too_large) for name in names)
    assert len(too_large) == len(names)


def test_a_row_names_the_script_and_its_peak() -> None:
    example = examples(FILE)[0]
    cells = row(example)
    assert cells[0].replace("`` ``", "") == f"``{example['path'].removeprefix('examples/')}``"
    assert float(cells[3]) > 79.1
