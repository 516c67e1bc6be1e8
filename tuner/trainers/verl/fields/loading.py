"""Whether the C library keeps the memory that a checkpoint's experts were loaded with."""

from tuner.trainers.verl.fields.role import EngineContext
from tuner.trainers.verl.given_environment import given_variables

#: Types whose checkpoints have all experts of a layer in one tensor, which is given back as it is freed.
_STACKED = frozenset({"gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text"})
#: From a fixed size on glibc gives back whatever is freed: mallopt(3), ``M_MMAP_THRESHOLD``.
VARIABLE = "MALLOC_MMAP_THRESHOLD_"
_MOST = 1 << 22  # bytes, of smaller matrices than models of today have


def keeps_loaded_experts(context: EngineContext) -> bool:
    """Whether experts lie alone in the checkpoint, and no variable has their memory given back at once."""
    if context.model.architecture in _STACKED:
        return False
    given = given_variables(context.source.settings, context.source.version).get(VARIABLE)
    value = "" if given is None else given.value.strip()
    return not (value.isdecimal() and int(value) <= _MOST)
