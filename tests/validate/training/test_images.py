"""Passes over images by our own engine: what they keep, what they train, and how many images they have."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from tests import workloads
from tests.memory.test_accuracy import PASS
from tuner.accuracy import MeasuredCase, workload_of
from tuner.memory.vision import activations
from tuner.models import find_config, find_model, shape_from_config
from tuner.models.shape import cut_config
from tuner.trace.storages import Storages
from tuner.validate.training.configured_passes import not_here
from tuner.validate.training.fitted_job import prompt_images, sequences_with_images
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import ModelSettings
from tuner.validate.training.worker import measure
from tuner.validate.training.worker.engine import TrainingEngine, switch_checkpointing

layers = pytest.importorskip("transformers.modeling_layers")

pytestmark = [
    pytest.mark.sampled(3),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

CPU = torch.device("cpu")
QWEN25, QWEN3, GEMMA = "Qwen2.5-VL-3B-Instruct", "Qwen3-VL-4B-Instruct", "gemma-3-4b-it"
TEXT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 512,
}
TOWER = {
    "depth": 3,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "out_hidden_size": 64,
    "deepstack_visual_indexes": [0],
    "num_position_embeddings": 64,
}
SECTIONS = {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3]}}
IMAGE_TOKEN = 500
#: Bytes per patch that are no activations: indices of windows, and of positions that a patch lies between.
INDICES = {QWEN25: 12, QWEN3: 48}


@pytest.fixture(autouse=True)
def _no_group_is_left() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def norms_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autocast runs LayerNorm in float32 on a GPU and not on a CPU."""
    plain = functional.layer_norm

    def in_float32(*values: Any, **named: Any) -> torch.Tensor:
        if torch.is_autocast_enabled("cpu"):
            values = tuple(each.float() if isinstance(each, torch.Tensor) else each for each in values)
        return plain(*values, **named)

    monkeypatch.setattr(functional, "layer_norm", in_float32)


def small(name: str) -> dict[str, Any]:
    values = {**find_config(name).values, "image_token_id": IMAGE_TOKEN}
    values["vision_config"] = {**values["vision_config"], **TOWER}
    if "text_config" not in values:
        return values | TEXT | SECTIONS
    return values | {"text_config": values["text_config"] | TEXT | SECTIONS}


def update(config: dict[str, Any], squares: int, **changes: Any) -> PlannedPass:
    """An update of one sequence with one image of so many tokens."""
    shape = shape_from_config(config, name="small", source="a test")
    assert shape.tower is not None
    one = {"world_size": 1, "tokens": 160, "sequence_length": 160, "use_torch_compile": False}
    image = {"images_per_prompt": 1, "image_pixels": shape.tower.pixels_of(squares), "temperature": 1.0}
    case = MeasuredCase.model_validate(PASS | one | image | changes)
    return next(each for each in planned_passes(workload_of(case, shape), processes=1) if each.training)


def kept(engine: TrainingEngine, planned: PlannedPass) -> int:
    """Bytes that live between forward and backward, beside the batch and the weights."""
    (batch,) = engine.batch(planned.settings)
    engine._module.train()
    known = list(engine._module.parameters()), list(engine._module.buffers()), vars(batch)
    with engine._packed(planned.settings, batch):
        with Storages(*known) as storages:
            loss, _ = engine._loss(planned.settings, batch)
            live = storages.live()
        loss.backward()  # type: ignore[no-untyped-call]
    return live


def predicted(planned: PlannedPass) -> float:
    """What the term says of a patch; recomputed blocks keep tables of their own where hooks stay outside."""
    tower, engine = planned.model.tower, planned.settings.engine
    assert tower is not None
    moment = next(each for each in planned.predicted.moments if each.name == "projection_backward")
    terms = {term.name: term.bytes for term in moment.terms}
    images = planned.settings.images
    assert images is not None
    if "tower_kept" not in terms:
        return 0.0
    cast = "__init_subclass__" in vars(layers.GradientCheckpointingLayer)  # since transformers 5.23
    of_blocks = tower.blocks * 2 * engine.compute_dtype.bytes * tower.head_dim
    tables = of_blocks - activations.tables_bytes(tower) if cast else 0
    return terms["tower_kept"] / (images.rows * images.columns) + tables


