"""A training engine that allocates what verl's FSDP engine allocates, in its order.

Source: verl 0.9.1 ``workers/engine/base.py`` (``train_batch``, ``infer_batch``, ``BaseEngineCtx``),
``workers/engine/fsdp/transformer_impl.py`` (``forward_backward_batch``, ``forward_step``,
``optimizer_step``).

T: tokens of a micro-batch. P: those of one of the ranks that share it, T where none do.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

from tuner.validate.head.worker import heads
from tuner.validate.training.settings import ModelSettings, PassSettings, Stage
from tuner.validate.training.worker import attention, batches, images, sharding, ulysses
from tuner.validate.training.worker.batches import MicroBatch, random_micro_batches
from tuner.validate.training.worker.meter import Meter
from tuner.validate.training.worker.model import empty_model
from tuner.validate.training.worker.optimizer import MAX_NORM, clip, make_states, move_states
from tuner.workload import Checkpointing, Engine, HeadKind

_LEARNING_RATE = 1e-6
_WEIGHT_DECAY = 0.01
_BETAS = (0.9, 0.999)


class TrainingEngine:
    """One model, sharded over the process group, with AdamW where its engine trains."""

    def __init__(self, model: ModelSettings, engine: Engine, device: torch.device) -> None:
        self.name = "tuner"
        dtype = sharding.torch_dtype(engine.stored_dtype)
        built = empty_model(model, dtype, fused_layers=engine.fused_layers)
        self._critic = model.critic
        if engine.frozen_tower:
            images.freeze_tower(built)
        self._inner = built
        self.device = device
        self.meter = Meter(device)  # told of the end of every stage
        self._compute_dtype = sharding.torch_dtype(engine.compute_dtype)
        self._frees_root = engine.frees_root
        self._sharing = ulysses.sharing(engine, device)
        self._module = sharding.shard(built, engine, device)
        self._optimizer: torch.optim.Optimizer | None = None
        if not engine.streamed_offload:
            self._optimizer = torch.optim.AdamW(
                self._module.parameters(), lr=_LEARNING_RATE, betas=_BETAS, weight_decay=_WEIGHT_DECAY
            )
            make_states(self._optimizer)

    @property
    def module(self) -> torch.nn.Module:
        """The sharded model, as every pass calls it."""
        return self._module

    def batch(self, settings: PassSettings) -> list[MicroBatch]:
        """The micro-batches of a pass, on the host."""
        return random_micro_batches(settings, self._inner.config)

    def run(self, settings: PassSettings, batch: Sequence[MicroBatch]) -> float:
        """One pass; seconds of what it does once: offloading, clipping and the optimizer's step.

        Raises:
            FloatingPointError: gradients are not finite, so that AdamW made no step.
        """
        switch_checkpointing(self._inner, settings.engine.checkpointing)
        begin = self.meter.now()
        with self._loaded(settings):
            loaded = self.meter.now()
            step = self._train(settings, batch) if settings.training else self._infer(settings, batch)
            computed = self.meter.now()
        return loaded - begin + step + self.meter.now() - computed

    @contextmanager
    def _loaded(self, settings: PassSettings) -> Iterator[None]:
        """What is offloaded between passes is on the device within this; gradients go at its end."""
        engine, optimizer = settings.engine, self._optimizer if settings.training else None
        if engine.param_offload:
            sharding.to_device(self._module, self.device)
        if engine.optimizer_offload and optimizer is not None:
            move_states(optimizer, self.device)
        self._module.train(settings.training)
        try:
            yield
        finally:
            if optimizer is not None:
                optimizer.zero_grad()
            if self._frees_root and not settings.training:
                self._reshard_root()
            if engine.param_offload:
                sharding.to_host(self._module)
            if engine.optimizer_offload and optimizer is not None:
                move_states(optimizer, torch.device("cpu"))

    def offload_like(self, settings: PassSettings) -> None:
        """Put the states where a pass with these settings expects them; AdamW's exist once it has stepped."""
        engine = settings.engine
        host = torch.device("cpu")
        if engine.param_offload:
            sharding.to_host(self._module)
        elif not engine.streamed_offload:
            sharding.to_device(self._module, self.device)
        if self._optimizer is not None:
            move_states(self._optimizer, host if engine.optimizer_offload else self.device)

    def _reshard_root(self) -> None:
        module: Any = self._module
        if isinstance(module, FullyShardedDataParallel):
            handle: Any = module._handle
            handle.reshard(True)
        else:
            module.reshard()

    def _infer(self, settings: PassSettings, batch: Sequence[MicroBatch]) -> float:
        self._count(batch)
        with torch.no_grad():
            results = [self._forward(settings, micro_batch.to(self.device)) for micro_batch in batch]
        del results
        self.meter.end_of(Stage.FORWARD)
        return 0.0

    def _train(self, settings: PassSettings, batch: Sequence[MicroBatch]) -> float:
        assert self._optimizer is not None
        self._count(batch)
        self._optimizer.zero_grad()
        for index, micro_batch in enumerate(batch):
            with self._synchronised(settings, last=index == len(batch) - 1):
                self._forward_backward(settings, micro_batch)
        begin = self.meter.now()
        self._step()
        self.meter.end_of(Stage.STEP)
        return self.meter.now() - begin

    def _count(self, batch: Sequence[MicroBatch]) -> None:
        self._sharing.count(sum(part.input_ids.numel() for part in batch), self.device)

    def _forward_backward(self, settings: PassSettings, micro_batch: MicroBatch) -> None:
        with self._packed(settings, micro_batch):
            loss, output = self._loss(settings, micro_batch.to(self.device))
            self.meter.end_of(Stage.FORWARD)
            loss.backward()  # type: ignore[no-untyped-call]
            self.meter.end_of(Stage.BACKWARD)
        del output

    @contextmanager
    def _synchronised(self, settings: PassSettings, *, last: bool) -> Iterator[None]:
        """Gradients are reduced in every micro-batch, or in the last one alone."""
        module: Any = self._module
        if last or not settings.engine.deferred_gradient_sync:
            yield
        elif isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(False)
            yield
            module.set_requires_gradient_sync(True)
        else:
            with module.no_sync():
                yield

    def _loss(self, settings: PassSettings, batch: MicroBatch) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The loss, and the results without their graph; the logits are gone unless autograd saved them."""
        with self._autocast():
            first, entropy = self._results(settings, batch)
            loss = (
                batches.value_loss(first, batch)
                if self._critic
                else batches.policy_loss(first, entropy, batch)
            )
            loss.detach().item()
            return loss, tuple(tensor.detach() for tensor in (first, entropy) if tensor is not None)

    def _forward(self, settings: PassSettings, batch: MicroBatch) -> tuple[Tensor, ...]:
        with self._packed(settings, batch), self._autocast():
            return tuple(tensor for tensor in self._results(settings, batch) if tensor is not None)

    def _packed(self, settings: PassSettings, batch: MicroBatch) -> AbstractContextManager[None]:
        repeats = settings.engine.repeats_keys
        return attention.packed(batch.lengths, self.device, self._sharing, repeats_keys=repeats)

    def _autocast(self) -> Any:
        if self._compute_dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self._compute_dtype)

    def _results(self, settings: PassSettings, batch: MicroBatch) -> tuple[Tensor, Tensor | None]:
        """``[T]`` log-probabilities and entropy; a critic's values."""
        tokens = batch.input_ids.shape[1]
        first, entropy = self._own_results(settings, batch)
        return (
            self._sharing.gathered(first, tokens),
            None if entropy is None else self._sharing.gathered(entropy, tokens),
        )

    def _own_results(self, settings: PassSettings, batch: MicroBatch) -> tuple[Tensor, Tensor | None]:
        """``[P]`` of them."""
        own = self._sharing.own_part
        ids, positions = batch.input_ids, batch.position_ids
        padding = torch.arange(self._sharing.padding(ids.shape[1]), device=ids.device)
        labels_P = own(ids.roll(-1, dims=1)).squeeze(0)
        inputs = {"input_ids": own(ids), "position_ids": own(positions, padding), "use_cache": False}
        inputs |= batch.images
        if settings.head.kind is HeadKind.FUSED_TORCH:
            with heads.fused(self._module, settings.head):
                log_probs, entropy = self._module(
                    **inputs, shift_labels=labels_P, temperature=settings.temperature
                )
            return log_probs, entropy if settings.entropy else None
        temperature_P = torch.full_like(labels_P, settings.temperature, dtype=torch.float32)
        returned = self._module(**inputs)
        if self._critic:
            return returned.logits.squeeze(0).squeeze(-1), None
        return heads.from_logits(returned, labels_P, temperature_P, settings.head, entropy=settings.entropy)

    def _step(self) -> None:
        assert self._optimizer is not None
        module: Any = self._module
        if isinstance(module, FullyShardedDataParallel):
            norm = module.clip_grad_norm_(MAX_NORM)
        else:
            norm = clip(list(module.parameters()))
        if not torch.isfinite(norm):
            raise FloatingPointError("the gradient is not finite: AdamW made no step")
        self._optimizer.step()


def switch_checkpointing(model: Any, checkpointing: Checkpointing) -> None:
    """Whether layers are recomputed from now on; ``model`` is transformers', wrapped or not."""
    renamed = hasattr(model, "activation_checkpointing_enable")
    if checkpointing is not Checkpointing.FULL:
        off = model.activation_checkpointing_disable if renamed else model.gradient_checkpointing_disable
        off()
    elif renamed:  # transformers 5.2x; the old names are gone in its next major release
        model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
