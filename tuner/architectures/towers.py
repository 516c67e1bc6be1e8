"""Pieces that vision towers are made of, in parameters. Counted as transformers 5 builds them."""

from tuner.architectures.config import Config


def linear_parameters(width_in: int, width_out: int) -> int:
    """A linear layer with its bias."""
    return width_in * width_out + width_out


def attention_parameters(width: int) -> int:
    """Four projections with their biases."""
    return 4 * linear_parameters(width, width)


def patch_parameters(vision: Config, width: int, *, frames: bool) -> int:
    """The convolution that makes one token of a patch, without its bias."""
    pixels = vision.size("patch_size") ** 2 * vision.size(
        "in_channels", "in_chans", "num_channels", default=3
    )
    return width * pixels * (vision.size("temporal_patch_size") if frames else 1)


def merger_parameters(vision: Config, width: int, out: int) -> int:
    """Two linear layers over the patches of one square, without their norm."""
    merged = width * vision.size("spatial_merge_size") ** 2
    return linear_parameters(merged, merged) + linear_parameters(merged, out)
