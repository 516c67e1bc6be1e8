"""Terms that the passes of every backend are made of."""

from dataclasses import dataclass
from math import ceil

from tuner.evidence import Evidence
from tuner.memory import activations, logits
from tuner.memory.megatron import stage_layers
from tuner.memory.overhead import CUBLAS_WORKSPACES
from tuner.memory.terms import Item, Moment, Term
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, OutputHead


@dataclass(frozen=True, kw_only=True)
class PassInput:
    """One micro-batch of one pass."""

    model: ModelShape
    engine: Engine
    head: OutputHead
    tokens: int  # on this GPU
    entropy: bool
    micro_batches: int  # of one optimizer step; 1 for a forward-only pass

    @property
    def fused_head(self) -> bool:
        """Whether the logits never exist, so that the head runs inside the model's forward pass."""
        return self.head.kind is not HeadKind.LOGITS


def term(item: Item, name: str, size: float, formula: str, evidence: Evidence = Evidence.MODELLED) -> Term:
    """A term; sizes are rounded up to whole bytes."""
    return Term(item=item, name=name, bytes=ceil(size), evidence=evidence, formula=formula)


def moment(name: str, *terms: Term | None) -> Moment:
    """A moment of the terms that exist and are not empty."""
    return Moment(name=name, terms=tuple(part for part in terms if part is not None and part.bytes))


def workspace() -> Term:
    """What cuBLAS keeps through PyTorch's allocator."""
    size = CUBLAS_WORKSPACES.typical
    return term(Item.ACTIVATIONS, "cublas_workspaces", size, "constant", Evidence.HEURISTIC)


def head_bytes(given: PassInput, *, training: bool) -> int:
    """Peak of the output head, by the backend's implementation."""
    if given.engine.backend is Backend.MEGATRON and given.head.kind is HeadKind.LOGITS:
        return logits.megatron_head_bytes(
            given.head,
            tokens=given.tokens,
            vocab=given.model.vocab,
            tensor_parallel=given.engine.parallel.tensor,
            entropy=given.entropy,
        )
    return logits.head_peak_bytes(
        given.head,
        tokens=given.tokens,
        vocab=given.model.vocab,
        hidden=given.model.hidden,
        entropy=given.entropy,
        training=training,
    )


def saved_activations(given: PassInput) -> Term:
    """What the forward pass saves for the backward pass, over all layers of this GPU."""
    model, engine, tokens = given.model, given.engine, given.tokens
    layers = stage_layers(model, engine) if engine.backend is Backend.MEGATRON else model.layers
    if engine.checkpointing is Checkpointing.FULL:
        # Offloading moves the layer inputs to the host; two of them are on the card at a time.
        held = min(2, layers) if engine.activation_offload else layers
        size = tokens * held * activations.layer_input_bytes(model, engine)
        return term(Item.ACTIVATIONS, "layer_inputs", size, "T L b H", Evidence.EXACT)
    per_token = activations.all_layers_saved_bytes(model, engine) * layers / model.layers
    if engine.activation_offload:
        per_token = 2 * activations.largest_layer_saved_bytes(model, engine)
    return term(Item.ACTIVATIONS, "saved_layers", tokens * per_token, "T sum(layer)")


def recomputed_layer(given: PassInput) -> Term | None:
    """The layer whose activations the backward pass has computed again."""
    if given.engine.checkpointing is Checkpointing.NONE:
        return None
    size = given.tokens * activations.largest_layer_saved_bytes(given.model, given.engine)
    return term(Item.ACTIVATIONS, "recomputed_layer", size, "T layer")
