"""Activation terms against what FakeTensor counts in transformers' own implementation, byte for byte.

Counted at two numbers of tokens: what each further token adds must be the formula, and what is left
over must be small. Three differences have names. LayerNorm keeps the layer's input, which is not counted
here, and on a CPU its statistics in bfloat16. How the weights of a token's experts are normalised is
some numbers per routed copy that the formulas leave out; and transformers before 5.11, the releases
that verl runs, keeps a flag per routed copy that later ones do not.
"""

import copy
import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner import shipped
from tuner.architectures import layer_traits, model_types
from tuner.memory.layer import activations
from tuner.model_shape import ModelShape
from tuner.models import shape_from_config
from tuner.models.library import read_profile
from tuner.workload import Checkpointing, Engine, Lora

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.integrations import moe as experts_code  # noqa: E402

from tuner.trace.count import count_layer  # noqa: E402

# Messages of transformers about its own future are not about the counts.
pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS = 4  # enough for every kind of layer, and quick to build
TOKENS = (512, 1024)
RANK = 16
# Later releases have the flag only where experts are spread over ranks.
KEEPS_FLAG = "sentinel_mask = None" not in inspect.getsource(experts_code.grouped_mm_experts_forward)

#: Why the layers of an architecture are not counted.
NOT_COUNTED = {
    "deepseek_v32": "scores of all keys and masks grow with the square of the tokens, and are left out",
    "glm4v": "the profile leaves out what transformers needs to rotate",
    "glm_moe_dsa": "scores of all keys and masks grow with the square of the tokens, and are left out",
    "gpt2": "GELU written out, in float32 under CUDA's autocast alone",
    "kimi_k2": "its code lives in the checkpoint's repository",
    "mimo": "its code lives in the checkpoint's repository",
    "phi": "GELU written out, in float32 under CUDA's autocast alone",
    "qwen3_5_moe_text": "the text part of qwen3_5_moe",
    "qwen3_5_text": "the text part of qwen3_5",
    "seed_oss": "drops out behind both blocks, which is not modelled",
}
RECOMPUTED = (
    "llama",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3_text",
    "phi3",
    "glm4",
    "qwen3_moe",
    "deepseek_v2",
    "deepseek_v3",
    "mixtral",
    "qwen2_moe",
)


@dataclass(frozen=True, kw_only=True)
class Slope:
    """What one token adds, and what is there for none."""

    saved: int
    forward: int
    backward: int
    left_over: tuple[float, float, float]


@cache
def configs() -> dict[str, dict[str, Any]]:
    found = [
        next(iter(read_profile(file).configs.values()))
        for file in sorted((shipped.profiles() / "models").glob("*.yaml"))
    ]
    return {config["model_type"]: config for config in found}


def shallow(architecture: str) -> dict[str, Any]:
    config = copy.deepcopy(configs()[architecture])
    for part in (config, config.get("text_config", {})):
        part.update({key: LAYERS for key in ("num_hidden_layers",) if key in part})
    return config


@cache
def slope(architecture: str, layer: int, rank: int = 0, *, checkpointed: bool = False) -> Slope:
    values = shallow(architecture)
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    few, many = (
        count_layer(config, layer, tokens=tokens, lora_rank=rank, checkpointed=checkpointed)
        for tokens in TOKENS
    )
    backward = "recomputed_peak_bytes" if checkpointed else "backward_peak_bytes"
    sizes = ("saved_bytes", "forward_peak_bytes", backward)
    found = [_line(getattr(few, name), getattr(many, name)) for name in sizes]
    (saved, forward, backward), left_over = zip(*found, strict=True)
    return Slope(saved=saved, forward=forward, backward=backward, left_over=left_over)


def _line(few: int, many: int) -> tuple[int, float]:
    per_token, rest = divmod(many - few, TOKENS[1] - TOKENS[0])
    assert not rest
    return per_token, few - per_token * TOKENS[0]


def shape_and_engine(
    architecture: str, rank: int = 0, checkpointing: Checkpointing = Checkpointing.NONE
) -> tuple[ModelShape, Engine]:
    shape = shape_from_config(shallow(architecture), name=architecture, source=architecture)
    engine = replace(
        workloads.grpo_0_5b().actor.engine,
        checkpointing=checkpointing,
        lora=Lora(rank=rank, parameters=1) if rank else None,
    )
    return shape, engine


def routing_numbers(shape: ModelShape, layer: int) -> tuple[int, int]:
    """Least and most that the count may have beyond the formula, per token."""
    if shape.moe is None or not shape.is_sparse(layer):
        return 0, 0
    flags = 0 if KEEPS_FLAG else -shape.moe.experts_per_token
    normalisation = 4 + 4 * shape.moe.experts_per_token  # their sum, and the weights before the division
    return flags, flags + normalisation


