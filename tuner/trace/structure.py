"""What a built model consists of: its parameters by FSDP unit, and which of its layers are alike."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from msgspec import Struct

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.trace.count import decoder_layers
from tuner.traced_layers import TracedLinear


class Structure(Struct, frozen=True, kw_only=True):
    """Parameter counts of a model, and the first layer of every kind."""

    embedding: int
    head: int
    other: int  # of the text part, outside embedding, layers and head
    extra: int  # outside the text part
    layers: tuple[int, ...]
    kind_of_layer: tuple[int, ...]
    first_of_kind: tuple[int, ...]
    tied: bool
    vocab: int
    hidden: int


def structure(model: Any) -> Structure:
    """Parameters by unit; a matrix that the head shares with the embedding counts as the embedding's.

    Raises:
        UnsupportedError: the decoder layers are not the units that transformers names for FSDP.
    """
    layers = decoder_layers(model.get_decoder())
    names = {type(layer).__name__ for layer in layers}
    if not names <= set(model._no_split_modules or ()):
        raise UnsupportedError(
            _(
                "transformers does not list {names} in _no_split_modules, so that FSDP's units are not known"
            ).format(names=", ".join(sorted(names)))
        )
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    embedded = _weights([embedding])
    headed = _weights([head]) - embedded
    layered = _weights(layers)
    text = _weights([model.get_decoder(), head])
    signatures = layer_signatures(model)
    kinds = list(dict.fromkeys(signatures))
    return Structure(
        embedding=_count(embedded),
        head=_count(headed),
        other=_count(text - embedded - headed - layered),
        extra=_count(_weights([model]) - text),
        layers=tuple(_count(_weights([layer])) for layer in layers),
        kind_of_layer=tuple(kinds.index(signature) for signature in signatures),
        first_of_kind=tuple(signatures.index(kind) for kind in kinds),
        tied=head.weight is embedding.weight,
        vocab=head.weight.shape[0],
        hidden=head.weight.shape[1],
    )


def routed_parameters(layer: torch.nn.Module) -> int:
    """Parameters of the routed experts of a layer."""
    return sum(weight.numel() for weight in _routed(layer))


def routed_experts(layer: torch.nn.Module) -> int:
    """How many routed experts a layer has: the first dimension of their tensors, or the length of a list."""
    lists = [
        len(module)
        for name, module in layer.named_modules()
        if name.rpartition(".")[2] == "experts" and isinstance(module, torch.nn.ModuleList)
    ]
    return max([*lists, *(weight.shape[0] for weight in _routed(layer) if weight.dim() == 3)], default=0)


def _routed(layer: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Weights of modules called ``experts``, and those that hold one matrix per expert."""
    for name, module in layer.named_modules():
        convolution = isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d)
        for weight in module.parameters(recurse=False):
            if "experts" in name.split(".") or (weight.dim() == 3 and not convolution):
                yield weight


def shared_parameters(layer: torch.nn.Module) -> int:
    """Parameters of the experts that every token passes, which transformers calls shared."""
    return sum(
        weight.numel()
        for name, weight in layer.named_parameters()
        if weight.dim() == 2 and any(part.startswith("shared") for part in name.split("."))
    )


def linears(layer: torch.nn.Module) -> tuple[TracedLinear, ...]:
    """The linear layers that adapters can be put on."""
    return tuple(
        TracedLinear(name=name.rpartition(".")[2], inputs=module.in_features, outputs=module.out_features)
        for name, module in layer.named_modules()
        if isinstance(module, torch.nn.Linear)
    )


def _weights(modules: Iterable[torch.nn.Module]) -> set[torch.nn.Parameter]:
    # Parameters are told apart by identity, so that a shared one is one.
    return {weight for module in modules for weight in module.parameters()}


def _count(weights: set[torch.nn.Parameter]) -> int:
    return sum(weight.numel() for weight in weights)


def layer_signatures(model: Any) -> list[tuple[Any, ...]]:
    """One per decoder layer; equal for layers that compute alike."""
    return [_signature(layer) for layer in decoder_layers(model.get_decoder())]


def _signature(layer: torch.nn.Module) -> tuple[Any, ...]:
    """The modules, their settings and the shapes of their weights."""
    shapes = tuple((name, tuple(weight.shape)) for name, weight in layer.named_parameters())
    settings = tuple(
        (name, type(module).__name__, key, value)
        for name, module in layer.named_modules()
        for key, value in sorted(vars(module).items())
        if key != "layer_idx" and isinstance(value, bool | int | float | str | None)
    )
    return shapes, settings
