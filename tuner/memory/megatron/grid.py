"""What one rank of a Megatron grid holds: its parameters and its share of the optimizer.

Symbols: :math:`T_p` tensor, :math:`P` pipeline, :math:`C` context, :math:`E` expert and
:math:`T_e` expert-tensor parallel size, :math:`V` vocabulary, :math:`H` hidden, :math:`L` layers.
The vocabulary is not padded: verl builds its models with the size that the configuration of the
model names, and Megatron asks that :math:`T_p` divides it.
"""

from functools import lru_cache
from math import ceil

from msgspec import Struct

from tuner.memory.megatron.stages import stage_layers
from tuner.model_shape import ModelShape, QueryKeyNorm
from tuner.workload import Engine


class LocalParameters(Struct, frozen=True, kw_only=True):
    """Parameters of one rank; experts are divided by other groups than the rest."""

    dense: int
    expert: int

    @property
    def total(self) -> int:
        """All parameters of the rank."""
        return self.dense + self.expert


def replicated_layer_parameters(model: ModelShape, layer: int) -> int:
    """Parameters of one layer that every tensor-parallel rank holds whole.

    Norms, with those of queries and keys; the router, and the gate of the shared expert; biases of
    row-parallel projections; under latent attention both down-projections and their norms, which
    Megatron-Core duplicates since 0.13 (0.12 divides the projections), and what chooses its keys.

    Source: Megatron-Core ``models/gpt/gpt_layer_specs.py``, ``transformer/moe/router.py``,
    ``transformer/multi_latent_attention.py``, ``transformer/experimental_attention_variant/dsa.py``
    (``parallel_mode = 'duplicated'``).
    """
    norms = model.norms_per_layer * model.norm_parameters
    return norms + _replicated_attention(model, layer) + _replicated_mlp(model, layer)


def _replicated_attention(model: ModelShape, layer: int) -> int:
    linear = model.linear
    if linear is not None and model.is_linear(layer):
        return linear.value_head_dim  # the norm before the output
    if not model.has_mixer(layer):
        return 0
    output_bias = model.hidden if model.output_bias else 0
    latent = model.latent
    if latent is not None:
        compressed = latent.kv_lora_rank + latent.qk_rope_head_dim
        queries = (model.hidden + 1) * (latent.q_lora_rank or 0)
        biases = compressed + (latent.q_lora_rank or 0) if model.qkv_bias else 0
        norms_and_downs = queries + model.hidden * compressed + latent.kv_lora_rank
        return norms_and_downs + biases + output_bias + model.indexer_parameters(layer)
    norms = {
        QueryKeyNorm.NONE: 0,
        QueryKeyNorm.PER_HEAD: 2 * model.head_dim,
        QueryKeyNorm.FULL: (model.heads + model.kv_heads) * model.head_dim,
    }[model.qk_norm]
    return norms + output_bias


def _replicated_mlp(model: ModelShape, layer: int) -> int:
    moe = model.moe
    if moe is None or not model.is_sparse(layer):
        return model.hidden if model.mlp_bias and model.has_mlp(layer) else 0
    gate = model.hidden if moe.shared_gate and moe.shared_intermediate else 0
    return model.router_parameters + gate + 2 * model.hidden * moe.latent_width


class StageParameters(Struct, frozen=True, kw_only=True):
    """Parameters of one pipeline stage over all its ranks, by what divides them."""

    tensor: int  # by tensor parallelism
    replicated: int  # by nothing
    expert: int  # by expert and expert-tensor parallelism


