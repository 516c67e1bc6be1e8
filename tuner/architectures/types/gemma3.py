"""Gemma 3 with its vision tower."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.towers import attention_parameters, linear_parameters, patch_parameters
from tuner.architectures.types.gemma3_text import ARCHITECTURE as TEXT
from tuner.architectures.types.gemma3_text import read
from tuner.model_shape import ModelShape


def tower(vision: Config, text: ModelShape) -> int:
    """Gemma 3: a SigLIP tower and the projection to the language model's width."""
    width = vision.size("hidden_size")
    inner = vision.size("intermediate_size")
    mlp = linear_parameters(width, inner) + linear_parameters(inner, width)
    blocks = vision.size("num_hidden_layers") * (attention_parameters(width) + mlp + 4 * width)
    patch = vision.size("patch_size")
    positions = (vision.size("image_size") // patch) ** 2 * width
    patches = patch_parameters(vision, width, frames=False) + width
    if vision.flag("vision_use_head", default=True):
        raise vision.error("vision_use_head", "a tower with a pooling head is not modelled")
    return patches + positions + blocks + 2 * width + width * text.hidden + width


ARCHITECTURE = Architecture(read=read, tower=tower, layer=TEXT.layer)
