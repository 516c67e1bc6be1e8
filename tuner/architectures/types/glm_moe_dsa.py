"""GLM-5."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.types.deepseek_v32 import ARCHITECTURE as DEEPSEEK_V32
from tuner.architectures.types.deepseek_v32 import read as read_indexed
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """GLM-5: built as DeepSeek-V3.2; since 5.2 most layers take the keys that one before them chose."""
    shape = read_indexed(config)
    assert shape.indexer is not None
    return replace(shape, indexer=replace(shape.indexer, layers=_choosing(config, shape.layers)))


def _choosing(config: Config, layers: int) -> tuple[int, ...]:
    """The layers with an indexer of their own: as listed, spelled as a pattern, or every n-th after some.

    Source: transformers ``GlmMoeDsaConfig``.
    """
    kinds = config.kinds("indexer_types", layers=layers)
    pattern = config.text("index_topk_pattern")
    if kinds is None and pattern is not None:
        kinds = tuple("full" if letter == "F" else "shared" for letter in pattern)
    if kinds is not None:
        return tuple(layer for layer, kind in enumerate(kinds) if kind == "full")
    interval = config.size("index_topk_freq", default=1)
    offset = config.count("index_skip_topk_offset", default=2)
    return tuple(layer for layer in range(layers) if max(layer - offset + 1, 0) % interval == 0)


ARCHITECTURE = Architecture(read=read, layer=DEEPSEEK_V32.layer, liger_layers=False)
