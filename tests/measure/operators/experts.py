"""Routed experts: rates of their grouped products, and what the host needs for a layer of them."""

from functools import partial

import torch
from measure.operators.layers import alone, seconds_per_layer
from measure.operators.shapes import Experts, Shapes, seconds_of
from measure.operators.single import Table, both_directions
from transformers import PreTrainedConfig, Qwen3MoeConfig

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


def host_seconds_of_experts(shapes: Shapes) -> list[dict[str, object]]:
    """Seconds of one layer whose experts run one after the other, and of one that runs them together."""
    with alone(shapes.device):
        return [
            {
                "experts": shapes.launched_experts.count,
                "implementation": implementation,
                **seconds_per_layer(
                    partial(_config, shapes.launched_experts, implementation), "plain", shapes
                ),
            }
            for implementation in ("eager", "grouped_mm")
        ]


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
