"""Routed experts: rates of their grouped products, and what the host needs for a layer of them."""

from collections.abc import Iterator
from functools import partial

import torch
import torch.distributed as dist
from measure.operators.elementwise import seconds_of_gate
from measure.operators.layers import seconds_per_layer
from measure.operators.shapes import Experts, Shapes, seconds_of
from measure.operators.single import Table, both_directions, copy_rate
from transformers import PreTrainedConfig, Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

_DTYPE = torch.bfloat16
_CHOSEN = 8  # experts of a token


def grouped(shapes: Shapes) -> Table:
    """An expert layer's grouped products, by expert width (rows) and tokens of an expert (columns).

    Shares of the peak, with both gradients backward; weights are read once by each product.
    """
    table: Table = {
        "sizes": [min(experts.hidden, experts.intermediate) for experts in shapes.experts],
        "tokens": list(shapes.expert_rows),
    }
    rates = [[_rates(experts, rows, shapes) for rows in shapes.expert_rows] for experts in shapes.experts]
    return table | both_directions(rates, shapes)


def _rates(experts: Experts, rows: int, shapes: Shapes) -> tuple[float, float]:
    """Products into the gate and the activation, and out of the activation."""
    ends = torch.arange(1, experts.count + 1, device=shapes.device, dtype=torch.int32) * rows
    forward_s = backward_s = flop = 0.0
    for inner, outer in ((experts.hidden, 2 * experts.intermediate), (experts.intermediate, experts.hidden)):
        weights = torch.randn(experts.count, outer, inner, device=shapes.device, dtype=_DTYPE) * 0.02
        weights.requires_grad_()
        values = torch.randn(experts.count * rows, inner, device=shapes.device, dtype=_DTYPE)
        values.requires_grad_()
        multiply = partial(torch._grouped_mm, values, weights.transpose(-2, -1), offs=ends)
        with torch.no_grad():
            forward_s += seconds_of(multiply, least=shapes.seconds)
        output = multiply()
        backward = partial(
            torch.autograd.grad, output, (values, weights), torch.randn_like(output), retain_graph=True
        )
        backward_s += seconds_of(backward, least=shapes.seconds)
        flop += 2 * experts.count * rows * inner * outer
    return flop / forward_s, 2 * flop / backward_s


def routing(shapes: Shapes) -> dict[str, list[float]]:
    """Bytes per hidden value of a token's copy, at the rate of a copy on the card, of routing it and back.

    What a block of experts takes beside their products and activations: the router, sorting, gathering,
    weighting, adding up. Columns by tokens, for the first experts of the shapes.
    """
    experts, rate = shapes.experts[0], copy_rate(shapes)
    chosen = min(_CHOSEN, experts.count)
    table: dict[str, list[float]] = {"tokens": [], "values": [], "forward": [], "backward": []}
    for rows in shapes.expert_rows[1:]:
        tokens = rows * experts.count // chosen
        block, known = _block_seconds(experts, tokens, shapes), _known_seconds(experts, rows, shapes)
        values = tokens * chosen * experts.hidden
        table["tokens"].append(tokens)
        table["values"].append(values)
        for direction, whole, part in zip(("forward", "backward"), block, known, strict=True):
            table[direction].append(round((whole - part) * rate / values, 2))
    return table


def _block_seconds(experts: Experts, tokens: int, shapes: Shapes) -> tuple[float, float]:
    config = _config(experts, "grouped_mm", 1)
    block = Qwen3MoeSparseMoeBlock(config).to(shapes.device, _DTYPE)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    values = torch.randn(1, tokens, experts.hidden, device=shapes.device, dtype=_DTYPE, requires_grad=True)
    trained = (values, *block.parameters())
    gradient = torch.randn_like(values)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            output = block(values)
        return output[0] if isinstance(output, tuple) else output  # type: ignore[no-any-return]

    def both() -> object:
        output = block(values)
        output = output[0] if isinstance(output, tuple) else output
        return torch.autograd.grad(output, trained, gradient)

    first = seconds_of(forward, least=shapes.seconds)
    return first, seconds_of(both, least=shapes.seconds) - first


def _known_seconds(experts: Experts, rows: int, shapes: Shapes) -> tuple[float, float]:
    """The products, of as many tokens for each expert, and the activation."""
    flop = 6 * experts.count * rows * experts.hidden * experts.intermediate
    forward, backward = _rates(experts, rows, shapes)
    gate = seconds_of_gate(shapes, experts.count * rows * experts.intermediate)
    return flop / forward + gate[0], 2 * flop / backward + gate[1]


def host_seconds_of_experts(shapes: Shapes) -> Iterator[dict[str, object]]:
    """Seconds of one layer whose experts run one after the other, and of one that runs them together."""
    for implementation in ("eager", "grouped_mm"):
        yield {
            "ranks": dist.get_world_size(),
            "experts": shapes.launched_experts.count,
            "implementation": implementation,
            **seconds_per_layer(partial(_config, shapes.launched_experts, implementation), "plain", shapes),
        }


def _config(experts: Experts, implementation: str, layers: int) -> PreTrainedConfig:
    return Qwen3MoeConfig(
        hidden_size=experts.hidden,
        intermediate_size=experts.intermediate,
        moe_intermediate_size=experts.intermediate,
        num_experts=experts.count,
        num_experts_per_tok=min(_CHOSEN, experts.count),
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=experts.hidden // 8,
        vocab_size=1024,
        use_cache=False,
        experts_implementation=implementation,
    )
