"""verl's engine, and a batch as verl's workers receive it."""

import dataclasses
import tempfile
import types
from typing import Any
from unittest import mock

import torch
from measure.verl_engine.model import random_model, write_config
from measure.verl_engine.seen import image_inputs, place_images, positions
from measure.verl_engine.settings import EngineSettings, PassSettings

FINE_TUNING = "fine_tuning"  # the kind of pass that verl.trainer.sft_trainer makes


def build_engine(settings: EngineSettings, *, tiny: bool) -> Any:
    """verl's engine with these settings and random weights."""
    with tempfile.TemporaryDirectory() as directory:
        write_config(settings.model, directory, shrink=tiny)
        engine = _engine(settings, directory)
        auto_class = types.SimpleNamespace(
            from_pretrained=lambda config, torch_dtype, **_: random_model(
                config, torch_dtype, critic=False, frozen_tower=settings.frozen_tower
            )
        )
        with (
            mock.patch("verl.utils.model.get_hf_auto_model_class", return_value=auto_class),
            mock.patch(
                "verl.utils.model.load_valuehead_model",
                lambda model_config, torch_dtype, **_: random_model(model_config, torch_dtype, critic=True),
            ),
        ):
            engine.initialize()
    return engine


def of_release(kind: Any, **values: Any) -> Any:
    """A configuration of verl without the fields that its release does not have, where they are off.

    Raises:
        ValueError: a field that the release does not have is on.
    """
    known = {field.name for field in dataclasses.fields(kind)}
    given = {name: value for name, value in values.items() if name in known}
    asked = [
        name for name, value in values.items() if name not in known and value not in (False, "language_model")
    ]
    if asked:
        raise ValueError(f"{kind.__name__} of this release has no {', '.join(asked)}")
    return kind(**given)


def _engine(settings: EngineSettings, directory: str) -> Any:
    from verl.trainer.config import CheckpointConfig
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

    fused = settings.fused_kernels
    model_config = of_release(
        HFModelConfig,
        path=directory,
        model_type="value_model" if settings.critic else "language_model",
        load_tokenizer=False,
        enable_gradient_checkpointing=settings.gradient_checkpointing,
        enable_activation_offload=settings.activation_offload,
        use_remove_padding=True,
        lora_rank=settings.lora_rank,
        use_fused_kernels=fused is not None,
        fused_kernel_options={"impl_backend": fused} if fused else {},
    )
    engine_config = of_release(
        FSDPEngineConfig,
        strategy=settings.strategy,
        fsdp_size=-1 if settings.fsdp_size is None else settings.fsdp_size,
        model_dtype=settings.model_dtype,
        param_offload=settings.param_offload,
        optimizer_offload=settings.optimizer_offload,
        forward_only=settings.forward_only_engine,
        reshard_after_forward=settings.reshard_after_forward,
        forward_prefetch=settings.forward_prefetch,
        use_torch_compile=settings.use_torch_compile,
        use_no_sync_for_gradient_accumulation=settings.deferred_gradient_sync,
        entropy_checkpointing=settings.entropy_checkpointing,
        entropy_from_logits_with_chunking=settings.entropy_chunking,
        ulysses_sequence_parallel_size=settings.ulysses,
        use_dynamic_bsz=False,
        use_fused_kernels=fused is not None,
    )
    kind = FSDPEngineWithValueHead if settings.critic else FSDPEngineWithLMHead
    return kind(
        model_config=model_config,
        engine_config=engine_config,
        optimizer_config=FSDPOptimizerConfig(lr=1e-6, lr_warmup_steps=0, total_training_steps=100),
        checkpoint_config=CheckpointConfig(),
    )


def random_batch(
    settings: PassSettings, engine_settings: EngineSettings, engine: Any, *, seed: int = 0
) -> Any:
    """Sequences of equal length, half prompt and half response, as verl's workers receive them."""
    from verl.utils import tensordict_utils as tu

    ranks = engine.ulysses_sequence_parallel_size
    per_micro_batch = settings.tokens * ranks // settings.sequence_length
    count = per_micro_batch * settings.micro_batches
    fine_tuned = settings.kind == FINE_TUNING
    prompt = settings.sequence_length // 2
    response = settings.sequence_length - prompt
    generator = torch.Generator().manual_seed(1000 * seed + engine.get_data_parallel_rank())
    hf_config = engine.model_config.hf_config
    vocabulary = hf_config.get_text_config().vocab_size
    tokens = torch.randint(vocabulary, (count, settings.sequence_length), generator=generator)
    place_images(tokens, settings, hf_config)

    def nested(values: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(values.contiguous()), layout=torch.jagged)

    def random() -> torch.Tensor:
        return nested(torch.randn(count, response, generator=generator))

    of_the_loss = (
        {"values": random(), "returns": random()}
        if engine_settings.critic
        else {"old_log_probs": nested(torch.full((count, response), -12.0)), "advantages": random()}
    )
    return tu.get_tensordict(
        {
            "input_ids": nested(tokens),
            "position_ids": positions(settings, hf_config, count),
            "prompts": nested(tokens[:, :prompt]),
            "responses": nested(tokens[:, prompt:]),
            "response_mask": nested(torch.ones(count, response)),
            "loss_mask": nested(torch.ones(count, settings.sequence_length if fine_tuned else response)),
            **image_inputs(settings, hf_config, count, generator),
            **of_the_loss,
        },
        {
            **({"pad_mode": "no_padding"} if fine_tuned else {}),
            "use_remove_padding": True,
            "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": per_micro_batch,
            "use_fused_kernels": engine_settings.fused_kernels is not None,
            "calculate_entropy": settings.calculate_entropy,
            "temperature": settings.temperature,
            "global_batch_size": count * engine.get_data_parallel_size(),
        },
    )


def loss_function(settings: PassSettings, engine_settings: EngineSettings) -> tuple[Any, Any]:
    """verl's loss and the configuration that its worker binds to it."""
    from verl.workers.config import CriticConfig, FSDPActorConfig
    from verl.workers.utils.losses import ppo_loss, sft_loss, value_loss

    if settings.kind == FINE_TUNING:
        return sft_loss, None
    if engine_settings.critic:
        return value_loss, CriticConfig(strategy=engine_settings.strategy, ppo_micro_batch_size_per_gpu=1)
    actor = FSDPActorConfig(
        strategy=engine_settings.strategy,
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        entropy_coeff=0.001 if settings.calculate_entropy else 0.0,
    )
    return ppo_loss, actor
