"""What FSDP gathers and reduces at once: one unit per decoder layer, and what is left in the root.

One GPU has nothing to gather: it casts a unit's weights, which takes as much, and FSDP1 allocates
nothing for weights that are stored in the compute dtype.
"""

from functools import lru_cache
from math import ceil

from msgspec.structs import replace

from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


@lru_cache(maxsize=64)
def gathered_model(model: ModelShape, engine: Engine) -> ModelShape:
    """The model as one rank gathers it: with its own share of the experts, where they are dealt out.

    What is stored is not less by it: the ranks that have the same experts shard them.

    Source: VeOmni 0.1.12 ``distributed/torch_parallelize.py`` (``parallelize_model_fsdp2``).
    """
    if engine.parallel.expert == 1 or model.moe is None or engine.backend is Backend.MEGATRON:
        return model
    own = ceil(model.moe.experts / engine.parallel.expert)
    routers = model.moe.router_bias + model.hidden * (model.moe.experts - own)  # which know all experts
    return replace(model, moe=replace(model.moe, experts=own, router_bias=routers))


def prefetched_layers(engine: Engine) -> int:
    r"""Layers gathered ahead in a forward pass: :math:`p` is 1 with forward prefetch, else 0.

    Source: torch ``FullyShardedDataParallel(forward_prefetch=True)``; verl 0.9.1
    ``utils/fsdp_utils.py`` (``set_modules_to_forward_prefetch`` under FSDP2).
    """
    return 1 if engine.forward_prefetch and engine.prefetch_effective else 0


def is_unsharded(engine: Engine) -> bool:
    """Whether FSDP1 works without shards: torch takes ``NO_SHARD`` for a group of one GPU.

    A unit's copy in the compute dtype is then made when the unit runs and freed after it, that of the root
    as well, whatever ``reshard_after_forward`` says.

    Source: torch ``_init_utils.py`` (``_init_core_state``), ``_flat_param.py`` (``pre_unshard``,
    ``_use_low_precision_shard``, ``post_reshard``).
    """
    return engine.backend is Backend.FSDP and engine.parallel.shard == 1


def has_held_weights(engine: Engine) -> bool:
    """Whether the modules hold the stored weights themselves, so that nothing takes these off the card.

    Without shards and without a cast, the weights that a module works with are views of the stored ones.
    FSDP moves the flat parameter to the host, verl's offload as well; the views stay, and with them the
    memory on the card, until the next forward pass makes new ones. With ``use_orig_params``, which verl
    leaves off, they would be made at once.

    Source: torch ``_flat_param.py`` (``_use_unsharded_views``, ``_use_sharded_flat_param``,
    ``flat_param_to``); verl ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``).
    """
    return is_unsharded(engine) and engine.stored_dtype is engine.compute_dtype


def works_in_place(engine: Engine) -> bool:
    """Whether units work with the stored weights themselves, so that nothing is gathered or cast.

    Under a CPU offload policy each unit is fetched from the host instead.

    Source: torch ``_flat_param.py`` (``pre_unshard``, ``needs_unshard``).
    """
    return has_held_weights(engine) and not engine.streamed_offload


def keeps_layers(engine: Engine) -> bool:
    """Whether a forward pass leaves its layers whole: nothing is resharded, or fetched weights are held."""
    if is_unsharded(engine):
        return has_held_weights(engine) and engine.streamed_offload
    return not engine.reshard_after_forward


def wraps_embedding(model: ModelShape, engine: Engine) -> bool:
    """Whether the embedding is a unit of its own: under FSDP2, where nothing shares it, not under VeOmni.

    Source: verl ``utils/fsdp_utils.py`` (``apply_fsdp2``); VeOmni 0.1.12
    ``distributed/torch_parallelize.py`` (``_no_split_modules``).
    """
    return engine.backend is Backend.FSDP2 and not (model.tied_embeddings or engine.whole_root)


def wraps_head(model: ModelShape, engine: Engine) -> bool:
    """Whether the output projection is a unit of its own; never a value head.

    Source: verl 0.7.1 ``utils/fsdp_utils.py`` (``_select_fsdp2_wrap_targets``, by the name ``lm_head``).
    """
    return wraps_embedding(model, engine) and engine.separate_embedding_units and not model.value_head


def root_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters that FSDP leaves in the root unit: the final norm, and what is no unit of its own."""
    embedding = 0 if wraps_embedding(model, engine) else model.embedding_parameters
    head = 0 if wraps_head(model, engine) else model.head_parameters
    return embedding + head + model.final_norm_parameters + tower_root_parameters(model)


def tower_block_parameters(model: ModelShape) -> int:
    """Parameters of a vision tower's blocks, each of which is a unit; 0 where its dimensions are not known.

    Source: transformers ``_no_split_modules`` of ``Qwen2_5_VLPreTrainedModel``, ``Gemma3PreTrainedModel``.
    """
    return 0 if model.tower is None else model.tower.blocks * model.tower.block_unit


def tower_root_parameters(model: ModelShape) -> int:
    """What a vision tower leaves in the root unit: its mergers, and what makes a vector of a patch.

    Gemma's ``SiglipVisionEmbeddings``, and learned positions beside an untied embedding, are units of their
    own; they are counted here all the same.
    """
    return 0 if model.tower is None else model.extra_parameters - tower_block_parameters(model)


def head_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit that is whole while the output projection runs: the root, or the projection alone."""
    return model.head_parameters if wraps_head(model, engine) else root_parameters(model, engine)


def first_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit of the embedding, gathered first: the root, or the embedding alone."""
    if wraps_embedding(model, engine):
        return model.embedding_parameters
    return root_parameters(model, engine)
