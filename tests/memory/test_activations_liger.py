"""Activation terms of Liger's layers against what FakeTensor counts in Liger's own code, byte for byte.

The layers are transformers', changed as verl has Liger change them. Tensors have no data, so kernels are not
launched; what Liger allocates for them, keeps and writes over is counted. How many tiles of tokens the
experts get depends on data, and is left out: a few numbers for each of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.memory import test_activations_traced as traced
from tests.memory import test_backward_stages as staged
from tuner.architectures import find_architecture
from tuner.memory.layer import activations, norms
from tuner.memory.layer.backward_stages import backward_stages
from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing, Engine

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("liger_kernel")

from tuner.trace import count  # noqa: E402
from tuner.validate.training.worker import model  # noqa: E402

# Messages of transformers and of Liger about what they do not find are not about the counts.
pytestmark = pytest.mark.filterwarnings("ignore")

#: Multimodal architectures whose layers are those of a counted one.
LIKE_ANOTHER = {"gemma3", "qwen2_5_vl", "qwen2_vl", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}
#: Layers of each architecture that Liger has layers for.
COUNTED = [
    (architecture, layer)
    for architecture, layer in traced.CASES
    if find_architecture(architecture).liger_layers and architecture not in LIKE_ANOTHER
]
# gpt-oss' experts stay transformers' own; what their weights need for none of the tokens is in the counts.
RECOMPUTED = [case for case in COUNTED if case[0] != "gpt_oss"]
STAGES = [("llama", 0), ("qwen3", 0), ("gemma2", 0), ("phi3", 0), ("qwen3_moe", 0), ("deepseek_v2", 1)]


@contextmanager
def launching_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from liger_kernel.ops import fused_moe
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    with monkeypatch.context() as patch:
        for kind in (JITFunction, Autotuner):
            patch.setattr(kind, "run", lambda *_, **__: None)
        patch.setattr(fused_moe, "compute_routing_metadata", _metadata)
        yield


def _metadata(chosen: Any, experts: int, *_: Any) -> tuple[Any, ...]:
    """Liger's tables of where every copy of a token goes, for no tiles."""

    def numbers(*shape: int) -> Any:
        return torch.empty(*shape, dtype=torch.int32)

    copies = chosen.numel()
    orders = [numbers(copies) for _ in range(3)]
    return numbers(experts), numbers(experts + 1), *orders, numbers(0), numbers(0)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layers are Liger's in all that is counted meanwhile."""
    build: Callable[[Any], Any] = count.text_decoder

    def text_decoder(config: Any) -> Any:
        model.restore_modules()
        decoder = build(config)
        _fuse(decoder)
        return decoder

    from liger_kernel.backends import available_impls
    from transformers.activations import ACT2FN

    monkeypatch.setitem(ACT2FN, "relu2", ACT2FN.get("relu2"))  # Liger leaves its own there
    available_impls("rope")  # what it cannot import leaves errors behind that keep tensors alive
    monkeypatch.setattr(count, "text_decoder", text_decoder)
    with launching_nothing(monkeypatch):
        yield
    model.restore_modules()


def _fuse(decoder: Any) -> None:
    """Nemotron's patch is the one that wants the whole model, with the decoder inside."""
    if decoder.config.model_type != "nemotron":
        model.fuse_layers(decoder)
        return
    from liger_kernel.transformers.monkey_patch import apply_liger_kernel_to_nemotron

    whole = SimpleNamespace(model=decoder)
    apply_liger_kernel_to_nemotron(fused_linear_cross_entropy=False, model=whole)


def counted(architecture: str, layer: int, *, checkpointed: bool = False) -> traced.Slope:
    return traced.slope.__wrapped__(architecture, layer, checkpointed=checkpointed)


def shape_and_engine(architecture: str, checkpointing: Checkpointing) -> tuple[ModelShape, Engine]:
    shape, engine = traced.shape_and_engine(architecture, checkpointing=checkpointing)
    return shape, replace(engine, fused_layers=True)


