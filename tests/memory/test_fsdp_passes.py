"""Terms of FSDP's passes that only some settings have, each beside the setting without it."""

from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from tests.workloads import QWEN25_0_5B, QWEN25_7B, fsdp_engine
from tuner.dtypes import DType
from tuner.memory.checkpointing import layers_held, layers_held_in_backward
from tuner.memory.pass_terms import PassInput
from tuner.memory.passes import pass_moments
from tuner.memory.terms import Moment, Term
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, Lora, OutputHead, Parallelism

TOKENS = 4096
HALVES = Parallelism(gpus=8, shard=4)
LOGITS = OutputHead(kind=HeadKind.LOGITS)
VALUE = OutputHead(kind=HeadKind.VALUE)


def moments(
    engine: Engine,
    *,
    model: ModelShape = QWEN25_0_5B,
    head: OutputHead = LOGITS,
    training: bool = True,
    micro_batches: int = 1,
) -> dict[str, Moment]:
    given = PassInput(
        model=model, engine=engine, head=head, tokens=TOKENS, entropy=False, micro_batches=micro_batches
    )
    return {moment.name: moment for moment in pass_moments(given, training=training)}


def terms(moment: Moment) -> dict[str, Term]:
    return {term.name: term for term in moment.terms}


# -- copies of the states ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "micro_batches", "held"),
    [
        ({}, 1, False),
        ({}, 2, True),
        ({"deferred_gradient_sync": True}, 2, False),
        ({"stored_dtype": DType.BFLOAT16}, 1, True),
        ({"parallel": Parallelism(gpus=8, shard=8)}, 2, False),
        ({"backend": Backend.FSDP}, 2, False),
    ],
)
def test_what_was_all_reduced_is_held_where_it_is_not_the_gradient(
    changes: dict[str, Any], micro_batches: int, held: bool
) -> None:
    engine = replace(fsdp_engine(gpus=8), **{"parallel": HALVES, **changes})
    found = moments(engine, micro_batches=micro_batches)
    assert any("all_reduced" in terms(moment) for moment in found.values()) is held
    assert "all_reduced" not in terms(found["optimizer_step"])


def test_all_units_but_the_root_hold_it_when_the_embedding_is_differentiated() -> None:
    engine, model = replace(fsdp_engine(gpus=8), parallel=HALVES), QWEN25_0_5B
    held = terms(moments(engine, micro_batches=2)["embedding_backward"])["all_reduced"]
    root = model.embedding_parameters + model.final_norm_parameters
    assert held.bytes == 4 * (ceil(model.parameters / 4) - ceil(root / 4))


# -- FSDP1 -------------------------------------------------------------------------------------


def test_fsdp1_casts_its_share_of_the_root_before_it_gathers() -> None:
    engine = fsdp_engine(gpus=8, backend=Backend.FSDP)
    root = QWEN25_7B.parameters - QWEN25_7B.decoder_parameters
    sizes = [
        terms(moments(changed, model=QWEN25_7B, training=False)["root_gathered"])["root_gather"].bytes
        for changed in (engine, replace(engine, stored_dtype=DType.BFLOAT16))
    ]
    assert sizes == [2 * (root + ceil(root / 8)), 2 * root]


def test_under_fsdp1_the_layer_above_leaves_its_gradient_alone() -> None:
    found = moments(fsdp_engine(gpus=8, backend=Backend.FSDP))
    above = terms(found["first_layer_backward"])["unit_above"].bytes
    assert above == 2 * QWEN25_0_5B.layer_parameters(1)
    assert "unit_above" not in terms(found["last_layer_backward"])
    sharded = terms(moments(fsdp_engine(gpus=8))["first_layer_backward"])["unit_above"].bytes
    assert sharded == 2 * above


# -- soft-capped logits ------------------------------------------------------------------------


def test_the_root_is_gathered_before_the_soft_cap_is_differentiated() -> None:
    gemma = find_model("gemma-2-2b")
    found = moments(fsdp_engine(gpus=8), model=gemma)
    assert "logits_backward" not in terms(found["root_gather"])
    inside = terms(found["logits_backward"])
    assert "logits_backward" in inside
    assert inside["root_unit"].bytes * 2 == terms(found["root_gather"])["root_gather"].bytes
    assert inside["prefetched_layer"].bytes == 2 * gemma.largest_layer_parameters


# -- activation offload ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "at_the_head", "first_layer", "inner_layer"),
    [
        ({}, 24, 1, 11),
        ({"activation_offload": True}, 1, 2, 3),
        ({"activation_offload": True, "checkpointing": Checkpointing.NONE}, 1, 1, 2),
        ({"activation_offload": True, "lora": Lora(rank=8, parameters=2**20)}, 2, 3, 4),
    ],
)
def test_layers_held_under_activation_offload(
    changes: dict[str, Any], at_the_head: int, first_layer: int, inner_layer: int
) -> None:
    engine = replace(fsdp_engine(gpus=8), **changes)
    assert layers_held(QWEN25_0_5B, engine) == at_the_head
    assert layers_held_in_backward(QWEN25_0_5B, engine, 0) == first_layer
    assert layers_held_in_backward(QWEN25_0_5B, engine, 10) == inner_layer


# -- critics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [QWEN25_0_5B, QWEN25_7B], ids=lambda model: model.name)
@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
def test_a_value_head_has_neither_logits_nor_a_gradient_as_large_as_the_vocabulary(
    backend: Backend, model: ModelShape
) -> None:
    engine = fsdp_engine(gpus=8, backend=backend)
    found = moments(engine, model=replace(model, value_head=True), head=VALUE)
    names = {name for moment in found.values() for name in terms(moment)}
    assert names.isdisjoint({"head_gradient", "logits"})
    assert terms(found["forward_end"])["head_forward"].bytes == 4 * TOKENS


def test_trl_computes_logits_beside_the_values() -> None:
    head = terms(moments(fsdp_engine(gpus=8), head=VALUE, training=False)["log_probs"])["head_forward"]
    assert head.bytes == 4 * TOKENS + (2 + 4) * TOKENS * QWEN25_0_5B.vocab
