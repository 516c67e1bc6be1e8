"""Megatron-Core on the processor, as far as a dry run needs it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch


@contextmanager
def on_the_cpu() -> Iterator[None]:
    """Lets what Megatron-Core asks of CUDA mean the processor."""
    tracker = SimpleNamespace(fork=lambda *_: nullcontext(), get_states=dict, set_states=lambda _: None)
    zeros = torch.zeros

    def zeros_here(*size: Any, **options: Any) -> torch.Tensor:
        return zeros(*size, **(options | {"device": "cpu"}))

    replaced = {
        "torch.zeros": zeros_here,
        "torch.cuda.current_device": mock.Mock(return_value=torch.device("cpu")),
        "torch.cuda.synchronize": mock.Mock(),
        "torch.cuda.current_stream": mock.Mock(),
        "torch.Tensor.cuda": lambda tensor, *_, **__: tensor,
        "megatron.core.transformer.transformer_block.tensor_parallel.get_cuda_rng_tracker": lambda: tracker,
        "megatron.core.tensor_parallel.random.get_cuda_rng_tracker": lambda: tracker,
        "megatron.core.tensor_parallel.random._get_cuda_rng_state": mock.Mock(),
        "megatron.core.tensor_parallel.random._set_cuda_rng_state": mock.Mock(),
    }
    with ExitStack() as stack:
        for name, value in replaced.items():
            stack.enter_context(mock.patch(name, value))
        yield
