"""Number formats that weights, gradients, caches and logits are stored in."""

from enum import Enum

from tuner.errors import InputError


class DType(Enum):
    """A number format; its value is the name PyTorch gives it."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT8 = "float8"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return _BYTES[self]


_BYTES = {DType.FLOAT32: 4, DType.BFLOAT16: 2, DType.FLOAT16: 2, DType.FLOAT8: 1}

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
            f"unknown dtype {str(text)!r}",
            hint=f"use one of {', '.join(sorted({dtype.value for dtype in DType} | _SHORT_NAMES))}",
        )
    return dtype
