"""Number formats that weights, gradients, caches and logits are stored in."""

from tuner.enumeration import Enum
from tuner.errors import InputError
from tuner.language import _


class DType(Enum):
    """A number format; its value is the name PyTorch gives it."""

    FLOAT32 = "float32", 4
    BFLOAT16 = "bfloat16", 2
    FLOAT16 = "float16", 2
    FLOAT8 = "float8", 1

    bytes: int  # of one element

    def __new__(cls, name: str, size: int) -> "DType":
        """A member with the value ``name``."""
        member = object.__new__(cls)
        member._value_ = name
        member.bytes = size
        return member


_SHORT_NAMES = {"bf16", "fp16", "fp32", "fp8"}

_NAMES = {
    "fp32": DType.FLOAT32,
    "float32": DType.FLOAT32,
    "float": DType.FLOAT32,
    "32": DType.FLOAT32,
    "bf16": DType.BFLOAT16,
    "bfloat16": DType.BFLOAT16,
    "fp16": DType.FLOAT16,
    "float16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "16": DType.FLOAT16,
    "fp8": DType.FLOAT8,
    "float8": DType.FLOAT8,
    "fp8_e4m3": DType.FLOAT8,
    "fp8_e5m2": DType.FLOAT8,
    "float8_e4m3fn": DType.FLOAT8,
    "float8_e5m2": DType.FLOAT8,
}


def parse_dtype(text: object) -> DType:
    """Read a dtype the way trainers and users spell it (``bf16``, ``torch.bfloat16``, ``fp32``).

    Raises:
        InputError: the name is not a known dtype; an unknown one is never taken for another.
    """
    name = str(text).strip().lower().removeprefix("torch.")
    dtype = _NAMES.get(name)
    if dtype is None:
        raise InputError(
            _("unknown dtype {text!r}").format(text=str(text)),
            hint=_("use one of {value}").format(
                value=", ".join(sorted({dtype.value for dtype in DType} | _SHORT_NAMES))
            ),
        )
    return dtype
