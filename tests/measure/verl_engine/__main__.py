"""Records the peak GPU memory of verl's own FSDP engine, pass by pass; run it by hand, from the repository.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.verl_engine --output FILE [--set NAME]
        [--cases NAME ...] [--part I/N] [--minutes M] [--dry-run]

Needs verl 0.9.1 and what its FSDP engine imports (a transformers release that verl admits, tensordict,
peft, accelerate, hydra-core, codetiming, torchdata, ...). Ray, datasets and flash-attn are not needed: the
first two are replaced by modules that answer anything where they are missing, flash-attn by PyTorch's own
flash attention and a Triton cross entropy that keeps what flash-attn's keeps. Weights and tokens are random.

Every engine runs in fresh processes, one per GPU, so that nothing is left over from the one before it. The
file is written again after each engine. ``--list`` prints the names of a set; ``--part 1/2`` takes every
second of them, for a machine that has room for two runs side by side. ``--dry-run`` shrinks models and
sequences; without a GPU every number of bytes is then 0, and the cases with FSDP1 or the reference's engine
stop, as PyTorch refuses them there.
"""

import argparse
import os
import time
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

# Looking for a GPU must not start CUDA before the fork.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from measure.verl_engine import fine_tuning, holdout, images, second_holdout
from measure.verl_engine.cases import cases
from measure.verl_engine.passes import outcome
from measure.verl_engine.record import write
from measure.verl_engine.settings import Case
from measure.verl_engine.stand_ins import prepare_imports

SETS = {
    "more": cases,
    "holdout-2": holdout.two_gpus,
    "holdout-4": holdout.four_gpus,
    "second-holdout": second_holdout.two_gpus,
    "fine-tuning": fine_tuning.cases,
    "images": images.cases,
    "images-holdout": images.holdout,
    "images-2": images.two_gpus,
}


def main() -> None:
    """Runs every chosen case, one after the other."""
    arguments = _arguments()
    planned = _chosen(arguments)
    if arguments.list:
        print("\n".join(planned))
        return
    prepare_imports()
    rank = int(os.environ["RANK"])
    port = int(os.environ["MASTER_PORT"])
    timeout = timedelta(seconds=arguments.timeout)
    latest = time.monotonic() + 60 * arguments.minutes
    records: list[dict[str, Any]] = []
    for index, (name, case) in enumerate(planned.items(), start=1):
        begin = time.monotonic()
        if begin > latest:
            print(f"no time for {name}", flush=True)
            continue
        found = outcome(case, port + index, timeout, arguments.dry_run)
        if rank == 0:
            records += found
            write(arguments.output, records)
            peaks = " ".join(f"{record['peak_allocated_bytes'] / 2**30:.2f}" for record in found)
            taken = f"{time.monotonic() - begin:.0f} s"
            print(f"{name}: {len(found)}/{len(case.passes)} passes, {taken}: {peaks} GiB", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument("--set", choices=SETS, default="more", help="which cases; default: more")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="of the set; default: all")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every Nth of them, from the Ith")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no engine later than this")
    parser.add_argument("--timeout", type=float, default=150.0, help="seconds that an engine may take")
    parser.add_argument("--dry-run", action="store_true", help="tiny models, without a GPU if there is none")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    if arguments.output is None and not arguments.list:
        parser.error("--output is required")
    unknown = set(arguments.cases or ()) - set(SETS[arguments.set]())
    if unknown:
        parser.error(f"the set {arguments.set} has no {', '.join(sorted(unknown))}")
    return arguments


def _chosen(arguments: argparse.Namespace) -> dict[str, Case]:
    found = SETS[arguments.set]()
    first, step = (int(number) for number in arguments.part.split("/"))
    names = islice(arguments.cases or found, first - 1, None, step)
    return {name: found[name] for name in names}


if __name__ == "__main__":
    main()
