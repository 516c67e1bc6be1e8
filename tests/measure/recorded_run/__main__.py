"""Runs steps of verl's own workers with the record on; run it by hand, from the repository.

    PYTHONPATH=.:tests torchrun --nproc-per-node 2 -m measure.recorded_run --output DIR
        [--workers-alone] [--dry-run]

Needs what ``measure.verl_engine`` needs. verl 0.9.1's ``ActorRolloutRefWorker`` and ``TrainingWorker`` run
on its FSDP engine with random weights, and its ``Tracking`` logs. What Ray and the trainer do around them,
calling the workers in the order of ``RayPPOTrainer.fit``, is done here, and a stand-in generates. The record
is written to ``DIR`` through ``VERL_USE_EXTERNAL_MODULES=tuner.inside_verl``, as in a real job.
"""

import argparse
import asyncio
import os
import types
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import torch.distributed as dist
from measure.recorded_run.batch import batch_of
from measure.recorded_run.rollout import RandomRollout
from measure.recorded_run.settings import STEPS, Job, job
from measure.verl_engine.model import random_model, write_config
from measure.verl_engine.stand_ins import Permissive, prepare_imports

_OF_SERVERS = (
    "uvicorn",
    "fastapi",
    "aiohttp",
    "starlette",
    "zmq",
    "cachetools",
    "pandas",
    "msgpack",
    "requests",
)


def main() -> None:
    """Records the steps of the job."""
    arguments = _arguments()
    os.environ["TUNER_RECORD"] = str(arguments.output.absolute())
    if not arguments.workers_alone:
        os.environ["VERL_USE_EXTERNAL_MODULES"] = "tuner.inside_verl"
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = torch.cuda.is_available()
    os.environ["VERL_ENGINE_DEVICE"] = "cuda"  # a dry run on the CPU takes the same engine
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="cpu:gloo,cuda:nccl" if gpu else "gloo")
    Permissive.names += _OF_SERVERS  # verl's workers import what serves rollouts, which is not used here
    prepare_imports()
    small = arguments.dry_run
    # One folder for all ranks: the model's configuration beside the record, where advise finds it.
    path = arguments.output.absolute() / "model"
    path.mkdir(parents=True, exist_ok=True)
    plan = job(world, tiny=small)
    if rank == 0:
        write_config(plan.model, str(path), shrink=small)
    dist.barrier()
    overrides = plan.overrides(str(path))
    if arguments.workers_alone:
        overrides.append("actor_rollout_ref.model.external_lib=tuner.inside_verl")
    config = _config(overrides)
    worker = _worker(config, plan)
    tracking = _tracking(config) if rank == 0 and not arguments.workers_alone else None
    asyncio.run(worker.update_weights(global_steps=0))
    for step in range(1, STEPS + 1):
        metrics = _step(worker, config, plan, step, rank)
        if tracking is not None:
            tracking.log(data=metrics, step=step)
    dist.barrier()
    print(f"rank {rank}: {STEPS} steps", flush=True)
    dist.destroy_process_group()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the record")
    parser.add_argument(
        "--workers-alone", action="store_true", help="as with external_lib, without the trainer"
    )
    parser.add_argument("--dry-run", action="store_true", help="a tiny model, without a GPU if there is none")
    return parser.parse_args()


def _config(overrides: list[str]) -> Any:
    import verl
    from hydra import compose, initialize_config_dir

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return compose(
            config_name="ppo_trainer", overrides=[*overrides, "+actor_rollout_ref.model.load_tokenizer=False"]
        )


