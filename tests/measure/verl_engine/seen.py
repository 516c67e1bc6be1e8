"""Random images in a batch, as the processors of Qwen-VL and Gemma 3 hand them to verl."""

from math import isqrt
from typing import Any

import torch
from measure.verl_engine.settings import PassSettings


def place_images(tokens: torch.Tensor, settings: PassSettings, config: Any) -> None:
    """Puts the tokens that stand for images at the beginning of every prompt, and nowhere else."""
    if not hasattr(config, "vision_config"):
        return
    special = {getattr(config, f"{kind}_token_id", None) for kind in ("image", "video")} - {None}
    for token in special:
        tokens[tokens == token] = 0
    images = settings.images_per_prompt * tokens_of_image(settings, config) if settings.image_pixels else 0
    if images > settings.sequence_length // 2:
        raise ValueError(f"{images} tokens of images do not fit into a prompt")
    tokens[:, :images] = config.image_token_id


def tokens_of_image(settings: PassSettings, config: Any) -> int:
    """Tokens that the tower makes of one image."""
    if config.model_type == "gemma3":
        return int(config.mm_tokens_per_image)
    return (_side(settings, config) // config.vision_config.spatial_merge_size) ** 2


def _side(settings: PassSettings, config: Any) -> int:
    """Patches along either side of an image."""
    return isqrt(settings.image_pixels) // config.vision_config.patch_size


def positions(settings: PassSettings, config: Any, count: int) -> torch.Tensor:
    """Positions of every token; of Qwen-VL four of each: in the text, and in time, height and width.

    Their values do not matter to the memory, so all four are those in the text.
    """
    own = torch.arange(settings.sequence_length)
    if not _sees(config):
        return torch.nested.as_nested_tensor([own] * count, layout=torch.jagged)
    from verl.utils.tensordict_utils import nested_tensor_from_tensor_list  # since 0.8.0

    rows = own.repeat(4, 1) if config.model_type.startswith("qwen") else own
    return nested_tensor_from_tensor_list([rows] * count)


def _sees(config: Any) -> bool:
    return hasattr(config, "vision_config")


def image_inputs(
    settings: PassSettings, config: Any, count: int, generator: torch.Generator
) -> dict[str, Any]:
    """What verl's agent loop keeps of the processor's output for each sequence; nothing without images."""
    if not _sees(config) or not settings.image_pixels:
        return {}
    return {"multi_modal_inputs": [_of_sequence(settings, config, generator) for _ in range(count)]}


def _of_sequence(settings: PassSettings, config: Any, generator: torch.Generator) -> dict[str, Any]:
    number, vision = settings.images_per_prompt, config.vision_config
    if config.model_type == "gemma3":
        types = torch.zeros(1, settings.sequence_length, dtype=torch.long)
        types[:, : number * tokens_of_image(settings, config)] = 1
        pixels = torch.randn(number, 3, vision.image_size, vision.image_size, generator=generator)
        return {"pixel_values": pixels, "token_type_ids": types}
    side = _side(settings, config)
    values = 3 * vision.temporal_patch_size * vision.patch_size**2
    return {
        "pixel_values": torch.randn(number * side**2, values, generator=generator),
        "image_grid_thw": torch.tensor([[1, side, side]] * number),
        "images_seqlens": torch.tensor([side**2] * number),
    }
