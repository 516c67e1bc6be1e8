"""What a bare process holds on the GPU, and the rates that the GPU reaches."""

from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812

from tuner.units import MIB
from tuner.validate.children.devices import driver_total_bytes
from tuner.validate.children.worker.entry import device_id
from tuner.validate.machine.readings import MachineReadings, ProcessBytes, Rate
from tuner.validate.worker.timing import Work, repeated

_ROWS = 8192  # of square matrices: their product fills any card of today for a millisecond or more
_PRODUCT_S, _WARM_UP_S = 1.0, 0.5  # until the card has settled at the clock that its power allows
_COPIED = 512 * MIB  # many times any cache
_COPY_S = 0.25


def measure(*, device: str) -> MachineReadings:
    """Read one GPU. This must be the first thing that its process does there.

    Args:
        device: a CUDA device of ``torch.device``.
    """
    where = torch.device(device)
    held = _process_bytes(where)
    return MachineReadings(
        driver_total_bytes=driver_total_bytes(device_id(where.index)),
        usable_bytes=torch.cuda.mem_get_info(where)[1],
        held=held,
        product=_product(where),
        memory=_copy(where),
        to_device=_host_copy(where, to_device=True),
        to_host=_host_copy(where, to_device=False),
    )


def non_torch_bytes() -> int:
    """Used on this process's GPU, by whomever, beside what its allocator has reserved."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def _process_bytes(device: torch.device) -> ProcessBytes:
    left = torch.ones(1024, 1024, device=device, dtype=torch.bfloat16)
    first_tensor = non_torch_bytes()
    weight = torch.ones_like(left, requires_grad=True)
    weight.grad = torch.zeros_like(weight)
    product = torch.empty_like(left)
    before = torch.cuda.memory_allocated()
    torch.mm(left, weight.detach(), out=product)
    forward = torch.cuda.memory_allocated() - before
    matrix_product = non_torch_bytes()
    before = torch.cuda.memory_allocated()
    F.linear(left, weight).sum().backward()  # type: ignore[no-untyped-call]
    in_backward = torch.cuda.memory_allocated() - before
    backward = non_torch_bytes()
    states = torch.ones(1, 8, 1024, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
    F.scaled_dot_product_attention(states, states, states, is_causal=True).sum().backward()  # type: ignore[no-untyped-call]
    return ProcessBytes(
        first_tensor=first_tensor,
        matrix_product=matrix_product,
        backward=backward,
        attention=non_torch_bytes(),
        workspaces=forward + in_backward,
    )


def _product(device: torch.device) -> Rate:
    """Random operands: of equal ones the card takes less power and is faster."""
    left, right = (torch.randn(_ROWS, _ROWS, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(left)
    return _rate(
        lambda: torch.mm(left, right, out=out),
        amount=2 * _ROWS**3,
        size=_ROWS,
        seconds=_PRODUCT_S,
        warm_up=_WARM_UP_S,
    )


def _copy(device: torch.device) -> Rate:
    source = torch.randint(256, (_COPIED,), device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return _rate(lambda: target.copy_(source), amount=2 * _COPIED, size=_COPIED, seconds=_COPY_S)


def _host_copy(device: torch.device, *, to_device: bool) -> Rate:
    host = torch.ones(_COPIED, dtype=torch.uint8, pin_memory=True)
    card = torch.ones(_COPIED, dtype=torch.uint8, device=device)
    target, source = (card, host) if to_device else (host, card)
    return _rate(
        lambda: target.copy_(source, non_blocking=True), amount=_COPIED, size=_COPIED, seconds=_COPY_S
    )


def _rate(work: Work, *, amount: int, size: int, seconds: float, warm_up: float = 0.0) -> Rate:
    times = repeated(work, seconds=seconds, warm_up=warm_up)
    return Rate(
        per_s=amount / median(times),
        slowest_per_s=amount / max(times),
        repetitions=len(times),
        size=size,
    )
