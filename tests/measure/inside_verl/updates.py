"""One process, one engine: its updates, what they gave and what they took."""

import importlib
import math
import os
import sys
import time
import traceback
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
import torch.distributed as dist
from measure.inside_verl.cases import Updates
from measure.verl_engine.engine import build_engine, loss_function, random_batch
from measure.verl_engine.passes import Meter, shrunk
from measure.verl_engine.settings import PassSettings

from tuner.versions import at_least


def _number(value: Any) -> float:
    value = getattr(value, "values", value)
    parts = value if isinstance(value, list) else [value]
    return sum(float(part) for part in parts)


def _pad(data: Any, settings: PassSettings) -> None:
    """What the loss of releases up to 0.7.1 reads as whole tensors; all sequences have one length."""
    for name in ("prompts", "responses", "response_mask", "old_log_probs", "advantages"):
        data[name] = torch.stack(data[name].unbind())
    data["attention_mask"] = torch.ones(len(data), settings.sequence_length, dtype=torch.long)


def run_update(engine: Any, case: Updates, settings: PassSettings, seed: int) -> dict[str, Any]:
    """One update as verl's training worker makes it."""
    data = random_batch(settings, case.engine, engine, seed=seed)
    # Near what random weights give, so that few tokens are clipped.
    vocabulary = engine.model_config.hf_config.vocab_size
    data["old_log_probs"] = 0 * data["old_log_probs"] - math.log(vocabulary)
    if not at_least(version("verl"), "0.8.0"):
        _pad(data, settings)
    loss, config = loss_function(settings, case.engine)
    meter = Meter()
    dist.barrier()
    meter.reset()
    begin = time.perf_counter()
    with engine.train_mode():
        output = engine.train_batch(data, loss_function=partial(loss, config=config))
    peaks = meter.peaks()
    return {
        "seconds": round(time.perf_counter() - begin, 4),
        "loss": sum(output["loss"]),
        "grad_norm": _number(output["metrics"]["grad_norm"]),
        **peaks,
    }


def _run(case: Updates, port: int, timeout: timedelta, dry_run: bool, results: Any) -> None:
    """Everything that happens in one fresh process."""
    os.environ["MASTER_PORT"] = str(port)
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if case.tuner_head is not None:
        os.environ["TUNER_HEAD"] = case.tuner_head
        importlib.import_module("tuner.inside_verl")
    settings = PassSettings(
        tokens=case.tokens, micro_batches=case.micro_batches, calculate_entropy=case.entropy
    )
    if dry_run:
        settings = shrunk(settings)
    dist.init_process_group(backend="cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=timeout)
    try:
        begin = time.perf_counter()
        engine = build_engine(case.engine, tiny=dry_run)
        built = round(time.perf_counter() - begin, 1)
        for seed in range(case.count):
            update = run_update(engine, case, settings, seed)
            results.send({"seed": seed, "engine_seconds": built, **update})
    except torch.OutOfMemoryError as error:
        results.send({"out_of_memory": str(error).partition(". See")[0]})
    except Exception as error:
        results.send({"error": f"{type(error).__name__}: {error}"[:500]})
        traceback.print_exc()
    results.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # one rank may have failed: wait for nobody