def _worker(config: Any, plan: Job) -> Any:
    """verl's worker with random weights and a stand-in that generates."""
    from verl.workers import engine_workers

    auto_class = types.SimpleNamespace(
        from_pretrained=lambda config, torch_dtype, **_: random_model(config, torch_dtype, critic=False)
    )

    def rollout(**_further: Any) -> RandomRollout:
        return RandomRollout(plan)

    role = "actor_rollout_ref" if plan.reference else "actor_rollout"
    with (
        mock.patch("verl.utils.model.get_hf_auto_model_class", return_value=auto_class),
        mock.patch.object(engine_workers, "get_rollout_class", return_value=rollout),
    ):
        worker = engine_workers.ActorRolloutRefWorker(config.actor_rollout_ref, role=role)
        worker.init_model()
    return worker


def _tracking(config: Any) -> Any:
    from omegaconf import OmegaConf
    from verl.utils.tracking import Tracking

    return Tracking(
        project_name="recorded",
        experiment_name="run",
        default_backend=["console"],
        config=OmegaConf.to_container(config, resolve=True),
    )


def _step(worker: Any, config: Any, plan: Job, step: int, rank: int) -> dict[str, float]:
    """One step, as the trainer makes it; the metrics of this rank."""
    from verl.utils import tensordict_utils as tu

    timing: dict[str, float] = {}
    settings = config.actor_rollout_ref
    with _timer("step", timing):
        with _timer("gen", timing):
            generated = worker.rollout.generate(step, rank)
        data = batch_of(plan, generated, settings.rollout.temperature)
        with _timer("old_log_prob", timing):
            tu.assign_non_tensor(data, calculate_entropy=True, compute_loss=False)
            output = worker.compute_log_prob(data.clone())
        if plan.reference:
            with _timer("ref", timing):
                tu.assign_non_tensor(data, calculate_entropy=False, compute_loss=False)
                reference = worker.compute_ref_log_prob(data.clone())
            data["ref_log_prob"] = _of_responses(tu.get(reference, "log_probs"), plan, generated)
        data["old_log_probs"] = _of_responses(tu.get(output, "log_probs"), plan, generated)
        data["advantages"] = _signs(data["response_mask"])
        with _timer("update_actor", timing):
            mini_batch = settings.actor.ppo_mini_batch_size * settings.rollout.n
            tu.assign_non_tensor(
                data,
                calculate_entropy=False,
                compute_loss=True,
                global_batch_size=mini_batch,
                mini_batch_size=mini_batch,
                epochs=1,
                seed=42,
                dataloader_kwargs={"shuffle": False},
            )
            updated = worker.update_actor(data)
        with _timer("update_weights", timing):
            asyncio.run(worker.update_weights(global_steps=step))
    own = tu.get(updated, "metrics")
    lengths = generated["lengths"].float()
    return {
        **{f"timing_s/{name}": seconds for name, seconds in timing.items()},
        "prompt_length/mean": float(plan.prompt_tokens),
        "response_length/mean": float(lengths.mean()),
        "response_length/max": float(lengths.max()),
        "perf/max_memory_allocated_gb": _highest(own["perf/max_memory_allocated_gb"]),
        "perf/max_memory_reserved_gb": _highest(own["perf/max_memory_reserved_gb"]),
        "actor/grad_norm": _highest(own["grad_norm"]),
    }


def _highest(value: Any) -> float:
    return max(float(part) for part in value) if isinstance(value, list) else float(value)


def _of_responses(values: torch.Tensor, plan: Job, generated: dict[str, torch.Tensor]) -> torch.Tensor:
    """What a pass gave of whole sequences, of their responses alone."""
    rows = []
    for row, length in zip(values.unbind(), generated["lengths"].tolist(), strict=True):
        rows.append(row[-length - 1 : -1] if len(row) > length else row)
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def _signs(mask: torch.Tensor) -> torch.Tensor:
    rows = [torch.full((len(row),), 1.0 if index % 2 else -1.0) for index, row in enumerate(mask.unbind())]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@contextmanager
def _timer(name: str, timing: dict[str, float]) -> Any:
    import time

    begin = time.perf_counter()
    yield
    timing[name] = time.perf_counter() - begin


if __name__ == "__main__":
    main()
