"""Weights that FSDP gathered for a forward-only pass, and that stay whole after it."""

from tuner.memory.fsdp.units import has_held_weights, is_unsharded, root_parameters
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def left_root_bytes(*, b_c: int, U_r: int) -> int:
    """Gathered weights that stay on the card after a forward-only pass: FSDP1's root unit.

    FSDP frees a unit after its forward pass if ``reshard_after_forward`` is on. FSDP1 keeps the root all
    the same, for a backward pass that is expected to follow, and so did FSDP2 before torch 2.8; after
    log-probabilities none follows. Some releases of verl then reshard the root, and only the root. The
    weights stay until a backward pass frees them, so the actor's until its update, and those of a
    reference for good. Offloading the parameters frees them under FSDP2, whose ``Module.to`` reshards
    first, but not under FSDP1, which moves only its shards.

    Source: torch ``fsdp/_runtime_utils.py`` (``_post_forward_reshard``), ``fsdp/_fully_shard/_fsdp_state.py``
    (``_lazy_init``), ``_fully_shard.py`` (``FSDPModule._apply``); verl 0.9.1
    ``workers/engine/fsdp/transformer_impl.py`` (``EngineEvalModeCtx``), verl 0.7.1
    ``workers/fsdp_workers.py`` (``compute_log_prob``).
    """
    return b_c * U_r


def left_model_bytes(*, b_c: int, N: int) -> int:
    """Gathered weights that stay on the card after a forward-only pass where nothing is resharded: all.

    A single GPU under FSDP1 leaves nothing, but for these of an engine whose weights are fetched from the
    host and not cast: its modules hold what was fetched (:func:`tuner.memory.fsdp.units.has_held_weights`),
    from the engine's construction on.

    Source: torch ``fsdp/_runtime_utils.py`` (``_post_forward_reshard``).
    """
    return b_c * N


def left_layers_bytes(*, b_c: int, N: int, U_r: int) -> int:
    """Gathered weights that stay after a forward-only pass where the root alone is resharded: all the others.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``EngineEvalModeCtx``).
    """
    return b_c * (N - U_r)


def left_gathered_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters of the units that stay whole after a forward-only pass."""
    if engine.backend is Backend.MEGATRON:
        return 0
    first = engine.backend is Backend.FSDP
    if is_unsharded(engine):
        return model.parameters if has_held_weights(engine) and engine.streamed_offload else 0
    if not first and engine.param_offload:
        return 0
    root = root_parameters(model, engine)
    layers = 0 if engine.reshard_after_forward else model.parameters - root
    root_stays = first or engine.keeps_root or not engine.reshard_after_forward
    return layers + (root if root_stays and not engine.frees_root else 0)


def left_gathered(model: ModelShape, engine: Engine, role: str = "actor") -> Term | None:
    """What a forward-only pass of an engine leaves gathered; None where that is nothing."""
    count = left_gathered_parameters(model, engine)
    if not count:
        return None
    numbers = {
        "b_c": engine.compute_dtype.bytes,
        "N": model.parameters,
        "U_r": root_parameters(model, engine),
    }
    size: Size = left_layers_bytes
    if count == numbers["U_r"]:
        size = left_root_bytes
    elif count == numbers["N"]:
        size = left_model_bytes
    return stated(Item.UNSHARDED, f"{role}_gathered", size, numbers)
