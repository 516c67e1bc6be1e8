"""Measures what moving weights costs beside their bytes, on one GPU; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.links --output links.json [--parts NAME ...]

Copies to host memory as trainers make them, pages given to the card and taken back, blocks of an engine that
sleeps and wakes, a pass that finds PyTorch's cache empty, and the host's time of a tensor that is cut into
shards and put together again. Takes about two minutes. ``--dry-run`` moves some bytes on the CPU, whose rates
mean nothing.

    PYTHONPATH=.:tests torchrun --nproc-per-node N -m measure.links --output links.json --parts pages copies

N processes take memory and give it back, or copy to the host, at once, as ranks do, over the cards that there
are; what is told is of the slowest.
"""

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import torch.distributed as dist
from measure.links.mapping import Blocks
from measure.links.refilled import refilled
from measure.readings import hardware
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

_RANKS = 8  # that the host believes in: no byte moves between them
PARTS = ("host", "copies", "pages", "segments", "sleep", "refilled")
_REST_S = 1.0
_ROUNDS = 4  # the first ones pay for memory that later ones find


def main() -> None:
    """Runs every part and writes after each, so that what ran is kept when the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="run without a GPU")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, metavar="NAME", help=f"of {', '.join(PARTS)}; all"
    )
    arguments = parser.parse_args()
    device = "cpu" if arguments.dry_run else "cuda"
    wanted = arguments.parts or PARTS
    document: dict[str, object] = {
        "source": "python -m measure.links",
        "hardware": None if arguments.dry_run else hardware(),
        "versions": {"torch": torch.__version__},
        "date": date.today().isoformat(),
    }
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    cards = torch.cuda.device_count() if device == "cuda" else 1
    if ranks > 1:
        if "host" in wanted:
            parser.error("the host's part believes in ranks of its own")
        dist.init_process_group("gloo")
        if device == "cuda":
            torch.cuda.set_device(dist.get_rank() % cards)
    document |= {"ranks": ranks, "cards": min(ranks, cards)}
    room = 40 * 1024 // -(-ranks // cards)  # MiB for each of the ranks of a card
    values = 1000 if arguments.dry_run else 6_500_000
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "host": lambda: host_seconds(device),
        "copies": lambda: copies(device, values),
        "pages": lambda: pages(device, 1 if arguments.dry_run else 1024, room),
        "segments": lambda: segments(device, (1, 2) if arguments.dry_run else (20, 130, 512, 1024), room),
        "sleep": lambda: sleep(device, (20, 130, 512, 1024), room),
        "refilled": lambda: refilled(device, room, _REST_S, lambda work: _slowest(work, device)),
    }
    for name in wanted:
        document[name] = parts[name]()
        if os.environ.get("RANK", "0") == "0":
            arguments.output.write_text(json.dumps(document, indent=1) + "\n")
        print(name, flush=True)


def _seconds(work: Callable[[], object], device: str) -> float:
    """Wall-clock seconds until the device is done as well."""
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def host_seconds(device: str) -> dict[str, object]:
    """Seconds of a tensor on the host: cut into shards, put together; and of a collection of garbage."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=_RANKS)
    mesh = init_device_mesh(device, (_RANKS,))
    tensors = [torch.zeros(64, 16, device=device) for _ in range(300)]

    def cut(tensor: torch.Tensor) -> DTensor:
        whole = DTensor.from_local(tensor.clone(), mesh, [Replicate()], run_check=False)
        return whole.redistribute(placements=[Shard(0)])

    rounds = []
    for _ in range(_ROUNDS):
        shards: list[DTensor] = []
        cutting = _seconds(lambda into=shards: into.extend(map(cut, tensors)), device)
        joining = _seconds(lambda of=shards: [shard.full_tensor() for shard in of], device)
        rounds.append({"cut_s": cutting / len(tensors), "joined_s": joining / len(tensors)})
    import transformers  # a worker's heap has its modules

    collected = [_seconds(gc.collect, device) for _ in range(3)]
    dist.destroy_process_group()
    return {
        "tensors": rounds,
        "collection_s": min(collected),
        "objects": len(gc.get_objects()),
        "transformers": transformers.__version__,
    }


