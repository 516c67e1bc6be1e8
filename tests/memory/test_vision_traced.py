"""What a vision tower keeps and needs against what is counted in transformers' own towers, byte for byte.

Counted at two numbers of patches: what each further patch adds must be the formula. Attention is flash
attention over packed patches as transformers calls it, which takes queries, keys and values as they lie.
A whole tower, small and with data, is counted in its own forward pass.
"""

import copy
import importlib
from functools import cache
from typing import Any

import pytest

from tests import workloads
from tuner.memory.vision import activations
from tuner.models import find_config, find_model, shape_from_config
from tuner.vision_tower import VisionTower

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tuner.trace.autocast import COMPUTE, autocast  # noqa: E402
from tuner.trace.storages import Storages  # noqa: E402

pytestmark = [pytest.mark.sampled(6), pytest.mark.filterwarnings("ignore")]

FLASH = "flash_attention_of_views"
IMAGE_PATCHES = 64**2  # of an image of Gemma's
PATCHES = (IMAGE_PATCHES, 2 * IMAGE_PATCHES)
ENGINE = workloads.grpo_7b().actor.engine
MODELS = ("Qwen2-VL-2B-Instruct", "Qwen2.5-VL-7B-Instruct", "Qwen3-VL-8B-Instruct")
GEMMA = "gemma-3-4b-it"
TOWERS = {
    "qwen2_vl": "Qwen2VisionTransformerPretrainedModel",
    "qwen2_5_vl": "Qwen2_5_VisionTransformerPretrainedModel",
    "qwen3_vl": "Qwen3VLVisionModel",
}
#: Indices of windows and of the learned positions that an image's patches lie between, which are left out.
INDICES = {"qwen2_vl": 0, "qwen2_5_vl": 8, "qwen3_vl": 36}


def shape(model: str) -> VisionTower:
    tower = find_model(model).tower
    assert tower is not None
    return tower


@cache
def counted(model: str, part: str, *, frozen: bool = False) -> tuple[int, int, int]:
    """Bytes per patch of a block or the merger: saved, in flight backward, at once forward with the input."""
    few, many = (_count(model, part, patches, frozen=frozen) for patches in PATCHES)
    slopes = [divmod(more - less, PATCHES[1] - PATCHES[0]) for less, more in zip(few, many, strict=True)]
    assert not any(rest for _, rest in slopes)
    saved, backward, forward = (slope for slope, _ in slopes)
    return saved, backward, forward


def _count(model: str, part: str, patches: int, *, frozen: bool = False) -> tuple[int, int, int]:
    with FakeTensorMode(), torch.device("cpu"):
        module, size, named = (_siglip if model == GEMMA else _qwen)(model, part, patches)
        module.requires_grad_(not frozen)
        hidden = torch.empty(*size, dtype=COMPUTE)
        forward = Storages(list(module.parameters()), named)
        with torch.no_grad(), forward, autocast():
            module(torch.empty(*size, dtype=COMPUTE), **named)
        hidden.requires_grad_()
        with Storages(list(module.parameters()), hidden, named) as storages:
            with autocast():
                output = module(hidden, **named)
            own = storages.numbers(output)
            saved, start = storages.live(without=own), len(storages.events)
            storages.backward = True
            torch.autograd.backward([output], [torch.empty_like(output)])
            weights = set() if frozen else storages.numbers([each.grad for each in module.parameters()])
            backward = storages.peak(start, without=weights | own)
    return saved, backward, forward.peak()


