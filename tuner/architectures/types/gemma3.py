"""Gemma 3 with its vision tower."""

from math import isqrt

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.towers import (
    attention_parameters,
    linear_parameters,
    patch_parameters,
    patch_values,
)
from tuner.architectures.types.gemma3_text import ARCHITECTURE as TEXT
from tuner.architectures.types.gemma3_text import read
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower

_IMAGE_TOKENS = 256  # ``mm_tokens_per_image`` of every published model
_HEADS = 12  # where the configuration leaves them out


def block(vision: Config) -> int:
    """One block of SigLIP: attention, MLP and two LayerNorms."""
    width, inner = vision.size("hidden_size"), vision.size("intermediate_size")
    mlp = linear_parameters(width, inner) + linear_parameters(inner, width)
    return attention_parameters(width) + mlp + 4 * width


def tower(vision: Config, text: ModelShape) -> int:
    """Gemma 3: a SigLIP tower and the projection to the language model's width."""
    width = vision.size("hidden_size")
    blocks = vision.size("num_hidden_layers") * block(vision)
    patch = vision.size("patch_size")
    positions = (vision.size("image_size") // patch) ** 2 * width
    patches = patch_parameters(vision, width, frames=False) + width
    if vision.flag("vision_use_head", default=True):
        raise vision.error("vision_use_head", "a tower with a pooling head is not modelled")
    return patches + positions + blocks + 2 * width + width * text.hidden + width


def dimensions(vision: Config) -> VisionTower:
    """SigLIP: LayerNorms, an MLP with GELU, learned positions, and images that are all of one size.

    Squares of patches are averaged until an image has 256 tokens, and their means projected.
    """
    side = vision.size("image_size") // vision.size("patch_size")
    if side < isqrt(_IMAGE_TOKENS):
        raise vision.error(
            "image_size",
            _("an image of {side} by {side} patches makes no {tokens} tokens").format(
                side=side, tokens=_IMAGE_TOKENS
            ),
        )
    return VisionTower(
        blocks=vision.size("num_hidden_layers"),
        block_unit=block(vision),
        width=vision.size("hidden_size"),
        heads=vision.size("num_attention_heads", default=_HEADS),
        inner=vision.size("intermediate_size"),
        patch=vision.size("patch_size"),
        values=patch_values(vision, frames=False),
        merge=side // isqrt(_IMAGE_TOKENS),
        image_tokens=_IMAGE_TOKENS,
        pools=True,
        rotates=False,
        kept_inner=2,
        gradients_inner=1,
    )


ARCHITECTURE = Architecture(
    read=read, tower=tower, vision=dimensions, layer=TEXT.layer, verl_knows_tower=False
)
