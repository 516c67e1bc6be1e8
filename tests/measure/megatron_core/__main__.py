"""What Megatron-Core holds on a GPU, step by step; run it by hand, from the repository.

    PYTHONPATH=.:tests python -m measure.megatron_core --output FILE [--gpus N] [--dry-run]

Needs megatron-core and none of what speeds it up: the layers are those of its local specification, with an
attention by PyTorch's flash kernel and a norm that may stand under sequence parallelism in the places where
Transformer Engine's would be. ``--dry-run`` shrinks the model and runs on the processor, without the
optimizer, which Megatron-Core has for GPUs only.
"""

import argparse
import json
import os
import traceback
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from importlib import metadata
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

import torch
import torch.distributed as dist
from measure.megatron_core.model import Dimensions, build_model
from measure.megatron_core.on_the_cpu import on_the_cpu
from measure.megatron_core.steps import Step, distributed_optimizer, reset, run_step, with_gradient_buffers
from measure.readings import device, hardware, reading

from tuner.lifetime import end_with_parent

NOTES = (
    "one entry per pipeline stage, of its first tensor- and data-parallel rank; bf16 parameters, distributed "
    "optimizer, gradients reduced in fp32, sequence parallelism where tensor > 1, embeddings tied.",
    "parameter_bytes: the model; gradient_buffer_bytes: what Megatron's DistributedDataParallel added; "
    "main_parameter_bytes: what the optimizer added when it was made; first_step_bytes: what one step left.",
    "the optimizer is torch's AdamW, since neither Transformer Engine nor Apex is there: its step has a "
    "transient that a fused one lacks.",
    "forward: bytes of tensors when the forward pass of each micro-batch began and ended (the loss included "
    "on the last stage), in the order of the schedule; resident_bytes: before the first.",
    "weight gradients pass through a tensor of their own (no gradient accumulation fusion), rotary "
    "embeddings and dropout-add are not fused.",
    "tokens: of one sequence, which is a micro-batch; the loss is Megatron's vocab_parallel_cross_entropy.",
)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How the GPUs divide the model, and what is recomputed."""

    tensor: int
    pipeline: int
    recompute: str | None = None


_PARTS = ("parameter_bytes", "gradient_buffer_bytes", "main_parameter_bytes", "first_step_bytes")
GRIDS = (
    Grid(tensor=1, pipeline=1),
    Grid(tensor=2, pipeline=1),
    Grid(tensor=2, pipeline=1, recompute="full"),
    Grid(tensor=1, pipeline=2),
    Grid(tensor=2, pipeline=2),
    Grid(tensor=1, pipeline=2, recompute="full"),
    Grid(tensor=2, pipeline=2, recompute="selective"),
)
STEPS = (Step(tokens=2048), Step(tokens=4096), Step(tokens=2048, micro_batches=4))


def _settled() -> int:
    reset()
    return reading().allocated_bytes


def _measure(grid: Grid, dimensions: Dimensions, steps: tuple[Step, ...]) -> dict[str, Any] | None:
    """All steps of one grid on this rank; None where another rank of the stage tells."""
    from megatron.core import parallel_state
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

    parallel_state.initialize_model_parallel(grid.tensor, grid.pipeline)
    if torch.cuda.is_available():
        model_parallel_cuda_manual_seed(0)
    _on_the_device = torch.ones(1, device=device())  # starts the context
    sizes = [_settled()]
    model = build_model(dimensions, tensor=grid.tensor, pipeline=grid.pipeline, recompute=grid.recompute)
    sizes.append(_settled())
    wrapped = with_gradient_buffers(model)
    sizes.append(_settled())
    optimizer = distributed_optimizer(wrapped)
    sizes.append(_settled())
    model.config.finalize_model_grads_func = finalize_model_grads
    first = Step(tokens=256 if torch.cuda.is_available() else 8)
    run_step(wrapped, optimizer, first, dimensions.vocabulary)
    sizes.append(_settled())
    found = [run_step(wrapped, optimizer, step, dimensions.vocabulary) for step in steps]
    if parallel_state.get_tensor_model_parallel_rank() or parallel_state.get_data_parallel_rank():
        return None
    return {
        **asdict(grid),
        "world_size": dist.get_world_size(),
        "stage": parallel_state.get_pipeline_model_parallel_rank(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **dict(zip(_PARTS, (after - before for before, after in pairwise(sizes)), strict=True)),
        "steps": found,
    }


def _work(grid: Grid, rank: int, gpus: int, port: int, dry_run: bool, results: Any) -> None:
    end_with_parent()
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(gpus)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank)
    dimensions, steps = Dimensions(), STEPS
    if dry_run:
        dimensions = Dimensions(hidden=64, layers=4, heads=4, kv_heads=2, intermediate=128, vocabulary=512)
        steps = tuple(Step(tokens=step.tokens // 256, micro_batches=step.micro_batches) for step in STEPS)
    try:
        dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=60))
        with nullcontext() if cuda else on_the_cpu():
            results.put(_measure(grid, dimensions, steps))
    except Exception:
        results.put({**asdict(grid), "failed": traceback.format_exc()})
    results.close()
    results.join_thread()
    os._exit(0)


def measure(grid: Grid, gpus: int, port: int, dry_run: bool) -> list[dict[str, Any]]:
    """One grid in fresh processes: a record of every stage."""
    fork = get_context("fork")
    results = fork.Queue()
    processes = [
        fork.Process(target=_work, args=(grid, rank, gpus, port, dry_run, results)) for rank in range(gpus)
    ]
    for process in processes:
        process.start()
    found = []
    try:
        found += [results.get(timeout=75) for _ in processes]
    except Empty:
        print(f"{grid}: a process said nothing", flush=True)
    for process in processes:
        process.join(5)
        process.kill()
    return sorted((stage for stage in found if stage), key=lambda stage: stage.get("stage", 0))


def main() -> None:
    """Runs every grid that fits the GPUs; the file is written again after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--gpus", type=int, default=4, help="processes, one per GPU")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model, without a GPU if there is none")
    arguments = parser.parse_args()
    import megatron.core.models.gpt  # once, before the processes are forked  # noqa: F401

    document = {
        "what": "Memory of a GPT model in Megatron-Core, with the dimensions of Qwen2.5-1.5B.",
        "hardware": hardware(),
        "software": {"megatron-core": metadata.version("megatron-core"), "torch": torch.__version__},
        "notes": NOTES,
        "date": date.today().isoformat(),
        "dimensions": asdict(Dimensions()),
        "stages": [],
    }
    fitting = [grid for grid in GRIDS if arguments.gpus % (grid.tensor * grid.pipeline) == 0]
    for index, grid in enumerate(fitting):
        found = measure(grid, arguments.gpus, 29300 + index, arguments.dry_run)
        document["stages"] += found
        arguments.output.write_text(json.dumps(document, indent=1) + "\n")
        failures = [stage["failed"] for stage in found if "failed" in stage]
        print(f"{grid}: {len(found) - len(failures)} stages", *failures[:1], flush=True)


if __name__ == "__main__":
    main()
