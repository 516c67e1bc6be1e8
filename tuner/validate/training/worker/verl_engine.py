"""verl's own FSDP engine, where verl 0.9 is installed with what it imports; random weights, no checkpoint.

It is what :mod:`tuner.validate.training.worker.engine` stands in for elsewhere, and is used in the same way.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch

from tuner.validate.training.settings import ModelSettings, PassSettings, Stage
from tuner.validate.training.worker.batches import nested, random_micro_batches, rows_by_name
from tuner.validate.training.worker.engine import switch_checkpointing
from tuner.validate.training.worker.meter import Meter
from tuner.validate.training.worker.verl_build import DEFERS, initialized_engine, verl
from tuner.workload import HeadKind

_RELEASES = ("0.9.",)  # whose engine takes what is given to it here


def is_here(passes: Sequence[PassSettings]) -> bool:
    """Whether verl's engine can be imported, and can run these passes one after the other.

    The head is part of what its engine is built with, and a fused one replaces a class's method for good.
    Images are not handed to it.
    """
    if any(settings.images is not None for settings in passes):
        return False
    heads = {settings.head for settings in passes}
    if len(heads) > 1 or heads.pop().kind not in (HeadKind.LOGITS, HeadKind.VALUE):
        return False
    try:
        if not version("verl").startswith(_RELEASES):
            return False
        import_module("flash_attn.ops.triton.cross_entropy")
        import_module("verl.workers.engine.fsdp.transformer_impl")
    except Exception:  # whatever it lacks: ours runs instead, and the figures say so
        logging.getLogger(__name__).debug("verl's engine cannot be imported", exc_info=True)
        return False
    return True


class VerlEngine:
    """As :class:`~tuner.validate.training.worker.engine.TrainingEngine`."""

    def __init__(self, model: ModelSettings, settings: PassSettings, device: torch.device) -> None:
        self.name = f"verl {version('verl')}"
        self.device = device
        self.meter = Meter(device)
        self._critic = model.critic
        self._training, self._begun, self._step_s = False, False, 0.0
        self._engine, self._config = initialized_engine(model, settings)
        self._watch()

    def _watch(self) -> None:
        """Note the end of every stage, and how long clipping and the optimizer's step take."""
        engine: Any = self._engine
        forward, step = engine.forward_step, engine.optimizer_step

        def forward_step(*arguments: Any, **options: Any) -> Any:
            if self._training and self._begun:
                self.meter.end_of(Stage.BACKWARD)
            self._begun = True
            output = forward(*arguments, **options)
            self.meter.end_of(Stage.FORWARD)
            return output

        def optimizer_step() -> Any:
            self.meter.end_of(Stage.BACKWARD)
            begin = self.meter.now()
            norm = step()
            self.meter.end_of(Stage.STEP)
            self._step_s = self.meter.now() - begin
            return norm

        engine.forward_step, engine.optimizer_step = forward_step, optimizer_step

    def batch(self, settings: PassSettings) -> Any:
        """The sequences of a pass as verl's workers receive them, on the host."""
        per_micro_batch, ranks = settings.sequences, settings.engine.parallel.ulysses
        last = replace(settings, micro_batches=1, first_tokens=None)
        first = replace(settings, micro_batches=settings.micro_batches - 1, first_tokens=None)
        if settings.first_tokens is not None:  # verl divides by sequences: the first ones are as many
            share = max(2, settings.first_tokens // per_micro_batch)
            first = replace(first, tokens=share * per_micro_batch, sequence_length=share * ranks)
        micro_batches = [
            micro_batch for some in (first, last) for micro_batch in random_micro_batches(some, self._config)
        ]
        global_batch = per_micro_batch * len(micro_batches) * self._engine.get_data_parallel_size()
        return verl("utils.tensordict_utils").get_tensordict(
            {name: nested(rows) for name, rows in rows_by_name(micro_batches, critic=self._critic).items()},
            {
                "use_remove_padding": True,
                "use_dynamic_bsz": False,
                "micro_batch_size_per_gpu": per_micro_batch,
                "use_fused_kernels": False,
                "calculate_entropy": settings.entropy,
                "temperature": settings.temperature,
                "global_batch_size": global_batch,
            },
        )

    def run(self, settings: PassSettings, batch: Any) -> float:
        """One pass as verl's training worker makes it; seconds of what it does once, offloading included.

        Raises:
            FloatingPointError: gradients are not finite, so that AdamW made no step.
        """
        engine: Any = self._engine
        self._training, self._begun, self._step_s = settings.training, False, 0.0
        switch_checkpointing(engine.module, settings.engine.checkpointing)
        if hasattr(engine.engine_config, DEFERS):
            engine.engine_config = replace(
                engine.engine_config, **{DEFERS: settings.engine.deferred_gradient_sync}
            )
        begin = self.meter.now()
        with engine.train_mode() if settings.training else engine.eval_mode():
            loaded = self.meter.now()
            if settings.training:
                output = engine.train_batch(batch, loss_function=_loss(settings, critic=self._critic))
            else:
                output = engine.infer_batch(batch)
            computed = self.meter.now()
        if settings.training and not output["metrics"]["grad_norm"] < float("inf"):
            raise FloatingPointError("the gradient is not finite: AdamW made no step")
        return loaded - begin + self._step_s + self.meter.now() - computed

    def offload_like(self, settings: PassSettings) -> None:
        """Put the states where a pass with these settings expects them."""
        engine: Any = self._engine
        wanted = settings.engine
        if wanted.streamed_offload:
            return
        engine._is_offload_param, engine._is_offload_optimizer = (
            wanted.param_offload,
            wanted.optimizer_offload,
        )
        device = self.device.type
        engine.to("cpu" if wanted.param_offload else device, model=True, optimizer=False, grad=False)
        engine.to("cpu" if wanted.optimizer_offload else device, model=False, optimizer=True, grad=False)


def _loss(settings: PassSettings, *, critic: bool) -> Any:
    """Verl's loss, bound to its configuration."""
    configs, losses = verl("workers.config"), verl("workers.utils.losses")
    strategy = settings.engine.backend.value
    if critic:
        return partial(
            losses.value_loss, configs.CriticConfig(strategy=strategy, ppo_micro_batch_size_per_gpu=1)
        )
    actor = configs.FSDPActorConfig(
        strategy=strategy,
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        entropy_coeff=0.001 if settings.entropy else 0.0,
    )
    return partial(losses.ppo_loss, actor)
