"""DeepSeek-V3.2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.types.deepseek_v2 import read as read_latent
from tuner.architectures.types.deepseek_v3 import ARCHITECTURE as DEEPSEEK_V3
from tuner.model_shape import ModelShape
from tuner.sparse_indexer import SparseIndexer


def read(config: Config) -> ModelShape:
    """DeepSeek-V3.2: every layer chooses the keys that its queries attend to."""
    shape = read_latent(config)
    config.size("q_lora_rank")  # of which the indexer makes its queries
    indexer = SparseIndexer(
        heads=config.size("index_n_heads"),
        head_dim=config.size("index_head_dim"),
        layers=tuple(range(shape.layers)),
    )
    return replace(shape, indexer=indexer)


ARCHITECTURE = Architecture(
    read=read,
    layer=replace(DEEPSEEK_V3.layer, fused_experts=False),
    liger_layers=False,
)