@pytest.mark.usefixtures("norms_as_on_a_gpu")
@pytest.mark.parametrize("name", [QWEN25, QWEN3])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_tower_keeps_what_is_predicted(name: str, frozen: bool) -> None:
    """Counted at two sizes of an image: what a further patch adds."""
    config = small(name)
    few, many = (update(config, squares, frozen_tower=frozen) for squares in (16, 64))
    measure.join_alone(CPU)
    engine = TrainingEngine(ModelSettings(config=config), few.settings.built, CPU)
    switch_checkpointing(engine._inner, few.settings.engine.checkpointing)
    added = (kept(engine, many) - kept(engine, few)) / (4 * (64 - 16))
    expected = predicted(many)
    assert 0 <= added - expected <= (INDICES[name] if expected else 0)
    tower = list(engine._inner.model.visual.parameters())
    assert all((weight.grad is None) == frozen for weight in tower)
    assert engine._optimizer is not None
    assert all((weight in engine._optimizer.state) != frozen for weight in tower)


@given(pixels=st.integers(1, 10**7), images=st.integers(1, 4))
def test_an_image_is_a_rectangle_of_as_many_patches_as_it_has(pixels: int, images: int) -> None:
    tower = find_model(QWEN3).tower
    assert tower is not None
    case = MeasuredCase.model_validate(PASS | {"images_per_prompt": images, "image_pixels": pixels})
    seen = prompt_images(case, tower)
    assert seen is not None
    assert seen.rows % tower.merge == seen.columns % tower.merge == 0
    assert seen.rows * seen.columns == tower.patches_per_token * seen.tokens
    assert seen.tokens == tower.tokens_of(pixels)


@given(sequences=st.integers(1, 8), spare=st.integers(1, 3000), images=st.integers(1, 3))
def test_a_micro_batch_has_as_many_images_here_as_in_the_job(sequences: int, spare: int, images: int) -> None:
    length = images * 64 + spare
    shape = find_model(QWEN3)
    pixels = images * 64 * 32**2 // images
    case = MeasuredCase.model_validate(
        PASS
        | {"model": QWEN3, "world_size": 1, "sequence_length": length, "tokens": length * sequences}
        | {"images_per_prompt": images, "image_pixels": pixels}
    )
    workload = workload_of(case, shape)
    (one, *_) = (step_pass for step_pass in workload.passes() if step_pass.training)
    assert sequences_with_images(case.tokens, workload.batch, one) == (sequences, length)


@pytest.mark.parametrize("name", [QWEN25, QWEN3, GEMMA])
def test_a_model_that_sees_is_cut_in_its_decoder(name: str) -> None:
    config = find_config(name).values
    whole, cut = find_model(name), shape_from_config(cut_config(config, 3), name=name, source="a test")
    assert cut.layers == 3
    assert cut.tower == whole.tower
    assert whole.parameters - cut.parameters == sum(whole.parameters_by_layer[3:])


@pytest.mark.parametrize(
    ("model", "change", "reason"),
    [
        (QWEN3, {}, None),
        (GEMMA, {"fused_kernels": "torch"}, "leaves the images"),
        (QWEN25, {"fused_kernels": "torch"}, None),
        (QWEN25, {"ulysses": 2, "world_size": 2}, "not shared"),
        (QWEN3, {"use_liger": True}, "iger's layers"),
        (QWEN25, {"frozen_tower": True, "strategy": "fsdp"}, "under FSDP1"),
        (QWEN25, {"frozen_tower": True}, None),
    ],
)
def test_what_is_not_run_of_models_that_see_is_said(
    model: str, change: dict[str, Any], reason: str | None
) -> None:
    shape = find_model(model)
    assert shape.tower is not None
    pixels = shape.tower.pixels_of(shape.tower.image_tokens or 64)
    image = {"model": model, "images_per_prompt": 1, "image_pixels": pixels}
    actor = workload_of(MeasuredCase.model_validate(PASS | image | change)).actor
    said = not_here(actor.engine, actor.head, shape)
    assert (said is None) if reason is None else reason in (said or "")


def test_parts_beside_the_decoder_that_are_no_known_tower_are_not_run() -> None:
    actor = workloads.grpo_7b().actor
    assert "more than a decoder" in (not_here(actor.engine, actor.head, find_model("GLM-4.1V-9B-Base")) or "")


def test_a_tower_is_trained_where_a_micro_batch_has_no_image() -> None:
    config = small(QWEN3)
    unseen = update(config, 16, images_per_prompt=0, image_pixels=0)
    assert unseen.settings.images is None
    measure.join_alone(CPU)
    engine = TrainingEngine(ModelSettings(config=config), unseen.settings.built, CPU)
    (batch, *_) = engine.batch(unseen.settings)
    assert not batch.images
    assert not (batch.input_ids == IMAGE_TOKEN).any()
    engine._forward_backward(unseen.settings, batch)
    gradients = [weight.grad for weight in engine._inner.model.visual.parameters()]
    assert all(gradient is not None and not gradient.to_local().any() for gradient in gradients)
