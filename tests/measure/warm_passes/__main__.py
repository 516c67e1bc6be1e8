"""Times warm passes of training engines on one GPU or several; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.warm_passes --output FILE [--engines NAME ...] [--minutes M]
        [--attention NAME] [--no-cudnn] [--dry-run]
    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.warm_passes --output FILE ...

The engine is the one that ``tuner validate`` runs, over the first layers of real models with random weights.
Each pass runs twice unseen and five times for its seconds; a further run says what kernels it had. The
file is written again after each engine; with ``--no-kernels`` it is one that ``tuner accuracy`` reads.
``--dry-run`` shrinks models and sequences, for a processor.

Several GPUs share the states of other engines than one has; seconds are then the first GPU's, and kernels are
looked at in an engine's smallest passes. ``--attention sdpa`` lets transformers find the sequences and
PyTorch choose a kernel, in the place of flash attention that is told their bounds; not where ranks share
sequences.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # no CUDA before the fork
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from measure.readings import hardware
from measure.warm_passes.engine import Place, records
from measure.warm_passes.plan import ENGINES, SHARED

_ENGINE_S = 75.0  # at most: ranks of which one has failed wait for each other


def main() -> None:
    """Runs every engine that there is time for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--engines", nargs="*", default=None, help="names, or parts of them; all without")
    parser.add_argument("--attention", help="of transformers; without, flash attention within sequences")
    parser.add_argument("--no-cudnn", action="store_true", help="PyTorch chooses among its other kernels")
    parser.add_argument("--minutes", type=float, default=4.0, help="after which no engine is begun")
    parser.add_argument("--no-kernels", action="store_true", help="do not look at the kernels")
    parser.add_argument("--dry-run", action="store_true", help="tiny models, for a processor")
    arguments = parser.parse_args()
    _import_before_the_fork()
    torch.backends.cuda.enable_cudnn_sdp(not arguments.no_cudnn)
    latest = time.monotonic() + 60 * arguments.minutes
    document: dict[str, Any] = {
        "what": "seconds of warm passes of the engine that tuner validate runs, random weights, packed",
        "hardware": hardware(),
        "software": {name: metadata.version(name) for name in ("torch", "transformers")},
        **({} if arguments.attention is None else {"attention": arguments.attention}),
        **({"cudnn": False} if arguments.no_cudnn else {}),
        "date": date.today().isoformat(),
        "cases": [],
    }
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    port = int(os.environ.get("MASTER_PORT", "0"))
    for index, plan in enumerate(ENGINES if ranks == 1 else SHARED, start=1):
        if arguments.engines is not None and not any(
            _is_meant(plan.name, part) for part in arguments.engines
        ):
            continue
        left = latest - time.monotonic()
        if left < 5:
            print(f"no time for {plan.name}", flush=True)
            continue
        begin = time.monotonic()
        cases = records(
            replace(plan, attention=arguments.attention),
            Place(rank=rank, ranks=ranks, port=port + index),
            tiny=arguments.dry_run,
            profiled=not arguments.no_kernels,
            timeout_s=min(left + 20, _ENGINE_S),
        )
        document["cases"] += cases
        if rank == 0:
            arguments.output.write_text(json.dumps(document, indent=1) + "\n")
            print(f"{plan.name}: {len(cases)} passes in {time.monotonic() - begin:.0f} s", flush=True)


def _is_meant(name: str, part: str) -> bool:
    """Whether a part of a name means this engine; a whole name means that one alone."""
    whole = any(part == plan.name for plan in (*ENGINES, *SHARED))
    return part == name if whole else part in name


def _import_before_the_fork() -> None:
    """What every process imports, once."""
    import transformers.models.llama.modeling_llama
    import transformers.models.qwen2.modeling_qwen2
    import transformers.models.qwen3.modeling_qwen3
    import transformers.models.qwen3_moe.modeling_qwen3_moe  # noqa: F401


if __name__ == "__main__":
    main()
