"""MiMo, whose code lives in the checkpoint's repository."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.types.qwen2 import read as read_qwen2
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """MiMo: Qwen2 with multi-token-prediction modules, which its own code always builds."""
    shape = read_qwen2(config)
    shape = replace(shape, qkv_bias=config.flag("attention_bias", default=True))
    modules = config.count("num_nextn_predict_layers", default=0)
    one_module = shape.layer_parameters(0) + 2 * shape.hidden**2 + 3 * shape.norm_parameters
    return replace(shape, extra_parameters=modules * one_module)


ARCHITECTURE = Architecture(read=read, liger_layers=False)
