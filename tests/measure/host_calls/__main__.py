"""What calls of the host take beside one GPU; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.host_calls --output FILE [--processes N] [--dry-run]

Each reading is of a fresh process that joins a group of one rank: collectives of objects, which pickle and
copy, collectives of a small tensor through NCCL, reading one number, two small operations, and a collection
of garbage. ``docs/validation/data/host-calls-h200.json`` has the same calls beside one H200, by a program
that this one replaces. Needs transformers, whose module of Qwen2 is imported before garbage is collected.
``--dry-run`` makes few calls, on the processor where there is no GPU.
"""

import argparse
import json
import os
import platform
from datetime import date
from importlib import metadata
from pathlib import Path

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch
from measure.host_calls.calls import read_calls
from measure.ranks import in_processes
from measure.readings import hardware

NOTES = (
    "a reading for each process; each number is the median of five means over 300 calls, after 30.",
    "gather_spec, gather_name: all_gather_object of a tensor's shape and dtype, of its name; broadcast_name: "
    "broadcast_object_list.",
    "all_gather_call, reduce_scatter_call: of 16 KiB through NCCL; with_output: asynchronous, into a tensor "
    "made for it, and waited for.",
    "collection: gc.collect of a process that has imported torch and Qwen2's module of transformers, when "
    "nothing is left to collect; objects: those that it goes through.",
)


def main() -> None:
    """Reads the calls in each process, and writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--processes", type=int, default=3, help="readings, each of a process of its own")
    parser.add_argument("--dry-run", action="store_true", help="few calls, without a GPU if there is none")
    arguments = parser.parse_args()
    calls = "3" if arguments.dry_run else "300"
    document = {
        "what": "Seconds of calls on the host beside one GPU: collectives in a group of one rank, and a "
        "collection of garbage.",
        "hardware": hardware(),
        "software": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "transformers": metadata.version("transformers"),
        },
        "notes": NOTES,
        "date": date.today().isoformat(),
        "readings": [
            in_processes(read_calls, calls, ranks=1, port=29700 + index, timeout_s=120, group=True)
            for index in range(arguments.processes)
        ],
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
