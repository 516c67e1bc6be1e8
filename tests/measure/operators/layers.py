"""What the host needs to launch one decoder layer: layers of so few tokens that the GPU waits for it.

Where several ranks share the layers they wait for each other, and the seconds are the slowest one's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial

import torch
import torch.distributed as dist
from measure.operators.group import host_seconds_of, slowest
from measure.operators.shapes import Decoder, Shapes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import AutoModelForCausalLM, PreTrainedConfig, Qwen2Config, Qwen3Config

_TOKENS = 64
_TENSORS = 200  # of an optimizer
_LAUNCHES = 2000
_UNSEEN = 3  # passes
_FEW, _MANY = 2, 10  # layers: their difference is what layers take, and nothing else


def host_seconds_of_a_layer(shapes: Shapes) -> Iterator[dict[str, object]]:
    """Seconds of one layer: forward alone, forward and backward with recomputation and without."""
    for decoder in shapes.launched:
        for engine in shapes.engines:
            yield {
                "ranks": dist.get_world_size(),
                "hidden": decoder.hidden,
                "query_key_norms": decoder.query_key_norms,
                "engine": engine,
                **seconds_per_layer(partial(_config, decoder), engine, shapes),
            }


def host_seconds_of_a_launch(shapes: Shapes) -> dict[str, float]:
    """Seconds between two of many kernels that add one value, on hosts whose ranks do so side by side."""
    value = torch.zeros(1, device=shapes.device)

    def launches() -> None:
        for _ in range(_LAUNCHES):
            value.add_(1)

    return {"kernel": round(host_seconds_of(launches, least=shapes.seconds) / _LAUNCHES, 9)}


def seconds_per_layer(
    config: Callable[[int], PreTrainedConfig], engine: str, shapes: Shapes
) -> dict[str, float]:
    """What layers take and nothing else: many of them less a few, over the difference.

    What the few take beside their layers is the rest of a pass: embedding, head, what an engine does once.

    Args:
        config: of the model with so many layers.
        engine: that wraps it.
        shapes: on which device, and for how long.
    """
    models = [_model(config(layers), engine, shapes.device) for layers in (_FEW, _MANY)]
    with nullcontext() if engine == "plain" else torch.autocast(shapes.device, torch.bfloat16):
        few, many = _pass_seconds(models, shapes)
    layer = {name: (many[name] - few[name]) / (_MANY - _FEW) for name in few}
    return {f"{name}_s": round(seconds, 6) for name, seconds in layer.items()} | {
        f"rest_{name}_s": round(few[name] - _FEW * seconds, 6) for name, seconds in layer.items()
    }


def _pass_seconds(models: Sequence[torch.nn.Module], shapes: Shapes) -> list[dict[str, float]]:
    """Of whole passes of each model, and of the forward half of those that train.

    One figure of all models after the other, since a host is not equally fast for long.
    """
    device, least = shapes.device, shapes.host_seconds
    figures: list[dict[str, float]] = [{} for _ in models]
    for model, seconds in zip(models, figures, strict=True):
        model.eval()  # in training layers would be prepared for recomputation, without gradients too
        seconds["forward"] = host_seconds_of(partial(_forward, model, device), least=least)
    for name in ("forward_backward", "kept"):
        for model, seconds in zip(models, figures, strict=True):
            model.train()
            if name == "kept":
                _switch_off_recomputation(model)
            halves: list[float] = []
            seconds[name] = host_seconds_of(partial(_step, model, device, halves), least=least)
            seconds[f"first_half_of_{name}"] = slowest(sum(halves[_UNSEEN:]) / len(halves[_UNSEEN:]))
    return figures


def host_seconds_of_an_optimizer(shapes: Shapes) -> Iterator[dict[str, object]]:
    """Seconds of clipping and AdamW per tensor: tensors so small that the GPU waits for the host.

    FSDP2's tensors are distributed ones, which PyTorch takes apart and wraps again for every operation.
    """
    for engine in ("plain", *(name for name in shapes.engines if name == "fsdp2")):
        seconds = round(_optimizer_seconds(engine, shapes), 8)
        yield {"ranks": dist.get_world_size(), "engine": engine, "tensor_s": seconds}


def _optimizer_seconds(engine: str, shapes: Shapes) -> float:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(_TENSORS)))
    model.to(shapes.device)
    if engine == "fsdp2":
        mesh = init_device_mesh(shapes.device, (dist.get_world_size(),))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6)

    def step() -> None:
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])
        torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)
        optimizer.step()

    return host_seconds_of(step, least=shapes.host_seconds) / len(parameters)


def _switch_off_recomputation(model: torch.nn.Module) -> None:
    for module in model.modules():
        if hasattr(module, "gradient_checkpointing"):
            module.gradient_checkpointing = False


def _config(decoder: Decoder, layers: int) -> PreTrainedConfig:
    sizes = {
        "hidden_size": decoder.hidden,
        "intermediate_size": decoder.intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": decoder.heads,
        "num_key_value_heads": decoder.kv_heads,
        "vocab_size": 1024,
        "use_cache": False,
    }
    return (
        Qwen3Config(head_dim=decoder.head_dim, **sizes) if decoder.query_key_norms else Qwen2Config(**sizes)
    )


def _model(config: PreTrainedConfig, engine: str, device: str) -> torch.nn.Module:
    config._attn_implementation = "sdpa"
    dtype = torch.bfloat16 if engine == "plain" else torch.float32
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if engine == "fsdp2":
        mesh = init_device_mesh(device, (dist.get_world_size(),))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    if engine == "fsdp":
        return FullyShardedDataParallel(
            model,
            auto_wrap_policy=ModuleWrapPolicy({type(model.model.layers[0])}),
            mixed_precision=MixedPrecision(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32
            ),
            device_id=torch.cuda.current_device() if device == "cuda" else None,
        )
    return model  # type: ignore[no-any-return]


def _tokens(device: str) -> dict[str, torch.Tensor]:
    ids = torch.arange(_TOKENS, device=device).view(1, -1)
    return {"input_ids": ids, "position_ids": ids}


def _forward(model: torch.nn.Module, device: str) -> None:
    with torch.no_grad():
        model(**_tokens(device), use_cache=False)


def _step(model: torch.nn.Module, device: str, halves: list[float]) -> None:
    begin = time.perf_counter()
    total = model(**_tokens(device), use_cache=False).logits.sum()
    halves.append(time.perf_counter() - begin)
    total.backward()
