"""Terms of one Megatron stage: what is counted of its layers and micro-batches, worked out by hand."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.test_megatron_passes import T, given
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.megatron import terms
from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing

INPUT = 2 * 3_584  # bytes of a token between two layers of Qwen2.5-7B
SPARSE = workloads.QWEN3_30B_A3B
# Eight copies of a token, each 2 x 2,048 B of input, 3 x 2 x 768 B of an expert and 4 B: 69,664 B of a layer,
# of which the fullest rank has up to 0.72 more: 50,158.08, rounded up.
UNBALANCED = 50_159


def sparse(**changes: Any) -> PassInput:
    """48 sparse layers, whose experts eight ranks share."""
    return given(model=SPARSE, expert=8, fused_layers=True, **changes)


def symbols(term: Any) -> dict[str, float]:
    assert term is not None
    return dict(term.symbols)


# -- layers that are kept ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        ({}, 28),
        ({"recompute_layers": 3}, 10),  # 28 / 3 = 9.3
        ({"recompute_first_layers": 40}, 28),  # no more than there are
        ({"pipeline": 2, "stage": 0}, 15),  # 14 layers, and what was sent to the next stage
        ({"pipeline": 2, "stage": 1}, 14),  # the last sends nothing
        ({"pipeline": 2, "stage": 0, "frees_stage_outputs": True}, 14),
    ],
)
def test_full_recomputation_keeps_an_input_of_each_group_of_layers(
    changes: dict[str, Any], inputs: int
) -> None:
    assert terms.kept_per_token(given(**changes)) == inputs * INPUT


def test_a_stage_with_one_layer_of_a_kind_keeps_it() -> None:
    """Qwen3-30B-A3B with a dense first layer: an MLP of 3 x 2 x 6,144 B in place of router and copies."""
    assert SPARSE.moe is not None
    model = replace(SPARSE, moe=replace(SPARSE.moe, dense_layers=(0,)))
    with_dense, without = (
        terms.kept_per_token(given(model=some, fused_layers=True, checkpointing=Checkpointing.NONE))
        for some in (model, SPARSE)
    )
    assert with_dense - without == 36_864 - (736 + 69_664)


def test_layers_that_are_recomputed_are_balanced_whatever_the_router_does() -> None:
    none = Checkpointing.NONE
    assert terms.imbalance_per_token(sparse(checkpointing=none)) == 48 * UNBALANCED
    assert terms.imbalance_per_token(sparse(recompute_first_layers=10)) == 38 * UNBALANCED
    assert terms.imbalance_per_token(sparse()) == 0


# -- micro-batches in flight ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_tokens", "expected"),
    [
        (None, 11 * T),  # 2 x 3 + 4 + 1 pieces of micro-batches on the first of four stages of two pieces
        (20_000, 2 * 20_000),  # both pieces have seen all tokens of the step
        (30_000, 11 * T),
    ],
)
def test_no_more_tokens_are_in_flight_than_a_step_has(step_tokens: int | None, expected: int) -> None:
    first = replace(given(pipeline=4, virtual_pipeline=2, stage=0), micro_batches=100)
    assert terms.tokens_in_flight(replace(first, step_tokens=step_tokens)) == expected


def test_what_is_in_flight_may_be_unbalanced() -> None:
    """Three of three micro-batches of 5 tokens in two pieces of a stage of 12 layers, on four ranks."""
    one = sparse(pipeline=4, virtual_pipeline=2, stage=0, tensor=4, checkpointing=Checkpointing.NONE)
    one = replace(one, tokens=5, micro_batches=3)
    assert terms.tokens_in_flight(one) == 2 * 3 * 5
    saved = terms.saved_activations(one)
    assert saved.low == saved.bytes
    # 30 x 12 x 50,159 / (2 x 4) = 2,257,155
    assert saved.high - saved.bytes == 2_257_155
    others = terms.saved_activations(one, others_only=True)
    # 25 x 12 x 50,159 / 8 = 1,880,962.5
    assert others.high - others.bytes == 1_880_963
    assert symbols(others)["T_f"] == 25


# -- layers that are computed again --------------------------------------------------------------


def test_layers_that_are_computed_again_may_be_unbalanced() -> None:
    """2 x 5 tokens x 50,159 B / 4 ranks = 125,397.5 B."""
    term = terms.recomputed_layers(replace(sparse(tensor=4, recompute_layers=2), tokens=5), 0)
    assert term is not None
    assert (term.low, term.high) == (term.bytes, term.bytes + 125_398)


def test_experts_of_one_rank_are_not_unbalanced() -> None:
    term = terms.recomputed_layers(given(model=SPARSE, fused_layers=True), 0)
    assert term is not None
    assert term.low == term.bytes == term.high
    assert term.low_bytes is term.high_bytes is None  # no interval at all


def test_no_more_layers_are_computed_again_at_once_than_a_stage_has() -> None:
    assert symbols(terms.recomputed_layers(given(recompute_layers=4), 0))["n_r"] == 4
    assert symbols(terms.recomputed_layers(given(recompute_layers=4, pipeline=14), 0))["n_r"] == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpointing": Checkpointing.NONE},
        {"checkpointing": Checkpointing.SELECTIVE},
        {"recompute_first_layers": 0},
    ],
)
def test_nothing_is_computed_again_without_full_recomputation(changes: dict[str, Any]) -> None:
    assert terms.recomputed_layers(given(**changes), 0) is None


# -- single terms --------------------------------------------------------------------------------


@pytest.mark.parametrize(("fused", "freed"), [(True, 1), (False, 2)])
def test_a_layer_that_is_not_fused_has_freed_two_tensors_when_its_first_projection_comes(
    fused: bool, freed: int
) -> None:
    numbers = symbols(terms.layer_backward(given(fused_layers=fused), 0))
    assert numbers["u"] == freed
    assert numbers["a_i"] == INPUT


def test_the_layer_that_needs_the_most_decides_a_pass_without_gradients() -> None:
    """The sparse kind: streams 2 x 2 x 2,048 B, copies 8 x 2 x 2,048, and three of 8 x 768 entries.

    The dense one has three of 6,144 entries beside its streams, 45,056 B.
    """
    assert SPARSE.moe is not None
    mixed = replace(SPARSE, moe=replace(SPARSE.moe, dense_layers=(0,)))
    a_f = symbols(terms.layer_forward(given(model=mixed, fused_layers=True)))["a_f"]
    assert a_f == 8_192 + 32_768 + 3 * 2 * 6_144


def test_the_final_norm_keeps_its_input_and_output() -> None:
    assert terms.final_norm(given(tensor=2)).bytes == 2 * T * INPUT // 2


@pytest.mark.parametrize(
    ("model", "kinds"),
    [(workloads.QWEN25_7B, (27,)), (replace(SPARSE, moe=replace(SPARSE.moe, dense_layers=(0, 1))), (1, 47))],
)
def test_one_layer_of_each_kind_stands_for_its_stage(model: ModelShape, kinds: tuple[int, ...]) -> None:
    assert terms.layer_kinds(given(model=model)) == kinds