@pytest.mark.sampled(20)
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(("architecture", "layer"), COUNTED)
def test_a_layer_needs_what_is_counted(architecture: str, layer: int) -> None:
    """The layer's input, which the first norm keeps, is there before it and not in the count."""
    shape, engine = shape_and_engine(architecture, Checkpointing.NONE)
    found = counted(architecture, layer)
    least, most = (
        traced.routing_numbers(shape, layer) if architecture == "gpt_oss" else _numbers(shape, layer)
    )
    again = replace(engine, checkpointing=Checkpointing.FULL)
    beside = norms.input_kept_twice_bytes(shape, again)
    assert beside == (0 if architecture.startswith("olmo") else 2 * shape.hidden)
    saved = activations.layer_saved_bytes(shape, engine, layer) - beside
    assert least <= found.saved + traced.statistics_not_seen(shape) - saved <= most
    assert found.forward - activations.layer_inside_bytes(shape, engine, layer) == least
    assert found.backward == activations.gradients_in_flight_bytes(shape, engine, layer)


def _numbers(shape: ModelShape, layer: int) -> tuple[int, int]:
    """As in the other counts, without the flags, which Liger's experts do not have."""
    least, most = traced.routing_numbers(shape, layer)
    return 0, most - least


@pytest.mark.sampled(20)
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(("architecture", "layer"), RECOMPUTED)
def test_a_layer_that_is_computed_again_needs_what_is_counted(architecture: str, layer: int) -> None:
    shape, engine = shape_and_engine(architecture, Checkpointing.FULL)
    found = counted(architecture, layer, checkpointed=True)
    saved = activations.layer_saved_bytes(shape, engine, layer)
    predicted = saved + activations.gradients_in_flight_bytes(shape, engine, layer)
    found_bytes = found.saved + traced.statistics_not_seen(shape) + found.backward
    assert 0 <= found_bytes - predicted <= _numbers(shape, layer)[1]


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(
    ("architecture", "layer", "checkpointed"),
    # Where Phi-3's layers are kept, their forward pass needs the most, which is no stage of the other.
    [(*case, again) for case in STAGES for again in (False, True) if again or case[0] != "phi3"],
)
def test_the_largest_stage_is_what_the_layer_needs(architecture: str, layer: int, checkpointed: bool) -> None:
    """As of transformers' own layers; the layer's input is not in the count of layers that are kept."""
    checkpointing = Checkpointing.FULL if checkpointed else Checkpointing.NONE
    shape, engine = shape_and_engine(architecture, checkpointing)
    kept = 0 if checkpointed else engine.compute_dtype.bytes * shape.hidden
    events = staged.counted.__wrapped__(architecture, layer, checkpointed=checkpointed)
    stages = backward_stages(shape, engine, layer)
    output = engine.compute_dtype.bytes * shape.hidden
    for tokens in (512, 2048, 4096, 8192, 32768):
        needed = max(
            gradients + others * tokens // staged.COUNTED_TOKENS + kept * tokens
            for gradients, others in events
        )
        found = max(
            engine.compute_dtype.bytes * each.gradients + tokens * each.activations for each in stages
        )
        assert needed - 1.01 * tokens * output <= found <= 1.0005 * needed


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma2"])
def test_attention_needs_what_is_counted(architecture: str) -> None:
    """With the gradient of the layer's output, which the count holds to the end."""
    shape, engine = shape_and_engine(architecture, Checkpointing.FULL)
    events = dict(staged.counted.__wrapped__(architecture, 0, checkpointed=True))
    compute, hidden = engine.compute_dtype.bytes, shape.hidden
    done = shape.mlp_parameters(0) + shape.heads * shape.head_dim * hidden
    (stage,) = (each for each in backward_stages(shape, engine, 0) if each.gradients == done)
    # Weights of norms, with their gradients by then, are few.
    (counted,) = (others for gradients, others in events.items() if 0 <= gradients - compute * done < 1e5)
    assert counted // staged.COUNTED_TOKENS == stage.activations + compute * hidden
