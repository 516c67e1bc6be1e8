"""With every feature off the estimate equals docs/model/closed-form.rst, worked out by hand."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner import memory
from tuner.memory.process.overhead import COMMUNICATOR_ALONE, CONTEXT, CUBLAS_WORKSPACES, NCCL_CODE
from tuner.models import find_model
from tuner.workload import Batch, Checkpointing, Phase, Workload


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """A model's numbers as its config.json gives them; nothing here is taken from the program."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    biases: bool

    @property
    def layer(self) -> int:
        q, k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        projections = self.hidden * q + 2 * self.hidden * k + q * self.hidden
        mlp = 3 * self.hidden * self.intermediate
        norms = 2 * self.hidden
        return projections + mlp + norms + (q + 2 * k if self.biases else 0)

    @property
    def root(self) -> int:
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.root


QWEN = Dimensions(
    name="qwen2.5-0.5b",
    hidden=896,
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    intermediate=4864,
    vocab=151936,
    tied=True,
    biases=True,
)
LLAMA = Dimensions(
    name="llama-3.1-8b",
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=14336,
    vocab=128256,
    tied=False,
    biases=False,
)


def closed_form(of: Dimensions, tokens: int) -> tuple[int, list[int]]:
    """Bytes that are always there, and those of the seven moments."""
    n, layer, h, i = of.parameters, of.layer, of.hidden, of.intermediate
    heads = (of.heads + of.kv_heads) * of.head_dim
    saved = 16 * h + 8 * i + 4 * heads + 4 * of.heads + 8
    batch = tokens * (198 + 4 * of.head_dim)
    forward = tokens * (of.layers * saved + 8 * h + 4) + batch
    logits = 2 * tokens * of.vocab
    matrix = of.vocab * h
    unit = of.root if of.tied else matrix
    constants = (CONTEXT, CUBLAS_WORKSPACES, NCCL_CODE, COMMUNICATOR_ALONE)
    always = 12 * n + sum(constant.typical for constant in constants)
    stage = max(
        2 * h * i + tokens * (saved + 2 * h + 4 * i),
        4 * h * i + tokens * (saved + 4 * h - 2 * i),
        6 * h * i + tokens * (34 * h + 4 * heads + 4 * of.heads + 4),
        2 * layer + 26 * tokens * h,
    )
    layers = []
    for index in range(of.layers):
        below = layer if index else 0 if of.tied else matrix
        above = layer if index + 1 < of.layers else 0 if of.tied else matrix
        upper = 4 * (n - (index + 1) * layer - unit)
        shared = 2 * of.root + 2 * matrix if of.tied else 0
        weights = 2 * (layer + below) + 4 * above + shared
        layers.append(index * tokens * saved + batch + upper + weights + stage)
    reduced = tokens * of.layers * saved + batch + 10 * matrix + 2 * layer + 2 * tokens * h
    others = batch + 4 * (n - unit)
    return always, [
        forward + logits,
        forward + logits + 2 * (unit + layer + matrix) + 2 * tokens * h,
        0 if of.tied else reduced,
        max(layers),
        others + 4 * layer + (2 * of.root + 6 * matrix if of.tied else 4 * matrix + 2 * tokens * h),
        others + (8 * of.root if of.tied else 10 * matrix),
        8 * n,
    ]


def plain(of: Dimensions, tokens: int) -> Workload:
    """One GPU, one micro-batch, every feature off."""
    workload = workloads.grpo_7b(gpus_per_node=1)
    batch = Batch(
        prompts=1,
        responses_per_prompt=1,
        mini_batch_prompts=1,
        epochs=1,
        max_prompt_tokens=tokens // 2,
        max_response_tokens=tokens - tokens // 2,
    )
    actor = replace(workload.actor, update=workloads.static(1), log_prob=None)
    workload = replace(
        workload, model=find_model(of.name), batch=batch, actor=actor, reference=None, critic=None
    )
    return workload.with_rollout(colocated=False).with_actor_engine(
        checkpointing=Checkpointing.NONE, separate_embedding_units=not of.tied
    )


@pytest.mark.parametrize("of", [QWEN, LLAMA], ids=lambda of: of.name)
def test_the_parameters_are_those_of_the_dimensions(of: Dimensions) -> None:
    assert find_model(of.name).parameters == of.parameters


@pytest.mark.parametrize("tokens", [1, 100, 1_000, 4_096, 10_000, 16_384, 40_000])
@pytest.mark.parametrize("of", [QWEN, LLAMA], ids=lambda of: of.name)
def test_a_plain_update_equals_the_closed_form(of: Dimensions, tokens: int) -> None:
    always, moments = closed_form(of, tokens)
    found = memory.estimate(plain(of, tokens)).phase(Phase.UPDATE_ACTOR)
    assert found is not None
    assert found.peak_bytes == always + max(moments)


def test_small_and_large_batches_peak_at_different_moments() -> None:
    """Otherwise the equality above would say nothing about the maximum."""
    highest = {
        moments.index(max(moments))
        for of in (QWEN, LLAMA)
        for tokens in (1, 100, 1_000, 4_096, 10_000, 40_000)
        for _, moments in [closed_form(of, tokens)]
    }
    assert len(highest) >= 3
