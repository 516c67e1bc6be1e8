"""What FSDP1 keeps of each card and of the host once it has wrapped a mixture of experts as verl does.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.fsdp_experts CONFIG --folder DIR --output FILE

``CONFIG`` is a ``config.json`` of experts, of few layers; weights are random and are written to ``DIR``. Rank
0 loads them on the host and the others none, as verl 0.9.1 has it (``get_init_weight_context_manager``,
``init_fn``). First a trained model is wrapped, then one that is streamed from the host, which makes two
passes. Last the trained model's weights are handed over: a state dict of shards, each tensor gathered, cut
into experts and copied into a bucket. ``docs/validation/data/fsdp1-experts-2xh200.json`` has readings by a
program that this one replaces, ``fsdp1-experts-handed-over-2xh200.json`` by this one.
"""

import argparse
import ctypes
import json
import os
import platform
import time
from collections import Counter
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from measure.fsdp_experts.hand_over import cut_into_experts, fill_buckets
from measure.readings import hardware
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffload, MixedPrecision, ShardedStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

_LARGE = 1 << 30  # bytes of a block that is listed
_PINNED = "allocated_bytes.current"
NOTES = (
    "wrapped: FSDP1 has cut the weights into shards on the card. emptied: PyTorch gave free memory of the "
    "card back; blocks: those above 1 GiB that it kept. trimmed: the C library gave free memory of the host "
    "back.",
    "streamed wrapped: a second model, whose shards lie on the host. first pass, second pass: of that one, "
    "64 tokens, without gradients; pinned_bytes: as PyTorch's allocator of pinned memory counts them.",
    "state dict: of the trained model, in shards. handed over: each of its tensors was gathered, cut into "
    "single experts and copied into one bucket of 2 GiB, as often as buckets says.",
    "peak_bytes: at most allocated since the step before. host_bytes: memory of the process that is no file "
    "and not shared. seconds: from the end of loading what is imported.",
)


class Readings:
    """What one rank holds, by what it had just done."""

    def __init__(self, rank: int) -> None:
        self.rank, self.rows = rank, list[dict[str, Any]]()
        self._begin = time.monotonic()

    def read(self, step: str, **more: Any) -> None:
        torch.cuda.synchronize()
        status = Path("/proc/self/status").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in status if line.startswith("Rss")}
        self.rows.append(
            {
                "rank": self.rank,
                "step": step,
                "seconds": round(time.monotonic() - self._begin, 1),
                "peak_bytes": torch.cuda.max_memory_allocated(),
                "allocated_bytes": torch.cuda.memory_allocated(),
                "reserved_bytes": torch.cuda.memory_reserved(),
                "host_bytes": sizes["RssAnon"],
                "pinned_bytes": torch.cuda.host_memory_stats().get(_PINNED, 0),
                **more,
            }
        )
        torch.cuda.reset_peak_memory_stats()


def main() -> None:
    """Wraps, passes and reads on every rank; rank 0 writes the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("--folder", type=Path, required=True, help="for the weights")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    if rank == 0:
        _write_weights(json.loads(arguments.config.read_text()), arguments.folder)
    dist.barrier()
    readings = Readings(rank)
    kept = _read_all(readings, arguments.folder)
    rows: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(rows, readings.rows)
    if rank == 0:
        document = {
            "what": "What FSDP1 keeps of each card and of the host with a mixture of experts in float32, "
            "wrapped and handed over as verl 0.9.1 does.",
            "model": str(arguments.config),
            "hardware": hardware(),
            "software": {
                "torch": torch.__version__,
                "python": platform.python_version(),
                "transformers": metadata.version("transformers"),
            },
            "date": date.today().isoformat(),
            "notes": NOTES,
            "readings": [row for part in rows for row in part],
        }
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    del kept
    dist.destroy_process_group()


def _read_all(readings: Readings, folder: Path) -> tuple[nn.Module, nn.Module]:
    trained = _wrapped(_loaded(folder), streamed=False)
    readings.read("wrapped")
    torch.cuda.empty_cache()
    readings.read("emptied", blocks=_blocks())
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    readings.read("trimmed")
    streamed = _wrapped(_loaded(folder), streamed=True).eval()
    readings.read("streamed wrapped")
    tokens = torch.arange(64, device="cuda").reshape(1, -1)
    for step in ("first pass", "second pass"):
        with torch.no_grad():
            streamed(input_ids=tokens)
        readings.read(step)
    _hand_over(readings, trained)
    return trained, streamed


def _hand_over(readings: Readings, trained: Fsdp) -> None:
    """Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``get_per_tensor_param``)."""
    Fsdp.set_state_dict_type(trained, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig())
    weights = trained.state_dict()
    readings.read("state dict")
    gathered = ((name, weight.full_tensor()) for name, weight in weights.items())
    filled = fill_buckets(cut_into_experts(gathered), torch.device("cuda", torch.cuda.current_device()))
    readings.read("handed over", buckets=filled)


def _write_weights(values: dict[str, Any], folder: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(values.pop("model_type"), **values, dtype="bfloat16")
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    del model
    torch.cuda.empty_cache()


def _loaded(folder: Path) -> nn.Module:
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    with init_empty_weights() if dist.get_rank() else torch.device("cpu"):
        model: nn.Module = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, config=AutoConfig.from_pretrained(folder)
        )
    return model


def _on_card(module: nn.Module) -> None:
    if dist.get_rank():
        module.to_empty(device=torch.device("cuda"), recurse=False)
        torch.cuda.empty_cache()


def _wrapped(model: Any, *, streamed: bool) -> Fsdp:
    layer = type(model.model.layers[0])
    return Fsdp(
        model,
        param_init_fn=_on_card,
        auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={layer}),
        device_id=torch.cuda.current_device(),
        mixed_precision=MixedPrecision(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32
        ),
        sync_module_states=True,
        cpu_offload=CPUOffload(offload_params=True) if streamed else None,
        device_mesh=init_device_mesh("cuda", (dist.get_world_size(),)),
    )


def _blocks() -> list[dict[str, int]]:
    """The large blocks that PyTorch has of the card: size, what is in use of them, and how many."""
    found = Counter(
        (one["total_size"], one["allocated_size"])
        for one in torch.cuda.memory_snapshot()
        if one["total_size"] > _LARGE and one["device"] == torch.cuda.current_device()
    )
    return [{"bytes": size, "used_bytes": used, "count": count} for (size, used), count in found.items()]


if __name__ == "__main__":
    main()
