"""Number formats of a training step on a GPU, reproduced where there is none.

Under ``torch.autocast("cpu")`` fewer operators run in float32 than on a GPU, LayerNorm among them. The
difference is made up for here: these operators get float32 inputs, as autocast gives them on a GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

COMPUTE = torch.bfloat16

# Of torch's ATen/autocast_mode.h, AT_FORALL_FP32 and AT_FORALL_FP32_SET_OPT_DTYPE, what decoder layers use.
_NORMS = ("group_norm", "layer_norm", "rms_norm")
_POWERS = ("__pow__", "__rpow__", "pow", "reciprocal", "rsqrt", "square")
_LOGARITHMS = ("exp", "expm1", "log", "log1p", "log2", "logsumexp", "softplus")
_IN_FLOAT32 = frozenset((*_NORMS, *_POWERS, *_LOGARITHMS, "cosine_similarity"))
_TO_FLOAT32 = frozenset(("cumprod", "cumsum", "log_softmax", "norm", "prod", "softmax", "sum"))


@contextmanager
def autocast() -> Iterator[None]:
    """Matrix products in bfloat16, norms and sums in float32."""
    with torch.autocast("cpu", dtype=COMPUTE), Float32Operators():
        yield


class Float32Operators(TorchFunctionMode):
    """Gives operators float32 inputs that get them from autocast on a GPU, but not on a CPU."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs one operator."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if not torch.is_autocast_enabled("cpu"):  # a layer may switch it off
            return func(*args, **kwargs)
        if name in _IN_FLOAT32:
            args, kwargs = tree_map_only(torch.Tensor, _in_float32, (args, kwargs))
        elif name in _TO_FLOAT32 and kwargs.get("dtype") is None and args and _is_short(args[0]):
            kwargs = {**kwargs, "dtype": torch.float32}
        return func(*args, **kwargs)


def _is_short(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)


def _in_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if _is_short(tensor) else tensor
