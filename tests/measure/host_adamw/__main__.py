"""What one thread of the host takes for a value of clipping and AdamW; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.host_adamw [--output FILE] [--values N] [--dry-run]

As a worker steps whose states lie on the host: float32 weights, gradients and moments, the norm of the
gradient first, then ``torch.optim.AdamW`` as PyTorch chooses it for such tensors, and with the fused kernel
that Megatron's optimizer asks for. Also a copy from memory to memory, whose bytes per second say what memory
the machine has. Prints JSON; no GPU is needed, and about 4 GB of memory.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import date
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

# Before torch: its threads are made by what these say.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

import torch

_VALUES = 128 << 20
_PARTS = (1, 16, 256)  # tensors that the values are in: a unit of FSDP1, and matrices
_STEPS = 5
NOTES = (
    "OMP_NUM_THREADS=1, as Ray starts a worker; float32 weights, gradients and moments of `values` values in "
    "`tensors` tensors of one size.",
    "ns_per_value: processor time of the thread; wall_ns_per_value: on the clock, more where others use the "
    "processor. Medians of five steps after one, which makes the moments.",
    "clip: torch.nn.utils.clip_grad_norm_ with a norm that scales the gradients; step: AdamW.step, plain as "
    "PyTorch chooses for tensors of the host, or fused=True.",
    "copy: Tensor.copy_ of as many values, twice their bytes over the time of the clock.",
)


def rows(values: int, parts: tuple[int, ...] = _PARTS) -> Iterator[dict[str, Any]]:
    """Readings by how many tensors hold the values, and by the kernel."""
    for tensors, fused in product(parts, (False, True)):
        yield {
            "values": values,
            "tensors": tensors,
            "fused": fused,
            **_stepped(values // tensors, tensors, fused=fused),
        }


def _stepped(values: int, tensors: int, *, fused: bool) -> dict[str, Any]:
    parameters = [torch.nn.Parameter(torch.randn(values)) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = torch.randn(values)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, fused=True if fused else None)

    def clip() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    clip()
    optimizer.step()
    taken = [(_taken(clip), _taken(optimizer.step)) for _ in range(_STEPS)]
    clipping, stepping = (
        [round(1e9 * median(numbers) / (values * tensors), 3) for numbers in zip(*one, strict=True)]
        for one in zip(*taken, strict=True)
    )
    return {
        "clip": dict(zip(("ns_per_value", "wall_ns_per_value"), clipping, strict=True)),
        "step": dict(zip(("ns_per_value", "wall_ns_per_value"), stepping, strict=True)),
        "ns_per_value": round(clipping[0] + stepping[0], 3),
    }


def _taken(work: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds of this process, and those of the clock."""
    begin = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - begin[0], time.perf_counter() - begin[1]


def copied_bytes_per_s(values: int) -> float:
    """Bytes read and written by a copy in the host's memory."""
    there, here = torch.randn(values), torch.zeros(values)
    return 2 * 4 * values / median(_taken(lambda: here.copy_(there))[1] for _ in range(_STEPS))


def processor() -> str:
    """Its name, as the system has it, and how many of it there are."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.processor() or platform.machine()}"


def main() -> None:
    """Prints the readings, and writes them where a file is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="a JSON file to write as well")
    parser.add_argument("--values", type=int, default=_VALUES, help="of all tensors together")
    parser.add_argument("--dry-run", action="store_true", help="few values, whose times mean nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values = 1 << 12 if arguments.dry_run else arguments.values
    document = {
        "what": "Time of one thread of the host for a value of clipping and AdamW in float32.",
        "hardware": processor(),
        "software": {"torch": torch.__version__, "python": platform.python_version()},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "copy_bytes_per_s": round(copied_bytes_per_s(values)),
        "rows": list(rows(values)),
    }
    text = json.dumps(document, indent=1)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
