"""Rates of single operations: products of a layer's shapes, causal attention, copies, AdamW with clipping."""

import torch
from measure.operators.shapes import Decoder, Shapes, seconds_of, without_host
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tuner.validate.machine.worker.operators import products_of

_DTYPE = torch.bfloat16
_TENSORS = 33  # of the optimizer

Table = dict[str, list[int] | list[list[float]]]  # sizes, tokens, and the rates of both directions


def products(shapes: Shapes) -> Table:
    """A layer's seven products, by hidden size (rows) and tokens (columns): shares of the peak."""
    table: Table = {
        "sizes": [decoder.hidden for decoder in shapes.decoders],
        "tokens": list(shapes.rows),
    }
    rates = [[_product_rates(decoder, rows, shapes) for rows in shapes.rows] for decoder in shapes.decoders]
    return table | both_directions(rates, shapes)


def _product_rates(decoder: Decoder, rows: int, shapes: Shapes) -> tuple[float, float]:
    """Forward, and backward: both gradients of each product."""
    width, kv_width = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    sizes = [
        (width, decoder.hidden),
        (kv_width, decoder.hidden),
        (kv_width, decoder.hidden),
        (decoder.hidden, width),
        (decoder.intermediate, decoder.hidden),
        (decoder.intermediate, decoder.hidden),
        (decoder.hidden, decoder.intermediate),
    ]
    forward, backward = (
        flop / seconds_of(without_host(work), least=shapes.seconds)
        for work, flop, _backward in products_of(sizes, rows, torch.device(shapes.device))
    )
    return forward, backward


def attention(shapes: Shapes) -> Table:
    """Causal flash attention, by head size (rows) and sequence length (columns): shares of the peak.

    Forward ``2 n s^2 d`` FLOP, half of what would be without the mask; backward 2.5 times as many.
    """
    table: Table = {"sizes": list(shapes.head_dims), "tokens": list(shapes.lengths)}
    rates = [[_attention_rates(d, length, shapes) for length in shapes.lengths] for d in shapes.head_dims]
    return table | both_directions(rates, shapes)


def both_directions(rates: list[list[tuple[float, float]]], shapes: Shapes) -> Table:
    """FLOP per second as shares of the data sheet's peak, rounded to what repeats."""
    return {
        direction: [[round(pair[index] / shapes.peak_flop_per_s, 4) for pair in row] for row in rates]
        for index, direction in enumerate(("forward", "backward"))
    }


def _attention_rates(head_dim: int, length: int, shapes: Shapes) -> tuple[float, float]:
    heads, sequences = max(1, 3584 // head_dim), shapes.attended_tokens // length
    size = (sequences, heads, length, head_dim)
    query, key, value = (
        torch.randn(size, device=shapes.device, dtype=_DTYPE, requires_grad=True) for _ in range(3)
    )
    flop = 2 * sequences * heads * length**2 * head_dim
    backend = SDPBackend.FLASH_ATTENTION if shapes.device == "cuda" else SDPBackend.MATH
    with sdpa_kernel(backend):
        with torch.no_grad():
            forward = seconds_of(
                lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=True),
                least=shapes.seconds,
            )
        output = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        gradient = torch.randn_like(output)
        backward = seconds_of(
            lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True),
            least=shapes.seconds,
        )
    return flop / forward, 2.5 * flop / backward


def moved(shapes: Shapes) -> dict[str, float]:
    """GB per second of copies: on the card (read and written), and over the host link."""
    cuda = shapes.device == "cuda"
    rates, size = {"card": copy_rate(shapes)}, 4 * shapes.copied_values
    source = torch.randn(shapes.copied_values, device=shapes.device)
    host = torch.empty(shapes.copied_values, pin_memory=cuda)
    rates["from_host_pinned"] = size / seconds_of(
        lambda: source.copy_(host, non_blocking=True), least=shapes.seconds
    )
    rates["to_host_pinned"] = size / seconds_of(
        lambda: host.copy_(source, non_blocking=True), least=shapes.seconds
    )
    pageable = torch.zeros(shapes.copied_values)
    rates["from_host_pageable"] = size / seconds_of(lambda: source.copy_(pageable), least=shapes.seconds)
    rates["to_host_pageable"] = size / seconds_of(lambda: pageable.copy_(source), least=shapes.seconds)
    # As an optimizer's states leave the card: tensors of 25 MB, each into memory that nobody has touched.
    pieces = list(source.split(6_500_000))
    rates["to_host_fresh"] = size / seconds_of(
        lambda: [piece.to("cpu", non_blocking=True) for piece in pieces], least=0.0
    )
    return {what: round(rate / 1e9, 2) for what, rate in rates.items()}


def optimizer(shapes: Shapes) -> dict[str, float]:
    """Accesses of 4 bytes a trained value, at the rate of a copy on the card, of AdamW with clipping."""
    rate = copy_rate(shapes)
    values = shapes.optimized_values // _TENSORS * _TENSORS
    return {
        name: round(
            _adamw_seconds(shapes, foreach=name == "foreach", fused=name == "fused") * rate / 4 / values, 2
        )
        for name in ("foreach", "fused")
    }


def copy_rate(shapes: Shapes) -> float:
    """Bytes read and written per second by a copy on the card."""
    source = torch.randn(shapes.copied_values, device=shapes.device)
    target = torch.empty_like(source)
    return 8 * shapes.copied_values / seconds_of(lambda: target.copy_(source), least=shapes.seconds)


def _adamw_seconds(shapes: Shapes, *, foreach: bool, fused: bool) -> float:
    sizes = [shapes.optimized_values // _TENSORS] * _TENSORS
    parameters = [torch.nn.Parameter(torch.randn(size, device=shapes.device)) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    adamw = torch.optim.AdamW(parameters, lr=1e-6, foreach=foreach, fused=fused)
    least = 2 * shapes.seconds
    clipping = seconds_of(lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0), least=least)
    return seconds_of(adamw.step, least=least) + clipping
