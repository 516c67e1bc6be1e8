"""Parameters of the vision towers that stand before multimodal language models.

Counted as transformers 5 builds them. E is the tower's width.
"""

from tuner.models.config import Config


def qwen2_vl(vision: Config) -> int:
    """Qwen2-VL: LayerNorm blocks of width ``embed_dim``; ``hidden_size`` is the language model's."""
    width = vision.size("embed_dim")
    mlp = _linear(width, ratio := width * vision.size("mlp_ratio")) + _linear(ratio, width)
    blocks = vision.size("depth") * (_attention(width) + mlp + 4 * width)
    merger = 2 * width + _merger(vision, width, vision.size("hidden_size"))
    return _patches(vision, width, frames=True) + blocks + merger


def qwen2_5_vl(vision: Config) -> int:
    """Qwen2.5-VL: RMSNorm blocks with a gated MLP, all with biases."""
    width = vision.size("hidden_size")
    inner = vision.size("intermediate_size")
    mlp = 2 * _linear(width, inner) + _linear(inner, width)
    blocks = vision.size("depth") * (_attention(width) + mlp + 2 * width)
    merger = width + _merger(vision, width, vision.size("out_hidden_size"))
    return _patches(vision, width, frames=True) + blocks + merger


def qwen3_vl(vision: Config) -> int:
    """Qwen3-VL and Qwen3.5: learned positions, and one further merger per deep-stack layer."""
    width = vision.size("hidden_size")
    inner = vision.size("intermediate_size")
    mlp = _linear(width, inner) + _linear(inner, width)
    depth = vision.size("depth")
    blocks = depth * (_attention(width) + mlp + 4 * width)
    positions = vision.size("num_position_embeddings") * width
    merger = _merger(vision, width, vision.size("out_hidden_size"))
    merged = width * vision.size("spatial_merge_size") ** 2
    deep_stack = len(vision.indices("deepstack_visual_indexes", below=depth)) * (2 * merged + merger)
    patches = _patches(vision, width, frames=True) + width
    return patches + positions + blocks + 2 * width + merger + deep_stack


def gemma3(vision: Config, *, hidden: int) -> int:
    """Gemma 3: a SigLIP tower and the projection to the language model's width."""
    width = vision.size("hidden_size")
    inner = vision.size("intermediate_size")
    mlp = _linear(width, inner) + _linear(inner, width)
    blocks = vision.size("num_hidden_layers") * (_attention(width) + mlp + 4 * width)
    patch = vision.size("patch_size")
    positions = (vision.size("image_size") // patch) ** 2 * width
    patches = _patches(vision, width, frames=False) + width
    if vision.flag("vision_use_head", default=True):
        raise vision.error("vision_use_head", "a tower with a pooling head is not modelled")
    return patches + positions + blocks + 2 * width + width * hidden + width


def glm4v(vision: Config) -> int:
    """GLM-4.1V: RMSNorm blocks with a gated MLP, a strided convolution and a gated merger."""
    width = vision.size("hidden_size")
    out = vision.size("out_hidden_size")
    inner = vision.size("intermediate_size")
    bias = 3 * width if vision.flag("attention_bias", default=False) else 0
    blocks = vision.size("depth") * (4 * width**2 + bias + 3 * width * out + 2 * width)
    patches = _patches(vision, width, frames=True) + width
    positions = (vision.size("image_size") // vision.size("patch_size")) ** 2 * width
    merge = vision.size("spatial_merge_size")
    downsample = width * merge**2 * out + out
    merger = out**2 + 2 * out + 3 * out * inner
    return patches + positions + blocks + 2 * width + downsample + merger


def _linear(width_in: int, width_out: int) -> int:
    return width_in * width_out + width_out


def _attention(width: int) -> int:
    return 4 * _linear(width, width)


def _patches(vision: Config, width: int, *, frames: bool) -> int:
    pixels = vision.size("patch_size") ** 2 * vision.size(
        "in_channels", "in_chans", "num_channels", default=3
    )
    return width * pixels * (vision.size("temporal_patch_size") if frames else 1)


def _merger(vision: Config, width: int, out: int) -> int:
    """Two linear layers over the patches of one square, without their norm."""
    merged = width * vision.size("spatial_merge_size") ** 2
    return _linear(merged, merged) + _linear(merged, out)
