"""Where the documentation derives the sizes of the memory model."""

from tuner.memory.ledger.stated_terms import rooms_of

#: The page of a module's formulas, or of all modules of a package that have none of their own.
PAGES = {
    "memory.batch.fields": "model/activations",
    "memory.fsdp": "model/fsdp-units",
    "memory.fsdp.row_masks": "model/activations",
    "memory.fsdp.weights_left_gathered": "model/model-states",
    "memory.fsdp.states": "model/model-states",
    "memory.head": "model/output-head",
    "memory.host": "model/host",
    "memory.host.images": "model/images",
    "memory.layer": "model/activations",
    "memory.layer.traced_layer": "model/trace",
    "memory.megatron": "model/megatron",
    "memory.megatron.states": "model/model-states",
    "memory.process": "model/overhead",
    "memory.process.freed_blocks": "model/weight-sync",
    "memory.rollout": "model/rollout",
    "memory.rollout.encoder": "model/images",
    "memory.vision": "model/images",
    "memory.saving": "model/saving",
    "memory.weight_sync.megatron_tensors": "model/weight-sync",
    "memory.weight_sync.transfer": "model/weight-sync",
}


def page_of(source: str) -> str | None:
    """The page of a deriving function, ``"memory.host.node.weights_on_host"``; None where none shows it."""
    return next((PAGES[room] for room in rooms_of(source) if room in PAGES), None)
