"""Tensors that a rollout engine allocates in one piece: of its KV cache, its weights and its trial run."""

from collections.abc import Iterable
from math import ceil

from tuner.language import _
from tuner.memory.failed_allocation.tensor import Factor, Tensor
from tuner.memory.ledger.terms import Item
from tuner.memory.rollout.capacity import rollout_memory
from tuner.memory.rollout.kv_cache import kv_bytes_per_token_and_layer
from tuner.memory.rollout.profile_run import step_width
from tuner.workload import Phase, RolloutEngine, Workload


def engine_tensors(workload: Workload) -> Iterable[Tensor]:
    """What the engine asks for while it starts, wakes up or generates."""
    if workload.rollout is None:
        return
    rollout, model = workload.rollout, workload.model
    hidden: Factor = (model.hidden, _("hidden entries"))
    weight, compute = rollout.weight_dtype.bytes, workload.actor.engine.compute_dtype.bytes
    # SGLang has a tensor of keys and one of values, vLLM one of both.
    pieces = 2 if rollout.engine is RolloutEngine.SGLANG and model.latent is None else 1
    cached = kv_bytes_per_token_and_layer(model, rollout) // pieces
    label = _("keys or values of one layer") if pieces == 2 else _("keys and values of one layer")
    yield Tensor(
        name="kv_cache_layer",
        kinds=(label,),
        made_by=_("the rollout engine's KV cache"),
        item=Item.KV_CACHE,
        factors=((cached, _("bytes of a token in one layer")),),
        dtype_bytes=1,
        tokens=rollout_memory(workload).kv_tokens // rollout.data_parallel,
        phases=(Phase.ROLLOUT, Phase.WAKE_UP),
    )
    sizes: tuple[tuple[str, str, int], ...] = (
        ("engine_embedding", _("the engine's embedding or output projection"), model.vocab),
        ("engine_gate_up", _("gate and up projection of one layer in the engine"), 2 * model.intermediate),
    )
    for name, label, rows in sizes:
        yield Tensor(
            name=name,
            kinds=(label,),
            made_by=_("the rollout engine, which loads its weights"),
            item=Item.ENGINE,
            factors=((ceil(rows / rollout.tensor_parallel), _("rows of this GPU")), hidden),
            dtype_bytes=weight,
            phases=(Phase.UPDATE_WEIGHTS, Phase.ROLLOUT),
        )
    width: Factor = (2 * ceil(step_width(model) / rollout.tensor_parallel), _("gate and up entries"))
    yield Tensor(
        name="engine_step",
        kinds=(_("gate and up of all tokens of one step of the engine"),),
        made_by=_("the rollout engine's trial run, or a step that is as full"),
        item=Item.ENGINE,
        factors=(width,),
        dtype_bytes=compute,
        tokens=rollout.step_tokens,
        phases=(Phase.ROLLOUT,),
    )
