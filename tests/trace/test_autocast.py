"""Number formats under autocast, as torch itself has them on a GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tuner.trace.autocast import autocast  # noqa: E402

F = torch.nn.functional
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "softmax": lambda x: F.softmax(x, dim=-1),
    "softmax of the tensor": lambda x: x.softmax(-1),
    "softmax with a format": lambda x: F.softmax(x, dim=-1, dtype=torch.bfloat16),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "sum": lambda x: x.sum(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "power": lambda x: x**2,
    "pow": lambda x: x.pow(2),
    "square": torch.square,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "softplus": F.softplus,
    "norm": lambda x: x.norm(dim=-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "silu": F.silu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "topk": lambda x: x.topk(2)[0],
    "float32 sum": lambda x: x.float().sum(-1),
    "linear of float32": lambda x: F.linear(x.float(), torch.empty(8, 8, device=x.device)),
}


@contextmanager
def gpu_autocast() -> Iterator[None]:
    """torch's own, which needs no GPU for tensors without data; the context manager would."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_return_what_they_return_on_a_gpu(name: str) -> None:
    with FakeTensorMode(), torch.no_grad():
        with gpu_autocast():
            expected = OPERATORS[name](torch.empty(4, 8, dtype=torch.bfloat16, device="cuda")).dtype
        with autocast():
            assert OPERATORS[name](torch.empty(4, 8, dtype=torch.bfloat16)).dtype == expected


def test_a_norm_saves_its_input_in_float32() -> None:
    with FakeTensorMode(), autocast():
        states = torch.empty(4, 8, dtype=torch.bfloat16, requires_grad=True)
        saved = F.layer_norm(states, (8,)).grad_fn._saved_input
    assert saved.dtype == torch.float32
