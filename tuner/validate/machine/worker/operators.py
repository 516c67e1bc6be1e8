"""Rates of a few operators at a few shapes, as the time model's tables were measured."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tuner.validate.machine.readings import OperatorRate, OperatorSizes
from tuner.validate.worker.timing import Work, repeated

_FIGURE_S = 0.06  # of each rate
_DTYPE = torch.bfloat16
_ATTENDED = 32_768  # tokens of all sequences together, and the width of all heads, as of the tables
_HEADS_WIDTH = 3584
_NORM_EPSILON = 1e-6
_FEW, _MANY = 2, 10  # layers: their difference is what layers take, and nothing else
_LAUNCHED_TOKENS = 64  # so few that the GPU waits for the host


def measure(sizes: OperatorSizes, *, device: str) -> tuple[OperatorRate, ...]:
    """Every family of operators, forward and backward where it has both."""
    where = torch.device(device)
    rates = list(_products(sizes, where))
    rates += _attention(sizes, where)
    rates += _elementwise(sizes, where)
    rates += _head(sizes, where)
    rates += _host(where)
    return tuple(rates)


def _products(sizes: OperatorSizes, device: torch.device) -> Iterator[OperatorRate]:
    """The seven products of a layer, without the host's time between them."""
    width, kv_width, hidden = sizes.heads_width, sizes.kv_width, sizes.hidden
    shapes = [(width, hidden), (kv_width, hidden), (kv_width, hidden), (hidden, width)]
    shapes += [(sizes.intermediate, hidden), (sizes.intermediate, hidden), (hidden, sizes.intermediate)]
    for rows in sizes.rows:
        yield from _of_weights("products", shapes, rows, device)


def _head(sizes: OperatorSizes, device: torch.device) -> Iterator[OperatorRate]:
    """The product with the output projection."""
    yield from _of_weights("head", [(sizes.vocab, sizes.hidden)], min(sizes.rows), device)


def products_of(
    shapes: Sequence[tuple[int, int]], rows: int, device: torch.device
) -> tuple[tuple[Callable[[], None], int, bool], ...]:
    """Products of weights with so many rows, and both gradients of each: work, FLOP, whether it is backward.

    Args:
        shapes: outputs and inputs of each weight.
        rows: tokens that are multiplied at a time.
        device: where the weights lie.
    """
    weights = [torch.randn(shape, device=device, dtype=_DTYPE) * 0.02 for shape in shapes]
    sides = {side for shape in shapes for side in shape}
    values = {side: torch.randn(rows, side, device=device, dtype=_DTYPE) for side in sides}

    def forward() -> None:
        for weight in weights:
            functional.linear(values[weight.shape[1]], weight)

    def backward() -> None:
        for weight in weights:
            gradient = values[weight.shape[0]]
            gradient @ weight
            gradient.t() @ values[weight.shape[1]]

    flop = sum(2 * rows * one * other for one, other in shapes)
    return (forward, flop, False), (backward, 2 * flop, True)


def _of_weights(
    family: str, shapes: list[tuple[int, int]], rows: int, device: torch.device
) -> Iterator[OperatorRate]:
    for work, amount, is_backward in products_of(shapes, rows, device):
        seconds = _seconds(_without_host(work, device), device)
        yield OperatorRate(family=family, tokens=rows, backward=is_backward, per_s=amount / seconds)


def _attention(sizes: OperatorSizes, device: torch.device) -> Iterator[OperatorRate]:
    """Causal flash attention; nothing where this card or head size has none."""
    head_dim = sizes.head_dim
    tokens = _ATTENDED if device.type == "cuda" else max(sizes.lengths)
    heads = max(1, _HEADS_WIDTH // head_dim) if device.type == "cuda" else 1
    backend = SDPBackend.FLASH_ATTENTION if device.type == "cuda" else SDPBackend.MATH
    for length in sizes.lengths:
        shape = (tokens // length, heads, length, head_dim)
        query, key, value = (
            torch.randn(shape, device=device, dtype=_DTYPE, requires_grad=True) for _ in range(3)
        )
        attend = partial(functional.scaled_dot_product_attention, query, key, value, is_causal=True)
        flop = 2 * shape[0] * heads * length**2 * head_dim
        try:
            with sdpa_kernel(backend):
                output = attend()
                gradient = torch.randn_like(output)
                with torch.no_grad():
                    forward = _seconds(attend, device)
                gradients = partial(
                    torch.autograd.grad, output, (query, key, value), gradient, retain_graph=True
                )
                backward = _seconds(gradients, device)
        except RuntimeError:
            return
        yield OperatorRate(family="attention", tokens=length, backward=False, per_s=flop / forward)
        yield OperatorRate(family="attention", tokens=length, backward=True, per_s=2.5 * flop / backward)


def _elementwise(sizes: OperatorSizes, device: torch.device) -> Iterator[OperatorRate]:
    """Values per second of an eager norm and an eager gated activation, forward."""
    for rows in sizes.rows:
        stream = torch.randn(rows, sizes.hidden, device=device, dtype=_DTYPE)
        weight = torch.ones(sizes.hidden, device=device, dtype=_DTYPE)
        gate, up = (torch.randn(rows, sizes.intermediate, device=device, dtype=_DTYPE) for _ in range(2))
        for family, work, values in (
            ("norm", partial(_normed, stream, weight), stream.numel()),
            ("gate", partial(_gated, gate, up), gate.numel()),
        ):
            seconds = _seconds(_without_host(work, device), device)
            yield OperatorRate(family=family, tokens=rows, backward=False, per_s=values / seconds)


def _normed(stream: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As transformers' Qwen2 and Llama have it."""
    wide = stream.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + _NORM_EPSILON)
    return weight * wide.to(stream.dtype)


def _gated(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate) * up


def _host(device: torch.device) -> Iterator[OperatorRate]:
    """Layers of Qwen2 per second that the host launches in a forward pass; nothing without transformers.

    As the table was measured: no gradients, and so few tokens that the GPU waits.
    """
    try:
        with torch.no_grad():
            few, many = [_wall_seconds(_forward_pass(layers, device), device) for layers in (_FEW, _MANY)]
    except ImportError:
        return
    if many > few:
        per_s = (_MANY - _FEW) / (many - few)
        yield OperatorRate(family="host", tokens=_LAUNCHED_TOKENS, backward=False, per_s=per_s)


def _forward_pass(layers: int, device: torch.device) -> Work:
    """A narrow model, on which no GPU computes as long as its kernels take to be launched."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        vocab_size=128,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=_DTYPE).to(device)  # type: ignore[no-untyped-call]
    ids = torch.ones(1, _LAUNCHED_TOKENS, dtype=torch.int64, device=device)
    return partial(model, input_ids=ids, use_cache=False)


def _without_host(work: Work, device: torch.device) -> Callable[[], object]:
    """The kernels replayed from a graph, where there are graphs."""
    if device.type != "cuda":
        return work
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _seconds(work: Work, device: torch.device) -> float:
    """Seconds of one repetition on the device."""
    if device.type == "cuda":
        return median(repeated(work, seconds=_FIGURE_S, warm_up=_FIGURE_S))
    return _wall_seconds(work, device)


def _wall_seconds(work: Work, device: torch.device) -> float:
    """Seconds of one repetition as the host sees it: many issued, the last one waited for."""
    work()
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    count = max(3, int(_FIGURE_S / max(time.perf_counter() - start, 1e-6)))
    start = time.perf_counter()
    for _ in range(count):
        work()
    _wait(device)
    return (time.perf_counter() - start) / count


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
