"""Gemma 2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import with_windows
from tuner.architectures.types.gemma import read as read_gemma
from tuner.model_shape import LogitCopies, ModelShape


def read(config: Config) -> ModelShape:
    """Gemma 2: norms before and after each block, every other layer has a window."""
    shape = replace(read_gemma(config), norms_per_layer=4, logit_copies=_soft_capping(config))
    return with_windows(shape, config, lambda layer: layer % 2 == 0)


def _soft_capping(config: Config) -> LogitCopies:
    """Logits divided, put through tanh and multiplied, unless the file says null."""
    if "final_logit_softcapping" in config.values and config.number("final_logit_softcapping") is None:
        return LogitCopies()
    return LogitCopies(saved=1, forward=1, backward=1)


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(float32_norms=True, norms_after=True),
    token_classification=True,
    transforms_logits=True,
)
