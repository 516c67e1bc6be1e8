"""Experts that a pass records or replays: indices that travel with the batch, and those each router holds.

Symbols: :math:`T` tokens of the rank, :math:`C` ranks that share a sequence, :math:`e` experts per token,
:math:`T_p` tensor parallel size.
"""

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import SYMBOLS as ROUTE_SYMBOLS
from tuner.memory.batch.micro_batch import PassInput, Routes
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.stages import stage_layers
from tuner.memory.megatron.terms import covered_layers, stage_of, tokens_in_flight

SYMBOLS = {
    **ROUTE_SYMBOLS,
    "C": "ranks that share a sequence (context parallelism)",
    "n_x": "tokens times sparse layers whose experts are held",
}


def batch_route_bytes(*, T: int, C: int, M: int, e: int, b_x: int) -> int:
    """Experts of a micro-batch as it lies on the card, for all ranks that share its sequences.

    Where they are recorded it is what the ranks gather. Not counted: the map of the whole step that the
    stages of a pipeline gather once no activations are there.

    Source: verl 0.9.1 ``workers/engine/megatron/transformer_impl.py`` (``forward_step``),
    ``utils/megatron/router_replay_utils.py`` (``merge_router_topk_indices``, ``pp_gather``).
    """
    return T * C * M * e * b_x


def router_route_bytes(*, n_x: int, e: int, T_p: int) -> int:
    """Indices in int64 that the routers of a stage hold.

    A router that replays puts the experts of each micro-batch into a list, and takes them out where its
    layer is computed again. So they are those of the micro-batches in flight under full recomputation.
    Without it, and in a pass without gradients, they are those of all micro-batches, until the list is
    emptied at the end. A router that records holds its last micro-batch's.

    Source: verl 0.9.1 ``utils/megatron/router_replay_patch.py`` (``set_target_indices``,
    ``get_replay_topk``), ``workers/engine/megatron/transformer_impl.py`` (``forward_backward_batch``).
    """
    return ceil_div(8 * n_x * e, T_p)


def route_terms(micro_batch: PassInput, *, training: bool) -> tuple[Term, ...]:
    """What a pass holds of experts beside its activations; empty where it neither records nor replays."""
    routes, moe, parallel = micro_batch.routes, micro_batch.model.moe, micro_batch.engine.parallel
    if routes is None or moe is None:
        return ()
    numbers = {
        "T": micro_batch.tokens,
        "C": parallel.sequence_split if routes.replayed else 1,
        "M": routes.layers if routes.replayed else sum(_sparse_layers(micro_batch)),
        "e": moe.experts_per_token,
        "b_x": routes.index_bytes,
        "n_x": _held_rows(micro_batch, routes, training=training),
        "T_p": parallel.tensor,
    }
    return (
        stated(Item.ACTIVATIONS, "batch_routes", batch_route_bytes, numbers, evidence=Evidence.MODELLED),
        stated(Item.ACTIVATIONS, "router_routes", router_route_bytes, numbers, evidence=Evidence.MODELLED),
    )


def routes_at_step(micro_batch: PassInput) -> tuple[Term, ...]:
    """What of them is still there while the optimizer steps."""
    routes = micro_batch.routes
    return route_terms(micro_batch, training=True)[1:] if routes and routes.kept_through_step else ()


def _held_rows(micro_batch: PassInput, routes: Routes, *, training: bool) -> int:
    """Tokens times sparse layers of the stage whose experts its routers hold at once."""
    recomputed, computed_once = _sparse_layers(micro_batch)
    if not routes.replayed:
        return micro_batch.tokens * (recomputed + computed_once)
    if not training:
        return routes.pass_tokens * (recomputed + computed_once)
    pieces = micro_batch.engine.parallel.virtual_pipeline
    return ceil_div(tokens_in_flight(micro_batch) * recomputed, pieces) + routes.pass_tokens * computed_once


def _sparse_layers(micro_batch: PassInput) -> tuple[int, int]:
    """Sparse layers of the stage that are recomputed in full, and the others."""
    model, engine = micro_batch.model, micro_batch.engine
    layers = stage_layers(model, engine.parallel, stage_of(engine))
    covered = covered_layers(engine, len(layers))
    sparse = [model.is_sparse(layer) for layer in layers]
    return sum(sparse[:covered]), sum(sparse[covered:])
