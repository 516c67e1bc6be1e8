"""Times collectives between the GPUs of one machine, by their bytes; run it by hand, from the repository.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.collectives --gpu h100-sxm --output FILE

Takes some twenty seconds. Bytes are those of the whole: gathered, reduced, or held by one rank that exchanges
or sends. ``--dry-run`` moves some bytes between processes on the CPU, whose seconds mean nothing.
"""

import argparse
import json
import os
import time
from datetime import date
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from measure.collectives.beside import beside_products
from measure.collectives.kinds import COLLECTIVES, Work
from measure.readings import hardware

_SIZES = (*(1 << power for power in (10, 14, 17, 20, 22, 24, 26, 28, 30)), 1 << 31)
_TINY_SIZES = (1 << 10, 1 << 12)
_MOVED = 4 << 30  # bytes of a size's repetitions together
_FEWEST, _MOST = 8, 300  # repetitions
_OBJECTS = 200


def main() -> None:
    """Times one kind after the other; the first rank writes after each, so that what ran is kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", required=True, help="the profile that the table belongs to")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    arguments = parser.parse_args()
    device = torch.device("cpu" if arguments.dry_run else f"cuda:{os.environ['LOCAL_RANK']}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if arguments.dry_run else "cpu:gloo,cuda:nccl")
    sizes = _TINY_SIZES if arguments.dry_run else _SIZES
    document: dict[str, object] = {
        "gpu": arguments.gpu,
        "source": "python -m measure.collectives",
        "hardware": hardware(),
        "versions": {"torch": torch.__version__, "nccl": _nccl(device)},
        "date": date.today().isoformat(),
        "ranks": dist.get_world_size(),
        "bytes": list(sizes),
    }
    for name, collective in COLLECTIVES.items():
        seconds = []
        for size in sizes:
            work, right = collective.make(size // collective.dtype.itemsize, collective.dtype, device)
            seconds.append(_seconds(work, size, device))
            if not right():
                raise RuntimeError(f"{name} of {size} bytes: not the values that it must give")
        document[name] = seconds
        _write(arguments.output, document, f"{name}: {seconds}")
    document["objects"] = _object_seconds(device)
    document["beside_products"] = beside_products(device)
    _write(arguments.output, document, json.dumps(document["beside_products"]))
    dist.destroy_process_group()


def _write(path: Path, document: dict[str, object], line: str) -> None:
    if dist.get_rank() == 0:
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(line, flush=True)


def _nccl(device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _seconds(work: Work, size: int, device: torch.device) -> float:
    """Mean seconds of one of many, which follow one another as a stream's do."""
    times = max(_FEWEST, min(_MOST, _MOVED // size)) if device.type == "cuda" else 2
    return round(_mean(work, times, device), 8)


def _object_seconds(device: torch.device) -> dict[str, dict[str, float]]:
    """Mean seconds of collectives of small Python objects, a name of a tensor each, by the group's backend.

    A group of both backends moves objects between hosts' memories, one of NCCL alone between GPUs.
    """
    groups = {"gloo": dist.new_group(backend="gloo")}
    if device.type == "cuda":
        groups["nccl"] = dist.new_group(backend="nccl")
    times = _OBJECTS if device.type == "cuda" else 2
    name = "model.layers.0.self_attn.q_proj.weight"
    seconds: dict[str, dict[str, float]] = {}
    for backend, group in groups.items():
        works: dict[str, Work] = {
            "gathered_s": partial(_gather_name, name, group),
            "sent_s": partial(dist.broadcast_object_list, [name], src=0, group=group),
        }
        seconds[backend] = {what: round(_mean(work, times, device), 8) for what, work in works.items()}
    return seconds


def _gather_name(name: str, group: dist.ProcessGroup) -> None:
    dist.all_gather_object([None] * dist.get_world_size(), name, group=group)


def _mean(work: Work, times: int, device: torch.device) -> float:
    for _ in range(3):
        work()
    _together(device)
    begin = time.perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


def _together(device: torch.device) -> None:
    """All ranks begin from here, with nothing left to do on their GPUs."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
