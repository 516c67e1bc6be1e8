"""Updates of verl's training worker: log-probabilities first, then each update, the skip's last."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch
import torch.distributed as dist

from tuner.validate.training.settings import ModelSettings, PassFigures
from tuner.validate.training.worker.measure import join_alone
from tuner.validate.training.worker.meter import Meter
from tuner.validate.training.worker.verl_build import verl
from tuner.validate.verl_update.settings import EngineUpdate, Update, UpdateFigures, UpdateWork
from tuner.validate.verl_update.worker.batch import advantages, batch
from tuner.validate.verl_update.worker.training_worker import OURS, built_worker, run_on_the_cpu

SKIP = "TUNER_SKIP_ZERO_ADVANTAGE"


def run(model: ModelSettings, work: UpdateWork, device: torch.device) -> EngineUpdate:
    """What ``measure`` does, once the environment says what is put in place."""
    join_alone(device)
    torch.set_num_threads(1)  # as Ray, of a worker that asks for no more, has it in OMP_NUM_THREADS
    if device.type == "cpu":
        run_on_the_cpu()
    worker = built_worker(model, work, device)
    log_probs, largest = _log_probs(worker, work)
    ranks = worker.engine.get_data_parallel_size()
    if device.type != "cpu":  # whose seconds say nothing, and whose interpreter compiles nothing
        _MeasuredUpdate(worker, work, device).run(Update())
    return EngineUpdate(
        log_probs=tuple(log_probs.float().tolist()),
        rounded=log_probs.dtype is not torch.float32,
        largest_logit=largest,
        mean_advantage=float(advantages(work.settings, ranks).abs().mean()),
        updates=tuple(_updates(worker, work, device)),
    )


def _vocabulary(worker: Any) -> int:
    return int(worker.model_config.hf_config.get_text_config().vocab_size)


def _log_probs(worker: Any, work: UpdateWork) -> tuple[torch.Tensor, float | None]:
    """Log-probabilities of one micro-batch, and the largest of its logits where there are any."""
    one = replace(work.settings, micro_batches=1)
    data = batch(one, worker.engine, _vocabulary(worker), 0.0)
    fused = worker.engine_config.use_fused_kernels
    verl("utils.tensordict_utils").assign_non_tensor(data, use_fused_kernels=fused)
    with _watching_logits(worker.engine.module, watch=not fused) as largest, worker.engine.eval_mode():
        output = worker.engine.infer_batch(data)
    return output["model_output"]["log_probs"].values().cpu(), max(largest, default=None)


@contextmanager
def _watching_logits(module: Any, *, watch: bool) -> Iterator[list[float]]:
    """The largest absolute logit of every call of the output projection."""
    largest: list[float] = []

    def note(_: Any, __: Any, logits: torch.Tensor) -> None:
        low, high = torch.aminmax(logits)
        largest.append(float(torch.maximum(-low, high)))

    handle = module.get_output_embeddings().register_forward_hook(note) if watch else None
    try:
        yield largest
    finally:
        if handle is not None:
            handle.remove()


def _updates(worker: Any, work: UpdateWork, device: torch.device) -> Iterator[UpdateFigures]:
    measured = _MeasuredUpdate(worker, work, device)
    for update in work.updates:
        if update.skip and SKIP not in os.environ:
            os.environ[SKIP] = "keep-steps"
            import_module(OURS)  # as a worker does; what it replaces has been imported
        yield measured.run(update)


class _MeasuredUpdate:
    """Runs updates of one worker."""

    def __init__(self, worker: Any, work: UpdateWork, device: torch.device) -> None:
        self._worker, self._work = worker, work
        self._meter = Meter(device)
        self._name = f"verl {version('verl')}"

    def run(self, update: Update) -> UpdateFigures:
        """One update: from an emptied cache, then for the time."""
        self._meter.reset()
        before = self._meter.allocated()
        metrics, _ = self._once(update)
        peaks = self._meter.peaks()
        seconds = tuple(self._once(update)[1] for _ in range(update.repetitions))
        (norm,), (loss,) = metrics["grad_norm"], metrics["loss"]
        if not norm < float("inf"):
            raise RuntimeError("the gradient is not finite: AdamW made no step")
        left_out = metrics.get("actor/skip/left_out_ratio")
        return UpdateFigures(
            update=update,
            figures=PassFigures(
                engine=self._name,
                allocated_before_bytes=before,
                peak_allocated_bytes=peaks["peak_allocated_bytes"],
                peak_requested_bytes=peaks["peak_requested_bytes"],
                peak_reserved_bytes=peaks["peak_reserved_bytes"],
                non_torch_bytes=peaks["non_torch_bytes"],
                seconds=seconds,
            ),
            loss=float(loss),
            grad_norm=float(norm),
            left_out=None if left_out is None else float(left_out[0]),
        )

    def _once(self, update: Update) -> tuple[dict[str, Any], float]:
        """The metrics of an update, and its seconds."""
        worker = self._worker
        data = batch(self._work.settings, worker.engine, _vocabulary(worker), update.share)
        if dist.get_world_size() > 1:
            dist.barrier()
        begin = self._meter.now()
        output = worker.train_mini_batch(data)
        seconds = self._meter.now() - begin
        # Of the ranks that share a sequence, only the first has metrics; its are those that count.
        metrics = {"grad_norm": [0.0], "loss": [0.0]} if output is None else _metrics(output)
        return metrics, seconds


def _metrics(output: Any) -> dict[str, Any]:
    metrics: dict[str, Any] = verl("utils.tensordict_utils").get(output, "metrics")
    return metrics
