"""One micro-batch of a pass, and an instant of it."""

from msgspec import Struct

from tuner.memory.batch.routes import Routes
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process.constant import Constant
from tuner.model_shape import ModelShape
from tuner.workload import Engine, HeadKind, OutputHead


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
