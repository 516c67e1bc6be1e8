"""Random images in a micro-batch, as the processors of Qwen-VL and Gemma 3 hand them to verl.

B: sequences. L: tokens of a sequence. T: tokens of the micro-batch. P: patches of all its images.
"""

from types import MethodType
from typing import Any

import torch
from torch import Tensor

from tuner.validate.training.settings import PromptImages

_FIXED_SIZE = "gemma3"  # whose images all have one size and go through the tower as a batch
_EMPTY = 4  # patches along either side of the image that verl makes up where there is none
_AXES = 4  # positions of a token in Qwen-VL: in the text, and in time, height and width
#: What transformers' output heads hand on of the model below them: since 5.17, and since 5.24.
_HANDED_ON = ("rope_deltas", "image_outputs", "video_outputs")
#: The parts of a rotated head for time, height and width, where a configuration leaves them out.
#: Source: the configurations that Qwen publishes; no size depends on them.
ROTARY_SECTIONS: dict[str, dict[str, Any]] = {
    "qwen2_vl": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "qwen2_5_vl": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "qwen3_vl": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
    "qwen3_vl_moe": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
}


def with_rotary_sections(values: dict[str, Any]) -> dict[str, Any]:
    """A ``config.json`` whose rotary sections are named, which transformers asks Qwen-VL's for."""
    sections = ROTARY_SECTIONS.get(values["model_type"])
    text = values.get("text_config", values)
    if sections is None or text.get("rope_scaling") or text.get("rope_parameters"):
        return values
    added = {"rope_scaling": dict(sections)}
    return values | (added if text is values else {"text_config": text | added})


def sees(config: Any) -> bool:
    """Whether a model of this configuration of transformers has a vision tower."""
    return hasattr(config, "vision_config")


def place_tokens(tokens_BL: Tensor, images: PromptImages | None, config: Any) -> None:
    """Put the tokens that stand for images at the beginning of every sequence, and nowhere else.

    Raises:
        ValueError: they do not fit.
    """
    special = {getattr(config, f"{kind}_token_id", None) for kind in ("image", "video")} - {None}
    for token in special:
        tokens_BL[tokens_BL == token] = 0
    if images is None:
        return
    count = images.per_prompt * images.tokens
    if count >= tokens_BL.shape[1]:
        raise ValueError(f"{count} tokens of images do not fit into {tokens_BL.shape[1]}")
    tokens_BL[:, :count] = config.image_token_id


def positions(lengths: int, count: int, config: Any) -> Tensor:
    """``[1, T]``, of Qwen-VL ``[4, 1, T]``: the values do not matter to the memory, so all are the text's."""
    text_1T = torch.arange(lengths).repeat(count)[None]
    return text_1T.repeat(_AXES, 1, 1) if sees(config) and config.model_type != _FIXED_SIZE else text_1T


def inputs(
    images: PromptImages | None, config: Any, count: int, length: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """What a micro-batch of so many sequences hands to the model beside its tokens; nothing without images.

    Numbers are float32 and stay on the host: FSDP moves and casts them.

    Source: verl 0.9.1 ``utils/model.py`` (``extract_multi_modal_inputs``), which joins the sequences' images.
    """
    if images is None:
        return {}
    number, vision = count * images.per_prompt, config.vision_config
    if config.model_type == _FIXED_SIZE:
        types_BL = torch.zeros(count, length, dtype=torch.long)
        types_BL[:, : images.per_prompt * images.tokens] = 1
        size = images.rows * vision.patch_size, images.columns * vision.patch_size
        pixels = torch.randn(number, vision.num_channels, *size, generator=generator)
        return {"pixel_values": pixels, "token_type_ids": types_BL.view(1, -1)}
    values = 3 * vision.temporal_patch_size * vision.patch_size**2
    patches = number * images.rows * images.columns
    return {
        "pixel_values": torch.randn(patches, values, generator=generator),
        "image_grid_thw": torch.tensor([[1, images.rows, images.columns]] * number),
    }


def freeze_tower(model: Any) -> None:
    """Let the tower need no gradients, where it has the name that verl looks for.

    Source: verl 0.7.1 ``workers/fsdp_workers.py`` (``get_vl_model_vision_tower``).
    """
    inner = getattr(model, "model", model)
    if hasattr(inner, "visual"):
        inner.visual.requires_grad_(False)


def see_as_verl(model: Any) -> None:
    """Replace the forward pass of the model under a Qwen-VL's output head by one that does what verl's does.

    transformers' own holds all that the tower returned until the decoder is done.

    Source: verl 0.9.1 ``models/transformers/qwen2_vl.py`` (``qwen2_vl_base_forward``), ``qwen3_vl.py``
    (``qwen3_vl_base_forward``).
    """
    if model.config.model_type in ROTARY_SECTIONS:
        model.model.forward = MethodType(_forward, model.model)


def _forward(self: Any, input_ids: Tensor, **others: Any) -> Any:
    images = {name: others.pop(name, None) for name in ("pixel_values", "image_grid_thw")}
    given = {name: value for name, value in others.items() if value is not None}
    output = self.language_model(input_ids=None, **_embedded(self, input_ids, **images), **given)
    for name in _HANDED_ON:
        setattr(output, name, None)
    return output


def _embedded(
    model: Any, input_ids: Tensor, pixel_values: Tensor | None, image_grid_thw: Tensor | None
) -> dict[str, Any]:
    """Embeddings with those of the images in their places, and what goes into further layers."""
    embeddings = model.get_input_embeddings()(input_ids)
    if pixel_values is None:
        return {"inputs_embeds": embeddings + _nothing_seen(model, embeddings)}
    tokens, further = _tower(model, pixel_values, image_grid_thw)
    mask = input_ids == model.config.image_token_id
    everywhere = mask.unsqueeze(-1).expand_as(embeddings)
    embeddings = embeddings.masked_scatter(everywhere, tokens.to(embeddings.dtype))
    if not further:
        return {"inputs_embeds": embeddings}
    masks = {"visual_pos_masks": everywhere[..., 0], "deepstack_visual_embeds": further}
    return {"inputs_embeds": embeddings, **masks}


def _nothing_seen(model: Any, embeddings: Tensor) -> Tensor:
    """Zero, from an empty image, so that a tower has gradients where there is no image."""
    vision = model.config.vision_config
    values = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    pixels = torch.zeros(_EMPTY**2, values, dtype=embeddings.dtype, device=embeddings.device)
    grid = torch.tensor([[1, _EMPTY, _EMPTY]], device=embeddings.device)
    tokens, further = _tower(model, pixels, grid)
    return 0.0 * sum((item.mean() for item in further), tokens.mean())


def _tower(model: Any, pixel_values: Tensor, grid: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Tokens of all images, and those of further mergers."""
    returned = model.visual(pixel_values.type(model.visual.dtype), grid_thw=grid)
    return returned.pooler_output, getattr(returned, "deepstack_features", None) or []