@lru_cache(maxsize=1024)  # walks the layers, and is asked for by several terms of each estimate
def stage_parameters(model: ModelShape, engine: Engine, stage: int) -> StageParameters:
    """Layers of a stage; the embedding on the first, the final norm and the head on the last.

    Tied embeddings on more than one stage are two matrices, kept equal by an all-reduce of their
    gradients. A vision tower is counted whole on the first stage. A critic's head of one column, which
    shares nothing with the embedding, is divided here like a vocabulary's.

    Source: Megatron-Core ``models/gpt/gpt_model.py``,
    ``models/common/language_module/language_module.py`` (``setup_embeddings_and_output_layer``).
    """
    parallel = engine.parallel
    layers = stage_layers(model, parallel, stage)
    expert = sum(model.expert_parameters for layer in layers if model.is_sparse(layer))
    replicated = sum(replicated_layer_parameters(model, layer) for layer in layers)
    tensor = sum(model.layer_parameters(layer) for layer in layers) - expert - replicated
    if stage == 0:
        tensor += model.embedding_parameters
        replicated += model.position_parameters + model.extra_parameters
    if stage == parallel.pipeline - 1:
        replicated += model.final_norm_parameters
        tensor += model.head_parameters
        if model.shares_embedding and parallel.pipeline > 1:
            tensor += model.embedding_parameters
    return StageParameters(tensor=tensor, replicated=replicated, expert=expert)


@lru_cache(maxsize=1024)
def local_parameters(model: ModelShape, engine: Engine) -> LocalParameters:
    r"""Parameters of one rank of a stage; of the fullest stage where none is asked about.

    .. math:: \frac{N_s - N_r - N_e}{T_p} + N_r \quad\text{and}\quad \frac{N_e}{E \, T_e}

    :math:`N_s` are the parameters of the stage, :math:`N_r` those that tensor parallelism does not
    divide, :math:`N_e` its routed experts. Biases of experts are counted as divided.

    Source: Megatron-Core ``tensor_parallel/layers.py``, ``transformer/moe/experts.py``.
    """
    if engine.parallel.stage is not None:
        return rank_parameters(model, engine, engine.parallel.stage)
    stages = range(engine.parallel.pipeline)
    return max((rank_parameters(model, engine, stage) for stage in stages), key=lambda part: part.total)


def rank_parameters(model: ModelShape, engine: Engine, stage: int) -> LocalParameters:
    """Parameters of one rank of one stage, see :func:`~tuner.memory.megatron.grid.local_parameters`."""
    parallel = engine.parallel
    part = stage_parameters(model, engine, stage)
    return LocalParameters(
        dense=ceil(part.tensor / parallel.tensor) + part.replicated,
        expert=ceil(part.expert / (parallel.expert * parallel.expert_tensor)),
    )


def optimizer_ranks(engine: Engine) -> tuple[int, int]:
    r"""Ranks that share the optimizer states of dense parameters, and of experts.

    .. math:: \frac{W}{T_p P} \quad\text{and}\quad \frac{W}{E \, T_e P}

    Dense parameters are divided over data and context parallelism together, experts over the ranks
    that hold the same experts. Without the distributed optimizer nothing is divided.

    Source: Megatron-Core ``distributed/distributed_data_parallel.py`` (``intra_dp_cp_group``,
    ``intra_expt_dp_group``).
    """
    parallel = engine.parallel
    if not engine.distributed_optimizer:
        return 1, 1
    return (
        max(1, parallel.gpus // (parallel.tensor * parallel.pipeline)),
        max(1, parallel.gpus // (parallel.expert * parallel.expert_tensor * parallel.pipeline)),
    )


def optimizer_share(model: ModelShape, engine: Engine) -> int:
    r"""Parameters whose optimizer states one rank holds.

    .. math:: \lceil N_d / R_d \rceil + \lceil N_e / R_e \rceil

    The padding of each parameter to 64 and of each buffer to a multiple of the ranks and 128
    elements is not counted: below a thousandth of any model of a billion parameters.

    Source: Megatron-Core ``distributed/param_and_grad_buffer.py``, ``optimizer/distrib_optimizer.py``.
    """
    local = local_parameters(model, engine)
    dense, expert = optimizer_ranks(engine)
    return ceil(local.dense / dense) + ceil(local.expert / expert)
