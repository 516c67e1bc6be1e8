"""Which fused head keeps the loss, and when it stands in for a smaller micro-batch."""

from dataclasses import replace

import pytest

from tests.tables import Base, SceneReading, bases, check_findings, rule_findings, scene
from tuner.advise import Advice, advise
from tuner.findings import Finding, Numerics

pytestmark = pytest.mark.sampled(6)

STATIC = (  # of the base, but with micro-batches that are too large
    "actor_rollout_ref.actor.use_dynamic_bsz=False",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
)
LLAMA2 = "deepseek-ai/deepseek-llm-7b-chat"  # 102,400 tokens: 1024 divides its vocabulary
BACKEND = "actor_rollout_ref.model.fused_kernel_options.impl_backend=triton"
FUSED = "actor_rollout_ref.model.use_fused_kernels=True"


def base(version: str, model: str = "Qwen/Qwen2.5-7B-Instruct") -> Base:
    return replace(bases()[f"grpo-{version}"], model=model)


def advised(of: Base) -> Finding | None:
    found = rule_findings(scene(of, STATIC))
    return next((finding for finding in found if finding.rule.name == "fused-head"), None)


@pytest.mark.parametrize(
    ("version", "model", "speaks"),
    [
        ("0.6.1", "Qwen/Qwen2.5-7B-Instruct", False),  # PyTorch's rounds, Triton's is wrong
        ("0.6.1", LLAMA2, True),
        ("0.7.1", "Qwen/Qwen2.5-7B-Instruct", True),
        ("0.8.0", "Qwen/Qwen2.5-7B-Instruct", False),  # smaller micro-batches leave the loss as it is
    ],
)
def test_it_stands_in_for_micro_batches_that_are_part_of_the_loss(
    version: str, model: str, speaks: bool
) -> None:
    assert (advised(base(version, model)) is not None) is speaks


def answer(of: Base) -> Advice:
    return advise(SceneReading(of, STATIC), headroom=0.1)


def test_the_block_has_it_and_not_what_breaks_it() -> None:
    block = answer(base("0.7.1")).combination
    assert block is not None
    assert {FUSED, BACKEND} <= set(block.overrides)
    assert "actor_rollout_ref.model.use_liger=True" not in block.overrides


def test_a_head_that_rounds_is_a_change_of_the_training() -> None:
    long = ("data.max_response_length=60000", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=62000")
    reading = SceneReading(base("0.6.1"), long)
    items = advise(reading, headroom=0.1).recommendations
    item = next(item for item in items if item.finding.rule.name == "fused-head")
    assert item.numerics is Numerics.CHANGED
    assert item.yours
    assert "bfloat16" in item.finding.notes[0]


@pytest.mark.parametrize(("version", "wrong"), [("0.7.1", True), ("0.8.0", False)])
def test_no_fused_head_is_right_where_labels_are_shifted_in_shares(version: str, wrong: bool) -> None:
    shared = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"
    it = scene(base(version), (FUSED, shared))
    assert bool(it.workload.actor.head.fusable) is not wrong
    found = {finding.rule.name for finding in check_findings(it)}
    assert ("fused-shared-sequences" in found) is wrong
