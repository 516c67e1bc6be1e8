"""What saving a checkpoint and carrying weights take for a moment; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.transients --output FILE [--dry-run]

Every probe runs in fresh processes, with one GPU and, where there are two, with two:

* ``saving-fsdp1``, ``saving-fsdp2``: shards and the whole model of a decoder of 0.8 billion parameters;
* ``gathered-optimizer``: what Megatron-Core gathers of an optimizer on every rank, for one buffer;
* ``buckets``: two buckets of 2 GiB on the side that sends, and those on the side that receives.

Each has what ``tuner`` predicts, what was measured, and the error in percent. Needs torch and msgspec.
Without a GPU (``--dry-run``) widths are small, Gloo takes NCCL's place and measured bytes are 0.
"""

import argparse
import json
import os
from datetime import date
from pathlib import Path

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch
from measure.readings import hardware
from measure.transients.processes import PROBES, run_probe


def main() -> None:
    """Runs all probes that this machine has GPUs for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=PROBES, help="default: all")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    arguments = parser.parse_args()
    gpus = 2 if arguments.dry_run else min(2, torch.cuda.device_count())
    plan = [(name, ranks) for name in arguments.probes for ranks in range(1, gpus + 1)]
    document = {
        "what": "Peaks of saving a checkpoint and of carrying weights, predicted and measured.",
        "hardware": hardware(),
        "software": {"torch": torch.__version__},
        "date": date.today().isoformat(),
        "probes": [run_probe(name, ranks, 29500 + index) for index, (name, ranks) in enumerate(plan)],
    }
    text = json.dumps(document, indent=1)
    arguments.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
