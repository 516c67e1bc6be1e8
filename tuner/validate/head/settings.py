"""What the output-head part asks its worker for and gets, and the law by which sizes are scaled down.

T: tokens (rows). V: vocabulary entries. H: hidden size.
"""

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import fields, replace

from tuner import batching
from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.language import _
from tuner.memory.head.terms import head_peak_bytes
from tuner.workload import HeadKind, OutputHead, Phase, Workload
from tuner.workload.head import head_name

_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(OutputHead)}


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """Hidden states ``[T, H]`` and a weight ``[V, H]``."""

    tokens: int
    hidden: int
    vocab: int


@dataclass(frozen=True, kw_only=True)
class HeadUse:
    """A head of the trainer in a pass with or without entropy; made by :meth:`of`."""

    head: OutputHead
    entropy: bool

    @classmethod
    def of(cls, head: OutputHead, *, entropy: bool) -> "HeadUse":
        """Settings that make no difference there are put to their defaults, so that equal ways are equal."""
        ignored = {"fusable", "slices_response"}
        if head.kind is not HeadKind.LOGITS:
            ignored |= {"compiled", "chunk_tokens", "checkpointed", "scaling", "fused_cross_entropy"}
        elif not entropy:
            ignored |= {"compiled", "chunk_tokens", "checkpointed"}
        usual = replace(head, **{name: _DEFAULTS[name] for name in ignored})
        return cls(head=usual, entropy=entropy or head.kind is not HeadKind.LOGITS)

    @property
    def name(self) -> str:
        """As the tables of ``tuner estimate-memory --logits`` name it."""
        return head_name(self.head, entropy=self.entropy)

    def peak_bytes(self, shape: HeadShape, *, training: bool) -> int:
        r"""Peak beyond the inputs, results included: in training both gradients, :math:`b H (T + V)`.

        A fused head adds gradients up from its first chunk on. Where logits exist, autograd makes both at
        the end, from the gradient of the logits alone, :math:`b \, T V`; that moment is the peak where few
        tokens meet a wide model.
        """
        peak = head_peak_bytes(
            self.head,
            tokens=shape.tokens,
            vocab=shape.vocab,
            hidden=shape.hidden,
            entropy=self.entropy,
            training=training,
        )
        if not training:
            return peak
        element_bytes = self.head.logits_dtype.bytes
        gradients = element_bytes * shape.hidden * (shape.tokens + shape.vocab)
        if self.head.kind is HeadKind.LOGITS:
            return max(peak, element_bytes * shape.tokens * shape.vocab + gradients)
        return peak + gradients


@dataclass(frozen=True, kw_only=True)
class HeadWork:
    """What to measure, in one process."""

    shape: HeadShape  # of the update's micro-batch
    forward_tokens: int  # of the log-probability pass's micro-batch
    dtype: DType
    wanted: tuple[HeadUse, ...]  # configured and proposed: first, and in the forward pass of both sizes
    seconds: float  # after which nothing more begins
    rounds: int = 7  # most that times are taken in
    sample: int = 256  # rows whose results are held against float64


class HeadPass(Enum):
    """Which passes a figure is of."""

    FORWARD = "forward"  # alone, without gradients
    BOTH = "both"  # forward and backward


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """One implementation at one size; on a CPU without bytes and seconds."""

    tokens: int
    peak_bytes: dict[HeadPass, int] = field(default_factory=dict)  # beyond the inputs, results included
    seconds: dict[HeadPass, float] = field(default_factory=dict)
    rounds: int = 0  # that the seconds are the medians of


@dataclass(frozen=True, kw_only=True)
class ImplementationFigures:
    """What was found of one."""

    name: str
    way: HeadUse | None  # None for those that no trainer's settings name
    foreign: bool = False  # another package's, which the trainer does not call
    missing: str = ""  # why nothing was measured
    errors: dict[str, float] = field(default_factory=dict)  # relative norm against float64
    limits: dict[str, float] = field(default_factory=dict)
    sizes: tuple[SizeFigures, ...] = ()  # of both passes, largest first
    forward: tuple[SizeFigures, ...] = ()  # of the forward pass at the other size, likewise

    @property
    def wrong(self) -> tuple[str, ...]:
        """The results that are further off than their limit, or not finite."""
        return tuple(name for name, error in self.errors.items() if not error <= self.limits[name])


@dataclass(frozen=True, kw_only=True)
class HeadFigures:
    """All that the worker found."""

    shape: HeadShape  # as measured; of a CPU a tiny one
    dtype: str
    found: tuple[ImplementationFigures, ...]
    left_out: tuple[str, ...]  # for want of time


def smaller_sizes(tokens: int) -> list[int]:
    """A size and its halves, down to an eighth, for what does not fit."""
    return [tokens // divisor for divisor in (1, 2, 4, 8) if tokens // divisor]


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A figure at the wanted size; ``how`` says from which sizes, where it was not measured there."""

    value: float
    how: str | None = None


def at_size(tokens: int, points: list[tuple[int, float]]) -> Scaled | None:
    r"""The figure at ``tokens``: measured there, or on the line through the two largest sizes.

    .. math:: y(T) = y_1 + (y_1 - y_2) \frac{T - T_1}{T_1 - T_2}

    Args:
        tokens: wanted.
        points: sizes and figures. One smaller size alone says nothing of another: None.
    """
    ordered = sorted(points, reverse=True)
    for size, value in ordered:
        if size == tokens:
            return Scaled(value=value)
    if len(ordered) < 2:
        return None
    (large, most), (small, least) = ordered[:2]
    value = most + (most - least) * (tokens - large) / (large - small)
    return Scaled(
        value=value, how=_("linear in tokens, from {small:,} and {large:,}").format(small=small, large=large)
    )


def update_shape(workload: Workload) -> HeadShape:
    """Sizes of the output head in the update's largest micro-batch on one GPU."""
    model = workload.model
    tokens = batching.micro_batch_tokens(workload.batch, workload.actor_update)
    return HeadShape(tokens=tokens, hidden=model.hidden, vocab=model.vocab)


def log_prob_tokens(workload: Workload) -> int:
    """Tokens of the log-probability pass's micro-batch; of the update's where the step has no such pass."""
    step_pass = workload.pass_of(Phase.OLD_LOG_PROB) or workload.actor_update
    return batching.micro_batch_tokens(workload.batch, step_pass)
