"""Parts of a workload whose fields are resolved when somebody reads them."""

from functools import lru_cache
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import fields

from tuner.model_shape import ModelShape

#: What a model is asked for beside its own fields.
COUNTS = (
    "parameters", "decoder_parameters", "embedding_parameters", "head_parameters", "largest_layer_parameters",
    "norm_parameters", "final_norm_parameters",
)  # fmt: skip
#: Parts that a workload may be without.
_OPTIONAL = ("reference", "cluster.gpu.measured")


class Resolver(Protocol):
    """Who says what a field is."""

    def field(self, path: str) -> Any:
        """A field of the workload."""

    def count(self, name: str) -> Any:
        """Parameters of a model."""


def asking(part: Struct, path: str, resolver: Resolver) -> Any:
    """A part of a workload that asks for its fields; ``path`` is its own, with a dot behind it."""
    made = {
        field.name: Lazy(resolver, f"{path}{field.name}", getattr(part, field.name)) for field in fields(part)
    }
    answer = _asking_type(type(part))(**made)
    if isinstance(part, ModelShape):
        vars(answer)["resolver"] = resolver
    return answer


class Lazy:
    """A field that is resolved when it is read."""

    __slots__ = ("part", "path", "resolver", "sample")

    def __init__(self, resolver: Resolver, path: str, sample: Any) -> None:
        self.resolver, self.path, self.sample = resolver, path, sample
        self.part: Any = None

    def resolved(self) -> Any:
        """What the field is on the way that is taken."""
        value = self.sample
        if not isinstance(value, Struct) or self.path in _OPTIONAL:
            value = self.resolver.field(self.path)
        if not isinstance(value, Struct):
            return value
        if self.part is None:
            self.part = asking(value, f"{self.path}.", self.resolver)
        return self.part


@lru_cache
def _asking_type(kind: type[Struct]) -> Any:
    """A type whose fields are asked for."""

    def answer(self: Any, name: str) -> Any:
        own = super(made, self).__getattribute__
        if name in COUNTS and issubclass(kind, ModelShape):
            return own("resolver").count(name)
        if name in ("parameters_by_layer", "layer_parameters"):  # of a dense model all layers have as many
            one = own("resolver").count("largest_layer_parameters")
            return (one,) * self.layers if name == "parameters_by_layer" else lambda layer: one
        value = own(name)
        return value.resolved() if type(value) is Lazy else value

    meta: Any = type(kind)
    made = meta(kind.__name__, (kind,), {"__getattribute__": answer}, frozen=True)
    return made
