"""Updates of verl's own FSDP engine with its heads and with ours, on the same weights and tokens.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.inside_verl --output FILE
        [--cases NAME ...] [--minutes M] [--dry-run] [--list]

Needs what ``measure.verl_engine`` needs. Every engine runs in fresh processes; those with our head import
``tuner.inside_verl`` there, as a worker does, and verl's settings stay what they are. Loss and norm of the
gradient, peaks and seconds of every update are kept, of rank 0; the first update includes what is compiled.
The file is written again after each engine.
"""

import argparse
import os
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

# Looking for a GPU must not start CUDA before the fork.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from measure.forked import records_of
from measure.inside_verl.cases import cases
from measure.inside_verl.updates import _run
from measure.verl_engine.record import write
from measure.verl_engine.stand_ins import prepare_imports

WHAT = (
    "Updates of verl {verl}'s own FSDP engine (FSDPEngineWithLMHead.train_batch with verl's ppo_loss, inside "
    "train_mode) with its own heads and with tuner.inside_verl, the same weights and tokens, on rank 0."
)
NOTES = (
    "head: logits is use_fused_kernels=False, verl-* its fused heads by impl_backend, tuner-* those of "
    "tuner.inside_verl by TUNER_HEAD with impl_backend=torch left in place.",
    "`micro_batches` of `tokens` tokens on each rank per update, packed sequences of 1024, half prompt; "
    "FSDP2, fp32 master parameters, bf16 mixed precision, gradient checkpointing, AdamW, lr 1e-6.",
    "seconds: wall clock with the batch on the host, of rank 0; the first update includes what is compiled, "
    "and AdamW has no states before it.",
    "attention and cross entropy of the logits are stand-ins for flash-attn, as in the recorded passes.",
)


def main() -> None:
    """Runs every chosen case, one after the other."""
    arguments = _arguments()
    planned = {name: case for name, case in cases().items() if name in (arguments.cases or cases())}
    if arguments.list:
        print("\n".join(planned))
        return
    prepare_imports()
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    latest = time.monotonic() + 60 * arguments.minutes
    records: list[dict[str, Any]] = []
    for index, (name, case) in enumerate(planned.items(), start=1):
        begin = time.monotonic()
        if begin > latest:
            print(f"no time for {name}", flush=True)
            continue
        timeout = timedelta(seconds=arguments.timeout)
        updates = records_of(
            _run, case, port + index, timeout, arguments.dry_run, timeout_s=arguments.timeout
        )
        if rank == 0:
            records.append({"case": name, **asdict(case), "updates": updates})
            write(arguments.output, records, what=WHAT, notes=NOTES)
            print(f"{name}: {time.monotonic() - begin:.0f} s: {updates[-1:]}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument("--cases", nargs="+", metavar="NAME", choices=cases(), help="default: all")
    parser.add_argument("--minutes", type=float, default=60.0, help="start no engine later than this")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that an engine may take")
    parser.add_argument("--dry-run", action="store_true", help="tiny models, without a GPU if there is none")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    if arguments.output is None and not arguments.list:
        parser.error("--output is required")
    return arguments


if __name__ == "__main__":
    main()
