"""Variables of the environment that a launch gives its program, of those that libraries read."""

from msgspec import Struct

from tuner.errors import Location

# Of CUDA, NCCL, PyTorch and vLLM. Others, tokens and names among them, are not kept.
_PREFIXES = ("CUDA_", "NCCL_", "PYTORCH_", "VLLM_")
# Of loaders of images, which are numbers.
_NAMES = ("MAX_PIXELS",)


class EnvironmentVariable(Struct, frozen=True, kw_only=True):
    """A variable that the program surely gets, with its value and where that is set."""

    name: str
    value: str
    location: Location
    setting: str = ""  # the key that has it; empty where a script does


def is_kept(name: str) -> bool:
    """Whether a library below the trainer, or what loads its data, may read a variable of this name."""
    return name.startswith(_PREFIXES) or name in _NAMES
