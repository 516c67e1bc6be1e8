"""What a layer with Liger's kernels takes of the host, beside one without; run it from the repository.

    pip install --no-deps --target PACKAGES liger-kernel==0.5.8
    PYTHONPATH=.:tests python -m measure.liger_layers --output FILE [--packages PACKAGES] [--runs N]

``docs/validation/data/liger-host.json`` has three runs with each of two releases. It needs no GPU: Triton's
launches are left out and counted, so that the Python around them, whose length is asked for, runs as it does
beside one. ``--dry-run`` takes few readings.
"""

import argparse
import json
import os
import platform
import sys
from contextlib import nullcontext
from datetime import date
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from measure.megatron_layers.layers import Choices, Dimensions, Run, transformers_layers
from measure.megatron_layers.readings import directions

NOTES = (
    "Triton's launches are left out and counted; operators of torch run on the processor.",
    "4 layers of Qwen2, hidden size 32 in bfloat16, 8 tokens: arithmetic takes no time that counts.",
    "forward_s: without gradients; kept_forward_s, kept_s: forward, and forward and backward; where a layer "
    "recomputes, kept_s has the recomputation in it.",
    "operators, triton_launches: of one layer, in the same order; views and allocations are no operators.",
    "each number of seconds is the median of five.",
)
_NO_KERNEL = (
    "view",
    "empty",
    "transpose",
    "reshape",
    "expand",
    "slice",
    "detach",
    "unsqueeze",
    "alias",
    "t.",
)


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    """How many operators of torch run, but for those that launch nothing."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count one, and run it."""
        name = str(function).removeprefix("aten.")
        Counted.count += not any(name.lstrip("_").startswith(one) for one in _NO_KERNEL)
        return function(*args, **(kwargs or {}))


def without_launches() -> list[int]:
    """Leave out Triton's launches; the number of them so far is in the list."""
    from triton.runtime.jit import JITFunction

    launched = [0]

    def counted(*_: object, **__: object) -> None:
        launched[0] += 1

    JITFunction.run = counted
    torch.cuda.device = lambda *_: nullcontext()  # type: ignore[misc, assignment]
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=132)
    return launched


def use_liger() -> None:
    """Put Liger's norm, rotary embedding and gated activation in the place of Qwen2's."""
    from liger_kernel.transformers.rms_norm import LigerRMSNorm
    from liger_kernel.transformers.rope import liger_rotary_pos_emb
    from liger_kernel.transformers.swiglu import LigerSwiGLUMLP
    from transformers.models.qwen2 import modeling_qwen2

    modeling_qwen2.Qwen2RMSNorm = LigerRMSNorm
    modeling_qwen2.apply_rotary_pos_emb = liger_rotary_pos_emb
    modeling_qwen2.Qwen2MLP = LigerSwiGLUMLP


def launches(run: Run, layers: int, launched: list[int]) -> dict[str, list[float]]:
    """Operators and Triton's launches of one layer: without gradients, with them, and there and back."""

    def without_gradients() -> None:
        with torch.no_grad():
            run()

    found: dict[str, list[float]] = {"operators": [], "triton_launches": []}
    for call in (without_gradients, run, lambda: run().sum().backward()):  # type: ignore[no-untyped-call]
        Counted.count = launched[0] = 0
        with Counted():
            call()
        found["operators"].append(Counted.count / layers)
        found["triton_launches"].append(launched[0] / layers)
    return found


def rows(what: str, runs: int, least_s: float, launched: list[int]) -> list[dict[str, Any]]:
    """Seconds of layers with and without recomputation, several times."""
    found, sizes = [], Dimensions()
    for run in range(1, runs + 1):
        for recomputes in (False, True):
            layers = transformers_layers(sizes, Choices(recomputes=recomputes))
            read = directions(layers, sizes.layers, least_s=least_s)
            told = {"run": run, "what": what, "recomputes": recomputes}
            found.append({**told, **read, **launches(layers, sizes.layers, launched)})
    return found


def main() -> None:
    """Reads layers without Liger's kernels, then with them, and writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", help="a folder with another Liger-Kernel")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="few readings")
    arguments = parser.parse_args()
    if arguments.packages:
        sys.path.insert(0, arguments.packages)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    launched, least_s = without_launches(), 0.0 if arguments.dry_run else 0.6
    found = rows("transformers layer", arguments.runs, least_s, launched)
    use_liger()
    found += rows("with Liger's kernels", arguments.runs, least_s, launched)
    versions = {name: metadata.version(name) for name in ("liger-kernel", "torch", "triton", "transformers")}
    document = {
        "what": "Seconds of the host for a decoder layer of transformers, without and with Liger's kernels.",
        "hardware": f"{os.cpu_count()} cores of {platform.machine()}, no GPU; seconds are the thread's",
        "software": {**versions, "python": platform.python_version()},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "rows": found,
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