def copies(device: str, values: int) -> dict[str, object]:
    """GB per second of 160 tensors that leave the card and come back, round after round, by how they leave.

    What has come back lets its host memory go, as a trainer's states do. ``asleep`` leaves as vLLM's weights
    do at sleep level 1: into page-locked memory that is asked for each time, and each copy is waited for.
    """
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "non_blocking": lambda tensor: tensor.to("cpu", non_blocking=True),
        "blocking": lambda tensor: tensor.cpu(),
        "blocking_then_pinned": lambda tensor: (
            tensor.cpu().pin_memory() if device == "cuda" else tensor.cpu()
        ),
        "asleep": lambda tensor: torch.empty_like(tensor, device="cpu", pin_memory=device == "cuda").copy_(
            tensor
        ),
    }
    size = 4 * 160 * values / 1e9
    rates: dict[str, object] = {}
    for name, leave in ways.items():
        kept = [torch.zeros(values, device=device) for _ in range(160)]
        rounds = []
        for _ in range(_ROUNDS):
            out = _slowest(lambda leave=leave, of=kept: _replace(of, leave), device)
            back = _slowest(
                lambda of=kept: _replace(of, lambda tensor: tensor.to(device, non_blocking=True)), device
            )
            rounds.append({"to_host": size / out, "from_host": size / back})
        rates[name] = rounds
    return rates


def _replace(tensors: list[torch.Tensor], move: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for index, tensor in enumerate(tensors):
        tensors[index] = move(tensor)


def pages(device: str, mebibytes: int, room: int) -> dict[str, object]:
    """GB per second of memory that is mapped and given back, in blocks as large as a layer's KV cache."""
    count = room // mebibytes if device == "cuda" else 2
    size = mebibytes << 20
    ways: dict[str, object] = {}
    for name, setting in (("segments", "False"), ("mapped_pages", "True")):
        if device == "cuda":
            torch.cuda.memory._set_allocator_settings(f"expandable_segments:{setting}")
            torch.cuda.empty_cache()
        rounds = []
        for _ in range(_ROUNDS):
            blocks: list[torch.Tensor] = []
            taken = _slowest(
                lambda into=blocks: into.extend(
                    torch.empty(size, dtype=torch.uint8, device=device) for _ in range(count)
                ),
                device,
            )
            blocks.clear()
            given = _slowest(torch.cuda.empty_cache if device == "cuda" else gc.collect, device)
            rounds.append({"taken": count * size / 1e9 / taken, "given_back": count * size / 1e9 / given})
        ways[name] = rounds
    return ways


def segments(device: str, sizes: tuple[int, ...], room: int) -> dict[str, object]:
    """Seconds in which one segment is taken and given back, by its MiB: many in a row, as around an update.

    Each has been written before it is given back.
    """
    if device == "cuda":
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")
        torch.cuda.empty_cache()
    once: dict[str, object] = {}
    for mebibytes in sizes:
        count = min(2048, room // mebibytes) if device == "cuda" else 2
        once[str(mebibytes)] = [_of_segments(mebibytes << 20, count, device) for _ in range(_ROUNDS)]
    return once


def _of_segments(size: int, count: int, device: str) -> dict[str, float]:
    kept: list[torch.Tensor] = []
    taken = _slowest(
        lambda: kept.extend(torch.empty(size, dtype=torch.uint8, device=device) for _ in range(count)), device
    )
    for block in kept:
        block.fill_(1)
    kept.clear()
    given = _slowest(torch.cuda.empty_cache if device == "cuda" else gc.collect, device)
    return {"count": count, "taken_s": taken / count, "given_back_s": given / count}


def sleep(device: str, sizes: tuple[int, ...], room: int) -> dict[str, object]:
    """Seconds in which one block gets its memory as an engine wakes up, and loses it as it falls asleep.

    In the last rounds the memory has rested before it is given again, as it has where an engine sleeps while
    a trainer computes: the driver clears it meanwhile.
    """
    once: dict[str, object] = {}
    if device != "cuda":
        return once
    torch.cuda.synchronize()  # there is a context from here on
    torch.cuda.empty_cache()
    for mebibytes in sizes:
        count = min(2048, room // mebibytes)
        blocks = Blocks(mebibytes << 20, count, torch.cuda.current_device())
        rounds = []
        for index in range(2 * _ROUNDS):
            rested = index >= _ROUNDS
            time.sleep(_REST_S if rested else 0.0)
            woken = _slowest(blocks.wake, device)
            asleep = _slowest(blocks.sleep, device)
            reading = {"count": count, "woken_s": woken / count, "asleep_s": asleep / count}
            rounds.append(reading | {"rested_s": _REST_S} if rested else reading)
        blocks.close()
        once[str(mebibytes)] = rounds
    return once


def _slowest(work: Callable[[], object], device: str) -> float:
    """Seconds of the slowest rank, all of which begin together."""
    if not dist.is_initialized():
        return _seconds(work, device)
    dist.barrier()
    longest = torch.tensor(_seconds(work, device))
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


if __name__ == "__main__":
    main()
