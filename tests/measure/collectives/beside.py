"""What a collective and a matrix product cost each other when they run side by side on a GPU."""

import time

import torch
import torch.distributed as dist
from measure.collectives.kinds import COLLECTIVES, Work

_BYTES = 1 << 27  # a layer of a 3B model in bfloat16
_ROWS = 8192
_SECONDS = 0.3


def beside_products(device: torch.device) -> dict[str, dict[str, float]]:
    """Seconds of one product and of one collective, alone and while the other one runs without end.

    Products of 8,192 x 4,096 x 4,096 in bfloat16; collectives of 128 MiB on a stream of their own.
    """
    if device.type != "cuda":
        return {}
    left = torch.randn(_ROWS, 4096, device=device, dtype=torch.bfloat16)
    right = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    readings = {}
    for name in ("all_gather", "reduce_scatter"):
        collective = COLLECTIVES[name]
        exchange, _ = collective.make(_BYTES // collective.dtype.itemsize, collective.dtype, device)
        readings[name] = _together(lambda: torch.mm(left, right), exchange)
    return readings


def _together(product: Work, exchange: Work) -> dict[str, float]:
    """Both run as often as fills the time; the shorter ends first, so each is timed by its own events."""
    stream = torch.cuda.Stream()

    def run(products: int, exchanges: int) -> tuple[float, float]:
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        stream.wait_stream(torch.cuda.current_stream())
        marks[0].record()
        marks[2].record(stream)
        # Issued in turns, so that neither queue runs dry before the other is filled.
        for index in range(max(products, exchanges)):
            if index < products:
                product()
            if index < exchanges:
                with torch.cuda.stream(stream):
                    exchange()
        marks[1].record()
        marks[3].record(stream)
        torch.cuda.synchronize()
        return (
            marks[0].elapsed_time(marks[1]) / 1e3 / max(1, products),
            marks[2].elapsed_time(marks[3]) / 1e3 / max(1, exchanges),
        )

    run(20, 20)
    alone = run(200, 0)[0], run(0, 200)[1]
    counts = _agreed([max(8, round(_SECONDS / one)) for one in alone])
    begin = time.perf_counter()
    together = run(*counts)
    return {
        "product_s": alone[0],
        "exchange_s": alone[1],
        "product_beside_s": together[0],
        "exchange_beside_s": together[1],
        "whole_s": time.perf_counter() - begin,
    }


def _agreed(counts: list[int]) -> tuple[int, int]:
    """The first rank's numbers, as all must run as many collectives."""
    numbers = torch.tensor(counts, device="cuda")
    dist.broadcast(numbers, src=0)
    first, second = numbers.tolist()
    return first, second
