"""Formulas of single sizes with small numbers, worked out beside each of them.

The numbers are odd and unlike one another, so that every factor, every rounding and every side of a maximum
shows: a unit of 1,001 parameters on four ranks is 251 of each of them, 250 where it is rounded down.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN25_7B, fsdp_engine
from tuner.dtypes import DType
from tuner.memory.fsdp import (
    gathered_weights,
    gradients,
    kept_inputs,
    one_unit,
    states,
    weights_left_gathered,
)
from tuner.memory.fsdp.fsdp1 import sizes as fsdp1
from tuner.memory.fsdp.fsdp2 import sizes as fsdp2
from tuner.memory.megatron import mtp
from tuner.memory.megatron import terms as megatron
from tuner.memory.rollout import graphs, log_probs, profile_run, weights
from tuner.workload import Backend

Case = tuple[Callable[..., int], dict[str, int], int]

# 1,001 parameters of a unit, 300 of the one before it, two bytes to compute with and four to reduce in.
FSDP2: list[Case] = [
    (fsdp2.gather_bytes, {"b_c": 2, "c": 2, "U_l": 1001, "U_a": 300}, 2 * (2002 + 300)),
    (fsdp2.gather_bytes, {"b_c": 2, "c": 1, "U_l": 1001, "U_a": 300}, 2 * 1001),  # one GPU has no buffer
    (fsdp2.gather_buffers_bytes, {"b_c": 2, "c": 2, "U_l": 1001, "U_a": 300}, 2 * 1301),
    (fsdp2.gather_buffers_bytes, {"b_c": 2, "c": 1, "U_l": 1001, "U_a": 300}, 0),
    (fsdp2.cast_shard_bytes, {"b_c": 2, "U_e": 1001, "W": 4}, 2 * 251),
    (fsdp2.cast_unit_bytes, {"b_c": 2, "U_e": 1001, "U_v": 800}, 2 * 1801),
    (fsdp2.working_bytes, {"b_c": 2, "c": 2, "p": 1, "U_l": 1001}, 2 * 3003),
    (fsdp2.working_bytes, {"b_c": 2, "c": 1, "p": 0, "U_l": 1001}, 2 * 1001),
    (fsdp2.buffer_bytes, {"b_c": 2, "c": 2, "U_l": 1001}, 2 * 1001),
    (fsdp2.buffer_bytes, {"b_c": 2, "c": 1, "U_l": 1001}, 0),
    (fsdp2.head_gather_bytes, {"b_c": 2, "c": 2, "U_r": 1001}, 2 * 2002),
    (fsdp2.head_gather_bytes, {"b_c": 4, "c": 1, "U_r": 1001}, 4 * 1001),
    (fsdp2.embedding_unit_bytes, {"b_c": 2, "U_e": 1001}, 2 * 1001),
    (fsdp2.read_gradient_bytes, {"b_r": 4, "U_a": 300}, 4 * 300),
    # The copy of 4,004 B, and the larger of the gradient, 2,002 B, and the share of four ranks, 1,004 B;
    (fsdp2.root_reduction_bytes, {"b_r": 4, "b_c": 2, "U": 1001, "W": 4}, 4004 + 2002),
    # of two ranks it is 4 x 501 = 2,004 B.
    (fsdp2.root_reduction_bytes, {"b_r": 4, "b_c": 2, "U": 1001, "W": 2}, 4004 + 2004),
    (fsdp2.matrix_reduction_bytes, {"b_r": 4, "b_c": 2, "U": 1001, "W": 4}, 6 * 1001 + 4 * 251),
    # 10,001 trained parameters are 2,501 a rank, of which 251 are still to come.
    (fsdp2.all_reduced_bytes, {"b_r": 4, "N_t": 10_001, "U_k": 1001, "W": 4}, 4 * (2501 - 251)),
]

FSDP1: list[Case] = [
    (fsdp1.root_gather_bytes, {"b_c": 2, "U_r": 1001, "U_c": 251}, 2 * 1252),
    (fsdp1.first_units_bytes, {"b_c": 2, "U_1": 1001, "U_l": 300}, 2 * 1301),
    (fsdp1.layer_units_bytes, {"b_c": 2, "p": 0, "U_l": 1001}, 2 * 1001),
    (fsdp1.layer_units_bytes, {"b_c": 2, "p": 1, "U_l": 1001}, 2 * 2 * 1001),
    # Joined: 3 x 2 x 1,001 = 6,006 B. Reduced: as joined and its cast, 6 x 1,001, and the share, 4 x 251 B;
    (fsdp1.sharded_reduction_bytes, {"b_c": 2, "b_g": 4, "b_r": 4, "b_t": 0, "U": 1001, "W": 4}, 6006 + 1004),
    # with the share's own cast 6 x 251 B.
    (fsdp1.sharded_reduction_bytes, {"b_c": 2, "b_g": 4, "b_r": 4, "b_t": 2, "U": 1001, "W": 4}, 6006 + 1506),
    # Without casts: 2 x 1,001 + 2 x 251 = 2,504 B, less than what is joined.
    (fsdp1.sharded_reduction_bytes, {"b_c": 2, "b_g": 0, "b_r": 2, "b_t": 0, "U": 1001, "W": 4}, 6006),
    (fsdp1.unsharded_reduction_bytes, {"n_j": 3, "b_c": 2, "b_g": 0, "b_t": 0, "U": 1001}, 3 * 2 * 1001),
    (fsdp1.unsharded_reduction_bytes, {"n_j": 2, "b_c": 2, "b_g": 4, "b_t": 3, "U": 1001}, 9 * 1001),
]

FSDP: list[Case] = [
    (gathered_weights.whole_model_bytes, {"b_c": 2, "N": 10_001}, 20_002),
    (gathered_weights.kept_units_bytes, {"b_c": 2, "U_w": 1001}, 2002),
    (gathered_weights.head_unit_bytes, {"b_c": 2, "U_r": 1001}, 2002),
    (gathered_weights.layer_unit_bytes, {"b_c": 2, "U_l": 1001}, 2002),
    (gathered_weights.prefetched_unit_bytes, {"b_c": 2, "U_b": 1001}, 2002),
    (gradients.head_gradient_bytes, {"b_c": 2, "V": 101, "H": 7}, 1414),
    (gradients.layer_gradient_bytes, {"b_c": 2, "U_g": 1001}, 2002),
    (gradients.embedding_gradient_bytes, {"n_g": 3, "b_c": 2, "U_v": 700}, 4200),
    (gradients.reduced_gradient_bytes, {"b_s": 4, "N_t": 10_001, "U_k": 1001, "W": 4}, 4 * (2501 - 251)),
    (gradients.deferred_gradient_bytes, {"b_a": 4, "U_k": 1001}, 4004),
    (kept_inputs.kept_input_bytes, {"b_c": 2, "T_p": 5, "H": 7}, 2 * 2 * 35),
    (weights_left_gathered.left_root_bytes, {"b_c": 2, "U_r": 1001}, 2002),
    (weights_left_gathered.left_model_bytes, {"b_c": 2, "N": 10_001}, 20_002),
    (weights_left_gathered.left_layers_bytes, {"b_c": 2, "N": 10_001, "U_r": 1001}, 2 * 9000),
    (one_unit.one_unit_bytes, {"g": 1, "b_u": 10, "N": 1001}, 10_010),
    (one_unit.one_unit_bytes, {"g": 0, "b_u": 10, "N": 1001}, 0),
    (states.shard_bytes, {"b_s": 4, "N": 1001, "W": 4}, 4 * 251),
    (states.gradient_shard_bytes, {"b_s": 4, "N_t": 1001, "W": 4}, 4 * 251),
    (states.moments_bytes, {"b_o": 4, "N_t": 1001, "W": 4}, 2 * 4 * 251),
    (states.square_root_bytes, {"b_o": 4, "N_t": 1001, "W": 4}, 4 * 251),
]

# Five tokens on three ranks of tensor parallelism. The residual stream is 5 x 7 = 35 B before them, what the
# second projection reads 5 x 11 = 55 B.
LAYER = {"T": 5, "T_p": 3, "a_i": 7, "a_p": 11, "u": 1}
MEGATRON: list[Case] = [
    (megatron.saved_activation_bytes, {"T_f": 7, "a_k": 11, "v_p": 2, "T_p": 3}, 13),  # 77 / 6 = 12.8
    (megatron.recomputed_layer_bytes, {"n_r": 2, "T": 5, "a_m": 7, "T_p": 3}, 24),  # 70 / 3 = 23.3
    # The activation, 2 x 55 = 110 B, exceeds 55 + 15 + 12 = 82 B and 65 + 15 - 55 = 25 B: 145 / 3 = 48.3;
    (megatron.layer_backward_bytes, {**LAYER, "g_1": 13, "g_2": 3, "w_1": 5, "w_2": 4}, 49),
    # the second projection is 55 + 85 + 57 = 197 B: 232 / 3 = 77.3;
    (megatron.layer_backward_bytes, {**LAYER, "g_1": 13, "g_2": 17, "w_1": 5, "w_2": 19}, 78),
    # the first is 200 + 150 - 55 = 295 B: 330 / 3 = 110; and 240 B with 2 x 55 B freed: 275 / 3 = 91.7.
    (megatron.layer_backward_bytes, {**LAYER, "g_1": 40, "g_2": 17, "w_1": 50, "w_2": 19}, 110),
    (megatron.layer_backward_bytes, {**LAYER, "u": 2, "g_1": 40, "g_2": 17, "w_1": 50, "w_2": 19}, 92),
    (megatron.layer_forward_bytes, {"T": 5, "a_f": 7, "T_p": 3}, 12),  # 35 / 3 = 11.7
    (megatron.final_norm_bytes, {"T": 5, "b_c": 2, "H": 7, "T_p": 3}, 47),  # 140 / 3 = 46.7
    (megatron.batch_bytes, {"T": 5, "a_b": 7}, 35),
]

STATES = {"b_c": 2, "b_r": 4, "b_s": 12, "N_d": 1001, "N_e": 502, "R_d": 4, "R_e": 3}
MODULE = {"T_f": 7, "v_p": 2, "T": 5, "a_k": 11, "b_c": 2, "H": 3, "V": 10, "T_p": 7}
FURTHER_TOKEN: list[Case] = [
    (mtp.module_state_bytes, {"g": 1, **STATES}, 6 * 1503 + 12 * (251 + 168)),
    (mtp.module_state_bytes, {"g": 0, **STATES}, 0),
    # 7 x (11 + 48) / 14 = 29.5; two hidden states of 30 B; 12 x 50 / 7 = 85.7.
    (mtp.module_activation_bytes, {"g": 1, **MODULE}, 30 + 60 + 86),
    (mtp.module_activation_bytes, {"g": 0, **MODULE}, 0),
]

# Five tokens of width 7 are 70 B; an MLP of 11 is 4 wide on one of three ranks, 2 x 5 x (3 x 4 + 3 x 7) =
# 330 B.
STEP = {"b": 2, "t": 5, "H": 7, "I": 11, "T_p": 3, "b_V": 28, "s": 2, "V": 13}
GRAPHS = {"g": 100, "m_0": 7, "n_w": 2, "L": 5, "g_w": 11, "n_p": 3, "g_p": 13}
ROLLOUT: list[Case] = [
    (profile_run.step_bytes, STEP, 70 + 28 * 2 * 13),  # 728 B of logits
    (profile_run.step_bytes, {**STEP, "s": 1, "V": 5}, 70 + 330),  # 140 B of logits
    # A third of 301 entries is 101, input and output are 10 tokens: 2 x 7 x 111 B; of 13 entries 2 x 7 x 15.
    (profile_run.compiling_step_bytes, {**STEP, "b_V": 1, "s": 1, "V": 301}, 1554),
    (profile_run.compiling_step_bytes, {**STEP, "b_V": 1, "s": 1}, 400),
    # 25 tokens of four mergers are 4 x 2 x 25 x 7 = 1,400 B, kept beside a step of 400 B; or 100 patches.
    (
        profile_run.seeing_step_bytes,
        {**STEP, "s": 1, "V": 5, "P_e": 10, "a_e": 50, "T_e": 25, "n_v": 4},
        1400 + 400,
    ),
    (
        profile_run.seeing_step_bytes,
        {**STEP, "s": 1, "V": 5, "P_e": 100, "a_e": 50, "T_e": 25, "n_v": 4},
        5000,
    ),
    # A pool of 100 B for 7 sequences, 3 / 7 of it for three: 42.9; 2 x 5 layers, and 3 x 6 pieces.
    (graphs.graph_bytes, {**GRAPHS, "m": 3}, 43 + 110 + 234),
    (graphs.graph_bytes, {**GRAPHS, "m": 9}, 100 + 110 + 234),
    (log_probs.row_bytes, {"g": 1, "s": 5, "V": 13}, 260),
    (log_probs.row_bytes, {"g": 0, "s": 5, "V": 13}, 0),
    (weights.dense_weight_bytes, {"b": 2, "N": 101, "T_p": 3, "P_p": 2}, 34),  # 202 / 6 = 33.7
    # 30 of 101 are of experts, on five ranks: 2 x (71 / 3 + 30 / 5) / 2 = 29.7.
    (weights.sparse_weight_bytes, {"b": 2, "N": 101, "N_E": 30, "T_p": 3, "G_E": 5, "P_p": 2}, 30),
    # 20 of 101 keep two bytes: (81 + 40) / 6 = 20.2.
    (weights.quantized_dense_bytes, {"b": 1, "N": 101, "b_u": 2, "N_u": 20, "T_p": 3, "P_p": 2}, 21),
    # ((51 + 40) / 3 + 30 / 5) / 2 = 18.2.
    (
        weights.quantized_sparse_bytes,
        {"b": 1, "N": 101, "N_E": 30, "b_u": 2, "N_u": 20, "T_p": 3, "G_E": 5, "P_p": 2},
        19,
    ),
    # The same in products of three bytes: ((153 + 40) / 3 + 90 / 5) / 2 = 41.2.
    (
        weights.quantized_sparse_bytes,
        {"b": 3, "N": 101, "N_E": 30, "b_u": 2, "N_u": 20, "T_p": 3, "G_E": 5, "P_p": 2},
        42,
    ),
]


def named(case: object) -> str:
    return getattr(case, "__name__", "")


@pytest.mark.parametrize(
    ("size", "symbols", "expected"), [*FSDP, *FSDP1, *FSDP2, *MEGATRON, *FURTHER_TOKEN, *ROLLOUT], ids=named
)
def test_a_size_is_what_its_formula_comes_to(
    size: Callable[..., int], symbols: dict[str, int], expected: int
) -> None:
    assert size(**symbols) == expected


@pytest.mark.parametrize(("ranks", "copies"), [(1, 1), (2, 2), (8, 2)])
def test_a_single_gpu_gathers_nothing(ranks: int, copies: int) -> None:
    assert fsdp2.gather_copies(fsdp_engine(gpus=ranks)) == copies


FSDP1_CASTS = [
    # GPUs, changes, adds up: root cast, tensors joined, gradient's cast, its share's cast
    (8, {}, False, 136_249_792, 3, 4, 0),  # embedding, head and norm: 1,089,998,336 over eight ranks
    (8, {}, True, 136_249_792, 3, 4, 0),
    (1, {}, False, 0, 3, 4, 0),
    (1, {}, True, 0, 3, 0, 0),  # added to what the optimizer will read
    (8, {"stored_dtype": DType.BFLOAT16}, False, 0, 3, 4, 2),
    (1, {"stored_dtype": DType.BFLOAT16}, True, 0, 2, 4, 2),  # works with the stored weights themselves
    (8, {"reduce_dtype": DType.BFLOAT16}, False, 136_249_792, 3, 0, 4),
]


@pytest.mark.parametrize(("gpus", "changes", "accumulates", "root", "joined", "cast", "share"), FSDP1_CASTS)
def test_what_fsdp1_casts(
    gpus: int, changes: dict[str, Any], accumulates: bool, root: int, joined: int, cast: int, share: int
) -> None:
    engine = replace(fsdp_engine(gpus=gpus, backend=Backend.FSDP), **changes)
    assert fsdp1.cast_parameters(QWEN25_7B, engine) == root
    assert fsdp1.joined_tensors(engine) == joined
    assert fsdp1.cast_gradient_bytes(engine, accumulates=accumulates) == cast
    assert fsdp1.cast_share_bytes(engine) == share
