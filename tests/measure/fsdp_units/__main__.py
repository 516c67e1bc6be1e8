"""What FSDP1 adds on the host to a unit, by its tensors; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.fsdp_units --output FILE [--passes N]

Units of small matrices on the processor, two ranks of which the other is pretended: collectives return at
once, and so does what CUDA would do. What is left is Python and the views of each tensor.
``docs/validation/data/fsdp-units.json`` has it. The seconds are of the thread alone.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.testing._internal.distributed.fake_pg import FakeStore

_TENSORS = (1, 9, 12)
_UNITS, _SIDE, _UNSEEN = 20, 16, 5


class Unit(nn.Module):
    """Some matrices, one behind the other."""

    def __init__(self, tensors: int) -> None:
        super().__init__()
        self.matrices = nn.ModuleList(nn.Linear(_SIDE, _SIDE, bias=False) for _ in range(tensors))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The product with all of them."""
        for matrix in self.matrices:
            rows = matrix(rows)
        return rows


def main() -> None:
    """Reads the seconds of a unit by its tensors, and writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--passes", type=int, default=60, help="of each kind, whose median is written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    document = {
        "what": "Processor seconds that FSDP1 adds to a unit of so many tensors, on the processor.",
        "processor": platform.processor() or platform.machine(),
        "software": {"torch": torch.__version__, "python": platform.python_version()},
        "date": date.today().isoformat(),
        "units": [added(tensors, arguments.passes) for tensors in _TENSORS],
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


def added(tensors: int, passes: int) -> dict[str, float]:
    """Seconds of a unit under FSDP1 less those without, forward without gradients and in both directions."""
    seconds = {"tensors": float(tensors), "forward_s": 0.0, "both_s": 0.0}
    for model, sign in ((_model(tensors), -1), (_sharded(_model(tensors)), 1)):
        rows = torch.randn(4, _SIDE, requires_grad=True)

        def forward(model: nn.Module = model, rows: torch.Tensor = rows) -> None:
            with torch.no_grad():
                model(rows)

        def both(model: nn.Module = model, rows: torch.Tensor = rows) -> None:
            model(rows).sum().backward()

        seconds["forward_s"] += sign * _of_a_unit(forward, passes)
        seconds["both_s"] += sign * _of_a_unit(both, passes)
    return {name: round(value, 8) for name, value in seconds.items()}


def _model(tensors: int) -> nn.Module:
    return nn.Sequential(*(Unit(tensors) for _ in range(_UNITS)))


def _sharded(model: nn.Module) -> nn.Module:
    """As verl wraps: weights of bfloat16, gradients reduced in float32."""
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({Unit}),
        mixed_precision=MixedPrecision(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32
        ),
        device_id=torch.device("cpu"),
    )


def _of_a_unit(call: Callable[[], None], passes: int) -> float:
    readings = []
    for _ in range(_UNSEEN + passes):
        begin = time.thread_time()
        call()
        readings.append(time.thread_time() - begin)
    return median(readings[_UNSEEN:]) / _UNITS


if __name__ == "__main__":
    main()
