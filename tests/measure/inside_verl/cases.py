"""Which heads and token budgets are compared."""

from dataclasses import dataclass

from measure.verl_engine.settings import QWEN, EngineSettings

UNTIED = "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"  # QWEN's sizes, with an output matrix of its own

# Names of heads: what verl's setting says, None for logits, and what ours is told.
HEADS: dict[str, tuple[str | None, str | None]] = {
    "logits": (None, None),
    "verl-torch": ("torch", None),
    "verl-triton": ("triton", None),
    "tuner-recompute": ("torch", "recompute"),
    "tuner-saved": ("torch", "saved"),
    "tuner-policy": ("torch", "policy"),
}


@dataclass(frozen=True, kw_only=True)
class Updates:
    """Updates of a fresh engine, each with tokens of its own."""

    model: str
    head: str
    tokens: int  # of one micro-batch on one GPU
    micro_batches: int = 1
    count: int = 10
    entropy: bool = False

    @property
    def engine(self) -> EngineSettings:
        """What verl's engine is built with; it wraps an untied output matrix by itself."""
        return EngineSettings(model=self.model, fused_kernels=HEADS[self.head][0])

    @property
    def tuner_head(self) -> str | None:
        """The setting of our head; None where nothing of ours is imported."""
        return HEADS[self.head][1]


def cases() -> dict[str, Updates]:
    """The comparisons, the most telling first."""
    planned = [
        Updates(model=QWEN, head="verl-triton", tokens=16384),
        Updates(model=QWEN, head="tuner-recompute", tokens=16384),
        Updates(model=QWEN, head="tuner-policy", tokens=16384),
        Updates(model=QWEN, head="logits", tokens=16384),
        Updates(model=UNTIED, head="verl-triton", tokens=16384, count=1),
        Updates(model=UNTIED, head="tuner-recompute", tokens=163840, count=2),
        Updates(model=UNTIED, head="tuner-policy", tokens=163840, count=2),
        Updates(model=UNTIED, head="logits", tokens=163840, count=2),
        Updates(model=UNTIED, head="logits", tokens=16384),
        Updates(model=UNTIED, head="tuner-recompute", tokens=16384),
        Updates(model=UNTIED, head="tuner-policy", tokens=16384),
        Updates(model=UNTIED, head="tuner-recompute", tokens=196608, count=3),
        Updates(model=UNTIED, head="logits", tokens=196608, count=1),
        Updates(model=UNTIED, head="logits", tokens=16384, micro_batches=12, count=3),
        Updates(model=QWEN, head="verl-torch", tokens=16384),
        Updates(model=UNTIED, head="verl-torch", tokens=16384, count=1),
        Updates(model=QWEN, head="tuner-saved", tokens=16384),
        Updates(model=QWEN, head="tuner-recompute", tokens=16384, entropy=True, count=4),
        Updates(model=QWEN, head="tuner-policy", tokens=16384, entropy=True, count=4),
        Updates(model=QWEN, head="logits", tokens=16384, entropy=True, count=4),
    ]
    return {_name(plan): plan for plan in planned}


def _name(plan: Updates) -> str:
    parts = ["untied" if plan.model == UNTIED else "tied", plan.head, str(plan.tokens)]
    parts += [f"x{plan.micro_batches}"] if plan.micro_batches > 1 else []
    parts += ["entropy"] if plan.entropy else []
    return "-".join(parts)
