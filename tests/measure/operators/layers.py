"""What the host needs to launch one decoder layer: layers of so few tokens that the GPU waits for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from measure.operators.shapes import Decoder, Shapes, seconds_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config

_TOKENS = 64
_FEW, _MANY = 2, 10  # layers: their difference is what layers take, and nothing else


def host_seconds_of_a_layer(shapes: Shapes) -> list[dict[str, object]]:
    """Seconds of one layer forward without gradients, and forward and backward with recomputation."""
    with _alone(shapes.device):
        return [
            {
                "hidden": decoder.hidden,
                "query_key_norms": decoder.query_key_norms,
                "engine": engine,
                "forward_s": round(_per_layer(_forward, decoder, engine, shapes), 6),
                "forward_backward_s": round(_per_layer(_step, decoder, engine, shapes), 6),
            }
            for decoder in shapes.launched
            for engine in shapes.engines
        ]


def _per_layer(
    work: Callable[[torch.nn.Module, str], None], decoder: Decoder, engine: str, shapes: Shapes
) -> float:
    """What layers take and nothing else: many of them less a few, over the difference."""
    times = []
    for layers in (_FEW, _MANY):
        model = _model(decoder, layers, engine, shapes.device)
        times.append(seconds_of(partial(work, model, shapes.device), least=4 * shapes.seconds))
    return (times[1] - times[0]) / (_MANY - _FEW)


@contextmanager
def _alone(device: str) -> Iterator[None]:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def _model(decoder: Decoder, layers: int, engine: str, device: str) -> torch.nn.Module:
    sizes = {
        "hidden_size": decoder.hidden,
        "intermediate_size": decoder.intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": decoder.heads,
        "num_key_value_heads": decoder.kv_heads,
        "vocab_size": 1024,
        "use_cache": False,
    }
    config = (
        Qwen3Config(head_dim=decoder.head_dim, **sizes) if decoder.query_key_norms else Qwen2Config(**sizes)
    )
    config._attn_implementation = "sdpa"
    dtype = torch.bfloat16 if engine == "plain" else torch.float32
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).to(device).train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if engine == "fsdp2":
        mesh = init_device_mesh(device, (1,))
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


def _step(model: torch.nn.Module, device: str) -> None:
    model(**_tokens(device), use_cache=False).logits.sum().backward()
