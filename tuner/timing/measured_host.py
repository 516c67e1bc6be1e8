"""Measured seconds of the host: what it needs to launch a layer, its experts, and an optimizer's step."""

from msgspec import Struct


class HostSeconds(Struct, frozen=True, kw_only=True):
    """What the host needs to launch one decoder layer, measured with so few tokens that the GPU waits."""

    engine: str  # plain, fsdp or fsdp2
    query_key_norms: bool
    forward_s: float  # without gradients
    forward_backward_s: float | None  # with recomputation; None where something else disturbed it
    kept_s: float  # forward and backward without recomputation
    ranks: int = 1  # that share the layer on one machine; the slowest one's seconds
    # Of those with a backward pass, the forward half; None where it was not told from the rest.
    first_half_of_forward_backward_s: float | None = None
    first_half_of_kept_s: float | None = None


class HostOfExperts(Struct, frozen=True, kw_only=True):
    """The same of a plain layer with normed queries and keys and with routed experts."""

    experts: int
    implementation: str  # eager: one after the other; grouped_mm: together
    forward_s: float
    forward_backward_s: float
    kept_s: float
    ranks: int = 1


class HostOfOptimizer(Struct, frozen=True, kw_only=True):
    """What the host needs to clip and step one tensor."""

    engine: str
    tensor_s: float
    ranks: int = 1
