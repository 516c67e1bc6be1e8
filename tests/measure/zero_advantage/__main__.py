"""Times the update of verl's own worker and FSDP engine, with and without the sequences that teach nothing.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.zero_advantage --output FILE [--minutes M]
        [--model NAME] [--repeats N] [--dry-run]

Needs what ``measure.verl_engine`` needs. The batch, the weights and the order of the mini-batches are the
same with and without the skip; the gradient norm of every optimizer step is recorded beside the seconds. The
file is written again after each update. ``--dry-run`` shrinks the model and the sequences,
for a machine without a GPU.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["TUNER_HEAD"] = "off"  # the head is verl's, with and without the skip

import torch
import torch.distributed as dist
from measure.readings import hardware
from measure.verl_engine.settings import EngineSettings
from measure.zero_advantage.update import Sizes, build_worker, prepare_workers, timed_update

SHARES = (0.0, 0.5, 0.75)
MODES = (None, "keep-steps", "one-step")
WHAT = (
    "Seconds of an update (TrainingWorker.train_mini_batch of verl {verl}, its FSDP engine and ppo_loss, "
    "dynamic batch sizes) by the share of responses whose advantages are all zero; skip: null is verl's own "
    "update. Random weights and tokens; groups of 8 responses have an advantage or none, as rewards that are "
    "all equal leave none. grad_norms: of each optimizer step; run_tokens: on all ranks."
)


def main() -> None:
    """Runs every share, without the skip and with both of its modes."""
    arguments = _arguments()
    latest = time.monotonic() + 60 * arguments.minutes
    prepare_workers()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    sizes = Sizes.tiny() if arguments.dry_run else Sizes()
    worker = build_worker(EngineSettings(model=arguments.model), sizes, tiny=arguments.dry_run)
    timed_update(worker, sizes, share=0.5, mode=None)  # compiled functions, AdamW's states
    records = []
    for repeat in range(arguments.repeats):
        for share in SHARES:
            for mode in MODES:
                late = torch.tensor(float(time.monotonic() > latest))
                dist.all_reduce(late, op=dist.ReduceOp.MAX)
                if late:
                    continue
                record = timed_update(worker, sizes, share=share, mode=mode)
                records.append({"repeat": repeat, **record})
                if dist.get_rank() == 0:
                    _write(arguments, records, sizes)
                    print(records[-1], flush=True)
    dist.barrier()
    os._exit(0)  # verl's engine leaves threads behind


def _write(arguments: argparse.Namespace, records: list[dict[str, object]], sizes: Sizes) -> None:
    from importlib.metadata import version

    document = {
        "what": WHAT.format(verl=version("verl")),
        "hardware": hardware(),
        "software": {"verl": version("verl"), "torch": torch.__version__},
        "model": arguments.model,
        "ranks": dist.get_world_size(),
        "sizes": vars(sizes),
        "updates": records,
    }
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B", help="a profile of tuner")
    parser.add_argument("--repeats", type=int, default=2, help="of every update")
    parser.add_argument("--minutes", type=float, default=10.0, help="start no update later than this")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model, without a GPU if there is none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
