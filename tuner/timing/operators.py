"""Measured shares of a card's peak that operators reach, by their shapes.

A table belongs to one card, ``profiles/operators/<card>.json``, written by ``python -m measure.operators``.
A card without a table takes that of :data:`REFERENCE`, carried over by ``tuner.timing.cards``.
"""

from functools import lru_cache
from math import exp, log

import msgspec
from msgspec import Struct

from tuner import shipped
from tuner.hardware import Gpu
from tuner.timing.cards import carried_share
from tuner.timing.measured_reads import CacheReads, WeightReads
from tuner.timing.measured_tables import Collectives, neighbours

#: The card whose shares stand in for those of a card without a table.
REFERENCE = "h100-sxm"


class Shares(Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the dense peak in bfloat16, by two sizes of an operation; both grow along their axis."""

    sizes: tuple[float, ...]  # hidden size of a product, or head size of an attention
    tokens: tuple[float, ...]  # rows of a product, or length of a sequence
    forward: tuple[tuple[float, ...], ...]  # a row for each size, a column for each number of tokens
    backward: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        """Take out what noise there is between columns: more tokens never take less time than fewer."""
        for name in ("forward", "backward"):
            rows = tuple(_never_faster(self.tokens, row) for row in getattr(self, name))
            msgspec.structs.force_setattr(self, name, rows)

    def at(self, size: float, tokens: float, *, backward: bool) -> float:
        """The share at these sizes: interpolated between logarithms, held at the edges of the table."""
        rows = self.backward if backward else self.forward
        low, high, between = neighbours(self.sizes, size)
        left, right, along = neighbours(self.tokens, tokens)
        ends = (
            (1 - along) * log(rows[index][left]) + along * log(rows[index][right]) for index in (low, high)
        )
        first, second = ends
        return exp((1 - between) * first + between * second)


class Traffic(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that an operation moves per value, at the rate of a copy on the card, by its number of values."""

    forward: tuple[float, ...]
    backward: tuple[float, ...]


class Elementwise(Struct, frozen=True):
    """Traffic of a decoder layer's element-wise operations as transformers runs them, in bfloat16.

    Few values take less each where a card's cache holds them, more where they do not fill the card.
    """

    values: tuple[float, ...]  # the columns of the others
    norm: Traffic  # per hidden value
    rotary: Traffic  # per value of queries and keys
    gate: Traffic  # per intermediate value
    residual: Traffic  # per hidden value; gradients are added up by as many additions

    def bytes_of(self, operation: Traffic, values: float, *, backward: bool) -> float:
        """Bytes of the whole operation on so many values.

        Interpolated between logarithms; fewer than the table has take as long as its fewest, and more of
        them as much each as its most.
        """
        if values <= 0:
            return 0.0
        column = operation.backward if backward else operation.forward
        low, high, between = neighbours(self.values, values)
        first, second = (column[index] * self.values[index] for index in (low, high))
        whole = exp((1 - between) * log(first) + between * log(max(first, second)))
        return whole * max(1.0, values / self.values[-1])


class Routing(Struct, frozen=True, kw_only=True):
    """Traffic of routing tokens to experts and back as transformers runs it, beside the experts' own work.

    The router, sorting, gathering, weighting and adding up, by hidden values of all copies of the tokens.
    """

    values: tuple[float, ...]  # the columns of the others
    forward: tuple[float, ...]  # bytes per value, at the rate of a copy on the card
    backward: tuple[float, ...]

    def bytes_of(self, values: float, *, backward: bool) -> float:
        """Bytes for so many values: interpolated between logarithms, and at the edges as much for each."""
        if values <= 0:
            return 0.0
        column = self.backward if backward else self.forward
        low, high, between = neighbours(self.values, values)
        return values * exp((1 - between) * log(column[low]) + between * log(column[high]))


class HostSeconds(Struct, frozen=True, kw_only=True):
    """What the host needs to launch one decoder layer, measured with so few tokens that the GPU waits."""

    engine: str  # plain, fsdp or fsdp2
    query_key_norms: bool
    forward_s: float  # without gradients
    forward_backward_s: float | None  # with recomputation; None where something else disturbed it
    kept_s: float | None  # forward and backward without recomputation; None where it was not measured
    ranks: int = 1  # that share the layer on one machine; the slowest one's seconds
    # Of those with a backward pass, the forward half; None where it was not told from the rest.
    first_half_of_forward_backward_s: float | None = None
    first_half_of_kept_s: float | None = None


class HostOfExperts(Struct, frozen=True, kw_only=True):
    """The host's seconds in a plain layer with normed queries and keys and with routed experts."""

    experts: int
    implementation: str  # eager: one after the other; grouped_mm: together
    forward_s: float
    forward_backward_s: float
    kept_s: float | None  # None where something else disturbed it
    ranks: int = 1
    first_half_of_forward_backward_s: float | None = None  # as of a layer
    first_half_of_kept_s: float | None = None


class HostOfOptimizer(Struct, frozen=True, kw_only=True):
    """What the host needs to clip and step one tensor."""

    engine: str
    tensor_s: float
    ranks: int = 1


class HostMachine(Struct, frozen=True, kw_only=True):
    """What the host of one machine, or of two that were measured on one day, needs beside a card."""

    host: tuple[HostSeconds, ...] = ()
    host_experts: tuple[HostOfExperts, ...] = ()
    host_optimizer: tuple[HostOfOptimizer, ...] = ()


class Operators(Struct, frozen=True):
    """What was measured on one card. Other keys of the file say how, when and with which versions."""

    gpu: str
    dense_bf16_flop_per_s: float  # the card's peak and bandwidth, of its data sheet
    memory_bytes_per_s: float
    products: Shares
    attention: Shares
    elementwise: Elementwise | None = None  # None: not measured on this card
    grouped: Shares | None = (
        None  # products of experts, by the narrower side of their weights and their tokens
    )
    host: tuple[HostSeconds, ...] = ()
    host_experts: tuple[HostOfExperts, ...] = ()
    host_optimizer: tuple[HostOfOptimizer, ...] = ()
    host_on_other_machines: tuple[HostMachine, ...] = ()
    routing: Routing | None = None
    collectives: tuple[Collectives, ...] = ()  # between different numbers of GPUs
    cache_reads: CacheReads | None = None  # of a decoding step; None: not measured on this card
    weight_reads: WeightReads | None = None

    @property
    def machines(self) -> tuple[HostMachine, ...]:
        """The machines whose hosts were measured beside the card; the first is the table's own."""
        own = HostMachine(host=self.host, host_experts=self.host_experts, host_optimizer=self.host_optimizer)
        return (own, *self.host_on_other_machines)

    def on(self, gpu: Gpu, share: float) -> float:
        """A share of this table on a card: as it is on its own, carried over to another."""
        if gpu.name == self.gpu:
            return share
        return carried_share(
            share,
            flop_per_s=self.dense_bf16_flop_per_s,
            memory_bytes_per_s=self.memory_bytes_per_s,
            gpu=gpu,
        )


@lru_cache(maxsize=8)
def operators_of(gpu: str) -> Operators:
    """The table of a card, or the reference's.

    Args:
        gpu: name of the card's profile.

    Raises:
        InputError: the installation lacks its profiles.
        msgspec.ValidationError: a bundled table is not one.
    """
    file = shipped.profiles() / "operators" / f"{table_card(gpu)}.json"
    return msgspec.json.decode(file.read_bytes(), type=Operators)


@lru_cache(maxsize=64)
def table_card(gpu: str) -> str:
    """The card whose table a card takes its shares from: itself, or the reference.

    Args:
        gpu: name of the card's profile.
    """
    tables = {file.stem for file in (shipped.profiles() / "operators").glob("*.json")}
    return gpu if gpu in tables else REFERENCE


@lru_cache(maxsize=4096)
def product_share(gpu: Gpu, *, width: float, rows: float, backward: bool) -> float:
    """Share of the peak that products of ``rows`` tokens reach in layers whose narrower side is ``width``."""
    table = operators_of(gpu.name)
    return table.on(gpu, table.products.at(width, rows, backward=backward))


@lru_cache(maxsize=4096)
def attention_share(gpu: Gpu, *, head_dim: float, tokens: float, backward: bool) -> float:
    """Share of the peak that causal attention reaches on sequences of so many tokens."""
    table = operators_of(gpu.name)
    return table.on(gpu, table.attention.at(head_dim, tokens, backward=backward))


@lru_cache(maxsize=4096)
def grouped_share(gpu: Gpu, *, width: float, rows: float, backward: bool) -> float:
    """Share of the peak that grouped products of experts reach, of ``rows`` tokens for each."""
    table = operators_of(gpu.name)
    if table.grouped is None:
        table = operators_of(REFERENCE)
    assert table.grouped is not None
    return table.on(gpu, table.grouped.at(width, rows, backward=backward))


def elementwise_of(gpu: str) -> Elementwise:
    """Traffic of element-wise operations on a card, or on the reference."""
    table = operators_of(gpu).elementwise or operators_of(REFERENCE).elementwise
    assert table is not None
    return table


def routing_of(gpu: str) -> Routing:
    """Traffic of routing tokens to experts on a card, or on the reference."""
    table = operators_of(gpu).routing or operators_of(REFERENCE).routing
    assert table is not None
    return table


@lru_cache(maxsize=64)
def collectives_of(gpu: str, ranks: int) -> Collectives | None:
    """Measured seconds of collectives between so many GPUs of a kind in one machine; None without any.

    Args:
        gpu: name of the card's profile; another card's table says nothing of its links.
        ranks: GPUs that take part.
    """
    if table_card(gpu) != gpu:
        return None
    return next((one for one in operators_of(gpu).collectives if one.ranks == ranks), None)


def _never_faster(tokens: tuple[float, ...], shares: tuple[float, ...]) -> tuple[float, ...]:
    """Shares, each at least what makes its tokens take no longer than the next column's."""
    raised = list(shares)
    for left in reversed(range(min(len(tokens), len(shares)) - 1)):
        raised[left] = max(raised[left], raised[left + 1] * tokens[left] / tokens[left + 1])
    return tuple(raised)
