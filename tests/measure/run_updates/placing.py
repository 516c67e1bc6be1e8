"""What an engine's worker does to place single experts, by the loops of vLLM's ``load_weights``."""

import time
from collections.abc import Callable, Iterator

import torch

_STACKED = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_PROJECTIONS = ("gate_proj", "down_proj", "up_proj")


def placing(
    device: torch.device, *, layers: int = 6, experts: int = 128, hidden: int = 2048
) -> dict[str, object]:
    """Seconds of each expert's tensor: placed three times over, its name alone, and copied into a bucket."""
    inner = 3 * hidden // 8
    joined = [
        torch.empty(experts, 2 * inner, hidden, device=device, dtype=torch.bfloat16) for _ in range(layers)
    ]
    down = [torch.empty(experts, hidden, inner, device=device, dtype=torch.bfloat16) for _ in range(layers)]
    parts = {name: torch.randn(inner, hidden, device=device) for name in ("gate_proj", "up_proj")}
    parts["down_proj"] = torch.randn(hidden, inner, device=device)
    sent = [
        (f"model.layers.{layer}.mlp.experts.{expert}.{name}.weight", layer, parts[name])
        for layer in range(layers)
        for expert in range(experts)
        for name in _PROJECTIONS
    ]

    mapping = [(f"experts.{one}.{name}.", one, name) for one in range(experts) for name in _PROJECTIONS]

    def place(name: str, layer: int, weight: torch.Tensor) -> None:
        expert, projection = _place_of(name, mapping)
        if projection == "down_proj":
            down[layer].data[expert].copy_(weight)
            return
        half = 0 if projection == "gate_proj" else inner
        joined[layer].data[expert].narrow(0, half, inner).copy_(weight)

    bucket = torch.empty(1 << 28, dtype=torch.uint8, device=device)
    return {
        "tensors": len(sent),
        "placed_s": [_each(device, lambda: [place(*one) for one in sent], len(sent)) for _ in range(3)],
        "names_s": _each(device, lambda: [_place_of(name, mapping) for name, _, _ in sent], len(sent)),
        "bucket_s": _each(device, lambda: _fill(bucket, (weight for _, _, weight in sent)), len(sent)),
    }


def _place_of(name: str, mapping: list[tuple[str, int, str]]) -> tuple[int, str]:
    """The expert and its projection, after as many comparisons as vLLM makes."""
    for part in _STACKED:
        if part in name and "mlp.experts" not in name:
            break
    return next((expert, projection) for part, expert, projection in mapping if part in name)


def _fill(bucket: torch.Tensor, weights: Iterator[torch.Tensor]) -> None:
    offset = 0
    for weight in weights:
        offset = 0 if offset + weight.nbytes > len(bucket) else offset
        place = bucket[offset : offset + weight.nbytes].view(dtype=weight.dtype).view(weight.shape)
        place.copy_(weight, non_blocking=True)
        offset += weight.nbytes


def _each(device: torch.device, work: Callable[[], object], count: int) -> float:
    begun = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return round((time.perf_counter() - begun) / count, 8)
