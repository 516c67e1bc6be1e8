"""What Liger's native kernels need before a call: NVSHMEM, a process group, and a workspace.

Their cross entropy is for a vocabulary that the GPUs of a process group share out; here the group is this
process alone, so nothing is exchanged. Source: ``liger_cute_kernels`` 0.8.5, ``configuration.py``.
"""

import atexit
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from tuner.kernels.benchmark.problem import ProblemShape

TILES_PER_REDUCE = 1  # as the package has it where nothing is said
_HIDDEN_ALIGNMENT = 8  # to which the package pads the hidden size


class NativeRuntime:
    """NVSHMEM on one GPU, and the workspace of Liger's native cross entropy for one shape at a time.

    NVSHMEM starts with the first workspace and ends with the process. A workspace cannot grow, so another
    shape gets another one.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._shape: ProblemShape | None = None

    def group(self, shape: ProblemShape) -> dist.ProcessGroup:
        """The process group of a call on a shape, with the workspace that it needs.

        Raises:
            RuntimeError: the package leaves this device out, or NVSHMEM or a library does not load.
        """
        if shape != self._shape:
            self._reserve(shape)
        group = dist.group.WORLD
        if group is None:
            raise RuntimeError("the process group was destroyed")
        return group

    def held_bytes(self, shape: ProblemShape) -> int:
        """Bytes of the workspace of both passes, which torch's allocator does not count."""
        self.group(shape)
        native: Any = import_module("liger_cute_kernels.tvm_ffi")
        forward = native.fused_linear_scaled_cross_entropy_forward_workspace_bytes(
            shape.tokens, shape.vocabulary
        )
        backward = native.fused_linear_scaled_cross_entropy_backward_workspace_bytes(
            shape.tokens,
            -(-shape.hidden // _HIDDEN_ALIGNMENT) * _HIDDEN_ALIGNMENT,
            shape.vocabulary,
            TILES_PER_REDUCE,
        )
        return int(forward) + int(backward)

    def _reserve(self, shape: ProblemShape) -> None:
        runtime: Any = import_module("liger_kernel.ops.configure")
        if self._shape is not None:
            self._shape = None
            torch.cuda.synchronize(self._device)
            import_module("liger_cute_kernels.nvshmem").pool_clear_all()
        elif not dist.is_initialized():
            dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)
            atexit.register(self._close)
        workspace = runtime.FusedLinearCrossEntropyConfig(
            max_tokens=shape.tokens,
            hidden_size=shape.hidden,
            local_vocab_size=shape.vocabulary,
            tiles_per_reduce=TILES_PER_REDUCE,
        )
        if not runtime.configure(device=self._device, flsce=workspace):
            raise RuntimeError("liger-cute-kernels has no kernels for this device")
        self._shape = shape

    def _close(self) -> None:
        """End NVSHMEM before the process group, as the package asks."""
        torch.cuda.synchronize(self._device)
        import_module("liger_cute_kernels.nvshmem").finalize()
        dist.destroy_process_group()
