"""Element-wise kernels of a decoder layer as transformers runs them, without the host's time between them."""

from collections.abc import Callable

import torch
from measure.operators.shapes import Shapes, seconds_of, without_host
from measure.operators.single import copy_rate
from torch.nn import functional
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb

_HEAD = 128

#: What runs, on which values, and which weights have gradients too.
Operation = tuple[Callable[..., tuple[torch.Tensor, ...]], list[torch.Tensor], list[torch.Tensor]]


def elementwise(shapes: Shapes) -> dict[str, object]:
    """Bytes per value, at the rate of a copy on the card, of each operation; columns by number of values.

    Values are in bfloat16, as rows of one width: the hidden size of a norm, the intermediate size of an
    activation, heads times their size of a rotary embedding.
    """
    rate = copy_rate(shapes)
    operations: dict[str, Callable[[Shapes, int], Operation]] = {
        "norm": _norm,
        "rotary": _rotary,
        "gate": _gate,
        "residual": _residual,
    }
    table: dict[str, object] = {"values": list(shapes.elementwise_values), "copy_bytes_per_s": rate}
    for name, make in operations.items():
        pairs = [_seconds(make(shapes, count), shapes) for count in shapes.elementwise_values]
        table[name] = {
            direction: [
                round(pair[index] * rate / count, 2)
                for pair, count in zip(pairs, shapes.elementwise_values, strict=True)
            ]
            for index, direction in enumerate(("forward", "backward"))
        }
    return table


def seconds_of_gate(shapes: Shapes, count: int) -> tuple[float, float]:
    """Seconds of the activation of so many intermediate values, forward and backward."""
    values = torch.randn(1, count, device=shapes.device, dtype=torch.bfloat16)
    gate: Operation = (lambda gate, up: (functional.silu(gate) * up,), [values, values.clone()], [])
    return _seconds(gate, shapes)


def _seconds(made: Operation, shapes: Shapes) -> tuple[float, float]:
    """Forward without gradients, and what the backward pass adds to a forward pass with them."""
    operation, inputs, weights = made

    def forward() -> object:
        with torch.no_grad():
            return operation(*inputs)

    trained = [one.requires_grad_() for one in (*inputs, *weights)]
    with torch.no_grad():
        gradients = [torch.randn_like(output) for output in operation(*inputs)]

    def both() -> object:
        return torch.autograd.grad(operation(*inputs), trained, gradients)

    first = seconds_of(without_host(forward), least=shapes.seconds / 2)
    return first, seconds_of(without_host(both), least=shapes.seconds / 2) - first


def _random(shapes: Shapes, count: int) -> torch.Tensor:
    width = shapes.elementwise_width
    return torch.randn(1, count // width, width, device=shapes.device, dtype=torch.bfloat16)


def _norm(shapes: Shapes, count: int) -> Operation:
    module = Qwen3RMSNorm(shapes.elementwise_width).to(shapes.device, torch.bfloat16)
    return lambda values: (module(values),), [_random(shapes, count)], [module.weight]


def _rotary(shapes: Shapes, count: int) -> Operation:
    """Queries and keys of half the values each."""
    values = _random(shapes, count)
    tokens, size = values.shape[1], min(_HEAD, shapes.elementwise_width // 4)
    query, key = (
        part.reshape(1, tokens, -1, size).transpose(1, 2).detach() for part in values.chunk(2, dim=-1)
    )
    angle = torch.randn(1, tokens, size, device=shapes.device, dtype=torch.bfloat16)
    cosine, sine = angle.cos(), angle.sin()
    return lambda query, key: apply_rotary_pos_emb(query, key, cosine, sine), [query, key], []


def _gate(shapes: Shapes, count: int) -> Operation:
    return (
        lambda gate, up: (functional.silu(gate) * up,),
        [_random(shapes, count), _random(shapes, count)],
        [],
    )


def _residual(shapes: Shapes, count: int) -> Operation:
    """One addition of a stream and what a layer adds to it; its backward pass is the same, of gradients."""
    return lambda stream, added: (stream + added,), [_random(shapes, count), _random(shapes, count)], []
