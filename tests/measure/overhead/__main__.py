"""What a process holds on a GPU that no tensor of a job accounts for; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.overhead --output FILE [--probes NAME ...] [--dry-run]

Every probe runs in fresh processes:

* ``process``: the CUDA context, and what the first kernels and cuBLAS products add to it;
* ``communicators-N``: what NCCL adds, operation by operation, with as many GPUs;
* ``kv-cache``: the bytes of a paged cache that is really allocated;
* ``cuda-graphs-...``: the bytes of CUDA graphs of a decode step, captured from the largest batch down.

Needs transformers for the last. Without a GPU (``--dry-run``) every number of bytes is 0 and there are no
graphs.
"""

import argparse
import json
import os
from datetime import date
from importlib import metadata
from pathlib import Path

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch
from measure.overhead.processes import PROBES, run_probe
from measure.readings import hardware

NOTES = (
    "non_torch_bytes: used on the device and not reserved by PyTorch's allocator; every step keeps what the "
    "steps before it had.",
    "workspaces of cuBLAS come out of PyTorch's allocator: they are in allocated_bytes.",
    "communicators: rank 0; NCCL's environment is in the entry.",
    "kv-cache: tensor_bytes is elements times width; allocated_bytes and reserved_bytes what the allocator "
    "gave and took for them.",
    "cuda-graphs: one graph per batch size, in one pool, from the largest down, of a decode step that "
    "attends to its own token alone; the weights were there before.",
)


def main() -> None:
    """Runs all probes that this machine has GPUs for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=PROBES, help="default: all")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    arguments = parser.parse_args()
    gpus = 4 if arguments.dry_run else torch.cuda.device_count()
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else ""
    document = {
        "what": "Memory of a GPU outside a job's tensors: context, libraries, NCCL, caches, CUDA graphs.",
        "hardware": hardware(),
        "software": {
            "torch": torch.__version__,
            "nccl": nccl,
            "transformers": metadata.version("transformers"),
        },
        "notes": NOTES,
        "date": date.today().isoformat(),
        "probes": [
            run_probe(name, 29400 + index)
            for index, name in enumerate(arguments.probes)
            if PROBES[name][0] <= gpus
        ],
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
