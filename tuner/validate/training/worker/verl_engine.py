"""verl's own FSDP engine, where verl 0.9 is installed with what it imports; random weights, no checkpoint.

It is what :mod:`tuner.validate.training.worker.engine` stands in for elsewhere, and is used in the same way.
"""

import logging
import tempfile
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
from tuner.validate.training.worker.model import WITHOUT_TOKENS
from tuner.validate.training.worker.optimizer import make_states
from tuner.validate.training.worker.random_weights import random_weights
from tuner.workload import Engine, HeadKind

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
        _verl("workers.engine.fsdp.transformer_impl")
    except Exception:  # whatever it lacks: ours runs instead, and the figures say so
        logging.getLogger(__name__).debug("verl's engine cannot be imported", exc_info=True)
        return False
    return True


def _verl(module: str) -> Any:
    return import_module(f"verl.{module}")


class VerlEngine:
    """As :class:`~tuner.validate.training.worker.engine.TrainingEngine`."""

    def __init__(self, model: ModelSettings, settings: PassSettings, device: torch.device) -> None:
        self.name = f"verl {version('verl')}"
        self.device = device
        self.meter = Meter(device)
        self._critic = model.critic
        self._training, self._begun, self._step_s = False, False, 0.0
        with tempfile.TemporaryDirectory() as directory:
            self._config = _write_config(model, directory)
            self._engine = _engine(directory, settings, critic=model.critic)
            with random_weights(_verl("utils.model"), critic=model.critic):
                self._engine.initialize()
        if self._engine.optimizer is not None:
            make_states(self._engine.optimizer)
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
        return _verl("utils.tensordict_utils").get_tensordict(
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
        engine.engine_config = replace(
            engine.engine_config, use_no_sync_for_gradient_accumulation=settings.engine.deferred_gradient_sync
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


def _write_config(model: ModelSettings, directory: str) -> Any:
    """The configuration, written as a folder that verl reads."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    values = {**model.config, **dict.fromkeys(WITHOUT_TOKENS)}
    model_type = values.pop("model_type")
    values["architectures"] = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]]
    config = AutoConfig.for_model(model_type, **values)
    config.save_pretrained(directory)
    return config


def _engine(directory: str, settings: PassSettings, *, critic: bool) -> Any:
    configs, engines = _verl("workers.config"), _verl("workers.engine.fsdp.transformer_impl")
    kind = engines.FSDPEngineWithValueHead if critic else engines.FSDPEngineWithLMHead
    return kind(
        model_config=configs.HFModelConfig(
            path=directory,
            model_type="value_model" if critic else "language_model",
            load_tokenizer=False,
            enable_gradient_checkpointing=False,
            use_remove_padding=True,
            use_liger=settings.engine.fused_layers,
        ),
        engine_config=_engine_config(configs.FSDPEngineConfig, settings),
        optimizer_config=configs.FSDPOptimizerConfig(lr=1e-6, lr_warmup_steps=0, total_training_steps=100),
        checkpoint_config=_verl("trainer.config").CheckpointConfig(),
    )


def _engine_config(config_class: Any, settings: PassSettings) -> Any:
    engine, head = settings.engine, settings.head
    shard, world = engine.parallel.shard, engine.parallel.gpus
    return config_class(
        strategy=engine.backend.value,
        fsdp_size=shard if shard < world else -1,
        model_dtype=_verl_dtype(engine),
        forward_only=engine.streamed_offload,
        reshard_after_forward=engine.reshard_after_forward,
        forward_prefetch=engine.forward_prefetch,
        use_torch_compile=head.compiled,
        use_no_sync_for_gradient_accumulation=engine.deferred_gradient_sync,
        entropy_checkpointing=head.checkpointed,
        entropy_from_logits_with_chunking=head.chunk_tokens is not None,
        ulysses_sequence_parallel_size=engine.parallel.ulysses,
        use_dynamic_bsz=False,
        use_fused_kernels=False,
    )


def _verl_dtype(engine: Engine) -> str:
    return {"float32": "fp32", "bfloat16": "bf16"}[engine.stored_dtype.value]


def _loss(settings: PassSettings, *, critic: bool) -> Any:
    """Verl's loss, bound to its configuration."""
    configs, losses = _verl("workers.config"), _verl("workers.utils.losses")
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
