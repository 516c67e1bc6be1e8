"""Records the peaks of NeMo-RL's passes under NeMo Automodel; run it by hand, from the repository.

    torchrun --nproc-per-node N -m tests.measure.automodel --output FILE [--dry-run]

Needs a GPU for each process, torch and transformers; neither NeMo-RL nor Automodel, see ``step.py``. Weights
and tokens are random. ``--dry-run`` shrinks models and rows; without a GPU every number of bytes is then 0.
"""

import argparse
import gc
import json
import os
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.measure.automodel.step import log_prob_pass, sharded_model, update_pass

#: Model, tokens of a row, sequences of it, recomputation, chunk of log-probabilities.
CASES = (
    ("qwen2.5-1.5b", 8192, 1, False, None),
    ("qwen2.5-1.5b", 8192, 4, False, None),
    ("qwen2.5-1.5b", 16384, 4, True, None),
    ("qwen2.5-1.5b", 8192, 4, True, 1024),
    ("qwen3-4b", 8192, 4, True, None),
    ("llama-3.2-3b", 4096, 2, False, None),
)
_TINY = 64


def main() -> None:
    """Runs every case, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    records: list[dict[str, Any]] = []
    for case in CASES:
        records += _recorded(case, device, dry_run=arguments.dry_run)
        if dist.get_rank() == 0:
            text = json.dumps(_document(device, records), indent=1)
            arguments.output.write_text(text + "\n", encoding="utf-8")
    dist.destroy_process_group()


def _recorded(case: tuple[Any, ...], device: torch.device, *, dry_run: bool) -> list[dict[str, Any]]:
    name, tokens, sequences, recompute, chunk = case
    tokens = _TINY if dry_run else tokens
    model = sharded_model(name, device, recompute=recompute, tiny=dry_run)
    lengths = [tokens // sequences] * sequences
    rows = torch.randint(model.config.vocab_size, (2, tokens), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    update_pass(model, optimizer, rows[:, : tokens // sequences], lengths[:1])  # states exist from here on
    settings = {
        "model": name,
        "tokens": tokens,
        "sequences": sequences,
        "recompute": recompute,
        "log_prob_chunk": chunk,
        "ranks": dist.get_world_size(),
    }
    update = _peak(partial(update_pass, model, optimizer, rows, lengths))
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                state[key] = value.cpu()
    log_prob = _peak(partial(log_prob_pass, model, rows, chunk=chunk))
    return [
        settings | {"pass": "update", "peak_bytes": update},
        settings | {"pass": "log_prob", "peak_bytes": log_prob},
    ]


def _peak(work: Callable[[], None]) -> int:
    """The highest that PyTorch has allocated while something runs; 0 without a GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    work()
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated())


def _document(device: torch.device, records: list[dict[str, Any]]) -> dict[str, Any]:
    import transformers

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {
        "gpu": name,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "passes": records,
    }


if __name__ == "__main__":
    main()
