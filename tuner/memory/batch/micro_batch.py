"""One micro-batch of a pass: its tokens, and the experts of each that travel with the batch."""

from math import ceil

from msgspec import Struct

from tuner import batching
from tuner.memory.batch.padded_response import PaddedResponse
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process.constant import Constant
from tuner.model_shape import ModelShape
from tuner.workload import Actor, Batch, Engine, HeadKind, OutputHead, Phase, StepPass

SYMBOLS = {
    "M": "layers that the batch has experts of",
    "b_x": "bytes of an expert's index in the batch",
}


class Routes(Struct, frozen=True, kw_only=True):
    """The experts of each token that a pass records or replays."""

    layers: int  # that the batch has them of
    index_bytes: int  # of one index in the batch
    replayed: bool  # False: recorded
    pass_tokens: int  # of all micro-batches of the pass on this GPU
    kept_through_step: bool = False  # until the optimizer's step is done


def route_layers(model: ModelShape, *, from_rollout: bool) -> int:
    """Layers that the batch has experts of: all where the rollout engine says them, else the sparse ones.

    Source: vLLM ``model_executor/layers/fused_moe/routed_experts_capturer.py``; verl 0.9.1
    ``utils/megatron/router_replay_utils.py`` (``set_router_replay_data``).
    """
    return int(model.layers if from_rollout else model.sparse_layers)


def routes_of(step_pass: StepPass, actor: Actor, batch: Batch) -> Routes | None:
    """What a pass records or replays; only the actor's own passes do."""
    replay = actor.replay
    if replay is None or step_pass.phase not in (Phase.OLD_LOG_PROB, Phase.UPDATE_ACTOR):
        return None
    sequences = batching.pass_sequences(batch, step_pass)
    split = step_pass.engine.parallel.sequence_split
    return Routes(
        layers=route_layers(step_pass.model, from_rollout=replay.from_rollout),
        index_bytes=replay.index_bytes,
        replayed=replay.from_rollout or step_pass.training,
        pass_tokens=ceil(sequences * batch.sequence_tokens / split),
        kept_through_step=replay.kept_through_step,
    )


class PassInput(Struct, frozen=True, kw_only=True):
    """One micro-batch of one pass."""

    model: ModelShape
    engine: Engine
    head: OutputHead
    tokens: int  # on this GPU
    entropy: bool
    micro_batches: int  # of one optimizer step; 1 for a forward-only pass
    step_tokens: int | None = None  # of one optimizer step on this GPU; None: of full micro-batches
    patches: Constant | None = None  # of images, that a vision tower sees; None without
    squares: bool = False  # the sum of squared probabilities is computed
    response: PaddedResponse | None = None  # whose logits alone the head computes with; None: all tokens
    row_tokens: int | None = None  # of a padded sequence; None: the micro-batch is one row
    routes: Routes | None = None  # Megatron, sparse: None where no pass knows another's experts

    @property
    def fused_head(self) -> bool:
        """Whether the logits never exist, so that the head runs inside the model's forward pass."""
        return self.head.kind is not HeadKind.LOGITS


def moment(name: str, *terms: Term | None) -> Moment:
    """A moment of the terms that exist and are not empty."""
    return Moment(
        name=name, terms=tuple([part for part in terms if part is not None and (part.bytes or part.high)])
    )