def _qwen(model: str, part: str, patches: int) -> tuple[Any, tuple[int, ...], dict[str, Any]]:
    """A part of a tower of Qwen-VL, the size of what it reads, and what else it is given."""
    tower = _tower(model)
    width, heads = shape(model).width, shape(model).heads
    if part == "merger":
        return tower.merger, (patches, width), {}
    tables = (torch.empty(patches, width // heads), torch.empty(patches, width // heads))
    ends = torch.zeros(2, dtype=torch.int32)
    named = {"cu_seqlens": ends, "max_seqlen": patches, "position_embeddings": tables}
    return tower.blocks[0], (patches, width), named


def _siglip(model: str, part: str, patches: int) -> tuple[Any, tuple[int, ...], dict[str, Any]]:
    """The same of Gemma's; its merger reads whole images, behind the tower's last norm."""
    from transformers.initialization import no_init_weights
    from transformers.modeling_utils import local_torch_dtype
    from transformers.models.gemma3.modeling_gemma3 import Gemma3MultiModalProjector
    from transformers.models.siglip.modeling_siglip import SiglipVisionModel

    own = {key: value for key, value in config(model, num_hidden_layers=1).items() if key != "model_type"}
    whole = transformers.AutoConfig.for_model("gemma3", **own)
    kind = SiglipVisionModel
    with no_init_weights():  # which looks at values that fake tensors do not have
        tower = kind._from_config(whole.vision_config, dtype=COMPUTE, attn_implementation="eager")
    if part == "merger":
        with local_torch_dtype(COMPUTE):
            merger = torch.nn.Sequential(tower.post_layernorm, Gemma3MultiModalProjector(whole))
        return merger, (patches // IMAGE_PATCHES, IMAGE_PATCHES, shape(model).width), {}
    transformers.AttentionInterface.register(FLASH, _flash_attention)
    tower.config._attn_implementation = FLASH
    return tower.encoder.layers[0], (1, patches, shape(model).width), {"attention_mask": None}


def _tower(model: str) -> Any:
    tower = _built(config(model, depth=1, deepstack_visual_indexes=[]), "eager")
    transformers.AttentionInterface.register(FLASH, _flash_attention)
    tower.config._attn_implementation = FLASH
    return tower


def config(model: str, **vision: Any) -> dict[str, Any]:
    """The configuration of a model with some keys of its tower changed that it has."""
    values = copy.deepcopy(dict(find_config(model).values))
    tower = values["vision_config"]
    tower.update({key: value for key, value in vision.items() if key in tower})
    return values


def _built(values: dict[str, Any], attention: str) -> Any:
    kind = values["model_type"]
    own = {key: value for key, value in values.items() if key != "model_type"}
    vision = transformers.AutoConfig.for_model(kind, **own).vision_config
    code = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    return getattr(code, TOWERS[kind])._from_config(vision, dtype=COMPUTE, attn_implementation=attention)


def _flash_attention(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> tuple[Any, None]:
    packed = [states.transpose(1, 2).squeeze(0) for states in (query, key, value)]
    patches, starts = packed[0].size(0), torch.empty(2, dtype=torch.int32)
    output = torch.ops.aten._flash_attention_forward(
        *packed, starts, starts, patches, patches, 0.0, False, False
    )[0]
    return output.unsqueeze(0), None


@pytest.mark.parametrize("model", [*MODELS, GEMMA])
def test_a_block_keeps_and_needs_what_is_counted(model: str) -> None:
    tower = shape(model)
    assert counted(model, "block") == (
        activations.block_saved_bytes(tower, ENGINE),
        activations.block_backward_bytes(tower, ENGINE),
        activations.block_forward_bytes(tower, ENGINE),
    )


@pytest.mark.parametrize("model", MODELS)
def test_a_frozen_block_and_merger_keep_what_is_counted(model: str) -> None:
    tower = shape(model)
    assert counted(model, "block", frozen=True)[0] == activations.block_saved_bytes(
        tower, ENGINE, frozen=True
    )
    merger = activations.merger_saved_bytes(tower, ENGINE, frozen=True)
    assert counted(model, "merger", frozen=True)[0] == merger


@pytest.mark.parametrize("model", MODELS)
def test_a_merger_keeps_what_is_counted(model: str) -> None:
    assert counted(model, "merger")[0] == activations.merger_saved_bytes(shape(model), ENGINE)


def test_a_merger_of_means_keeps_what_is_counted() -> None:
    """Rounded up to whole bytes: of a mean, each of its patches has a sixteenth."""
    few, many = (_count(GEMMA, "merger", patches)[0] for patches in PATCHES)
    formula = activations.merger_saved_bytes(shape(GEMMA), ENGINE)
    assert 0 <= formula - (many - few) / (PATCHES[1] - PATCHES[0]) < 1


@pytest.mark.parametrize("model", MODELS)
def test_a_whole_tower_that_is_computed_again_keeps_what_is_counted(model: str) -> None:
    small = {"hidden_size": 128, "embed_dim": 128, "intermediate_size": 256, "out_hidden_size": 64}
    if model.startswith("Qwen2-VL"):
        del small["hidden_size"]  # the language model's
    values = config(model, depth=4, deepstack_visual_indexes=[1, 2], num_position_embeddings=64, **small)
    tower = shape_from_config(values, name="small", source="test").tower
    assert tower is not None
    made = _built(values, "sdpa").train()
    made.gradient_checkpointing_enable({"use_reentrant": False})
    few, many = (_kept(made, tower, side) for side in (16, 32))
    per_patch = (many - few) / (32**2 - 16**2)
    mergers = tower.mergers * activations.merger_saved_bytes(tower, ENGINE)
    inputs = tower.blocks * ENGINE.compute_dtype.bytes * tower.width
    formula = activations.patch_bytes(tower, ENGINE) + inputs + mergers
    assert 0 <= per_patch - formula <= INDICES[values["model_type"]]


def _kept(made: Any, tower: VisionTower, side: int) -> int:
    grid = torch.tensor([[1, side, side]])
    with Storages(list(made.parameters()), list(made.buffers()), grid) as storages:
        with autocast():
            output = made(torch.zeros(side**2, tower.values, dtype=COMPUTE), grid_thw=grid)
        embeddings = (output.pooler_output, getattr(output, "deepstack_features", None))
        own = storages.numbers(embeddings)
        del output  # and with it the last hidden states, which the model does not return
        return storages.live(without=own)