def statistics_not_seen(shape: ModelShape) -> int:
    """Mean and scale of a LayerNorm are float32 on a GPU and bfloat16 here."""
    return 4 * shape.norms_per_layer if layer_traits(shape.architecture).norms_keep_input else 0


def not_seen(shape: ModelShape) -> int:
    """What LayerNorms keep and this count does not see, the layer's input for one."""
    statistics = statistics_not_seen(shape)
    return statistics + 2 * shape.hidden if statistics else 0


def kinds_of_layers(architecture: str) -> tuple[int, ...]:
    """The first layer with a dense MLP and the first with experts, of those with full attention."""
    shape, _ = shape_and_engine(architecture)
    linear = () if shape.linear is None else shape.linear.layers
    full = [layer for layer in range(shape.layers) if layer not in linear]
    return tuple(sorted({shape.is_sparse(layer): layer for layer in reversed(full)}.values()))


COUNTED = {name: kinds_of_layers(name) for name in sorted(configs().keys() - NOT_COUNTED.keys())}
CASES = [(architecture, layer) for architecture, layers in COUNTED.items() for layer in layers]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("architecture", "layer"), CASES)
def test_a_layer_saves_what_is_counted(architecture: str, layer: int) -> None:
    shape, engine = shape_and_engine(architecture)
    least, most = routing_numbers(shape, layer)
    counted = slope(architecture, layer).saved + not_seen(shape)
    beyond = counted - activations.layer_saved_bytes(shape, engine, layer)
    assert least <= beyond <= most


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("architecture", "layer"), CASES)
def test_a_forward_pass_needs_what_is_counted(architecture: str, layer: int) -> None:
    if architecture == "olmo3":
        pytest.skip("rotates in float32 since transformers 5.11, not in the releases that verl runs")
    shape, engine = shape_and_engine(architecture)
    expected = activations.layer_inside_bytes(shape, engine, layer)
    assert slope(architecture, layer).forward - expected == routing_numbers(shape, layer)[0]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("architecture", "layer"), CASES)
def test_a_backward_pass_needs_what_is_counted(architecture: str, layer: int) -> None:
    shape, engine = shape_and_engine(architecture)
    expected = activations.gradients_in_flight_bytes(shape, engine, layer)
    assert slope(architecture, layer).backward == expected


@pytest.mark.sampled(16)
@pytest.mark.parametrize("architecture", RECOMPUTED)
def test_a_layer_that_is_computed_again_needs_no_more(architecture: str) -> None:
    layer = COUNTED[architecture][-1]
    shape, engine = shape_and_engine(architecture, checkpointing=Checkpointing.FULL)
    again = slope(architecture, layer, checkpointed=True)
    assert again.backward == activations.gradients_in_flight_bytes(shape, engine, layer)


# In GLM-4.5's dense layers 96 heads need more than the MLP; the sparse ones need the most of all.
@pytest.mark.sampled(24)
@pytest.mark.parametrize(("architecture", "layer"), [case for case in CASES if case != ("glm4_moe", 0)])
def test_adapters_leave_what_is_counted(architecture: str, layer: int) -> None:
    shape, engine = shape_and_engine(architecture, RANK)
    counted = slope(architecture, layer, RANK)
    least, most = routing_numbers(shape, layer)
    saved = counted.saved + not_seen(shape)
    assert least <= saved - activations.layer_saved_bytes(shape, engine, layer) <= most
    assert counted.backward == activations.gradients_in_flight_bytes(shape, engine, layer)
    if architecture != "olmo3":
        assert counted.forward - activations.layer_inside_bytes(shape, engine, layer) == least


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("architecture", "layer"), CASES)
def test_what_does_not_grow_with_the_tokens_is_small(architecture: str, layer: int) -> None:
    """Float32 copies of norms' weights, a router's weight for autocast, offsets of experts."""
    shape, _ = shape_and_engine(architecture)
    norms = 4 * shape.norms_per_layer * shape.hidden + 8 * shape.head_dim
    router = 0 if shape.moe is None else 2 * shape.moe.experts * (shape.hidden + 4)
    bound = norms + router + 64
    assert all(abs(rest) <= bound for rest in slope(architecture, layer).left_over)


def test_every_architecture_is_counted_or_says_why_not() -> None:
    assert set(COUNTED) | set(NOT_COUNTED) == set(model_types())
    assert not set(COUNTED) & set(NOT_COUNTED)
