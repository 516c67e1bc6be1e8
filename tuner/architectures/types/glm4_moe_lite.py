"""GLM-4.7-Flash: latent attention and experts as DeepSeek-V3 has them, the first layer dense."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.types.deepseek_v2 import read as read_latent
from tuner.architectures.types.deepseek_v3 import ARCHITECTURE as DEEPSEEK_V3
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """GLM-4.7-Flash: kinds of its MLPs are listed, or the first one is dense.

    Source: transformers ``Glm4MoeLiteConfig`` (``mlp_layer_types``).
    """
    kinds = config.values.get("mlp_layer_types")
    dense = kinds.count("dense") if isinstance(kinds, list) else 1
    return read_latent(replace(config, values={"first_k_dense_replace": dense, **config.values}))


ARCHITECTURE = Architecture(read=read, layer=DEEPSEEK_V3.layer, liger_layers=False)
