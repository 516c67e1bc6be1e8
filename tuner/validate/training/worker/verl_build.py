"""An FSDP engine of verl with random weights: its configurations, as the settings of a pass have them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tuner.validate.training.settings import ModelSettings, PassSettings
from tuner.validate.training.worker.model import WITHOUT_TOKENS, fill
from tuner.validate.training.worker.optimizer import make_states
from tuner.workload import Checkpointing, Engine, HeadKind, OutputHead

#: What verl calls its own fused heads; ours is in the place of whichever is named.
_BACKENDS = {HeadKind.FUSED_TORCH: "torch", HeadKind.FUSED_TRITON: "triton", HeadKind.FUSED_TUNER: "torch"}
#: Whether gradients wait for the last micro-batch: in 0.9.0 always, in 0.9.1 by this setting.
DEFERS = "use_no_sync_for_gradient_accumulation"
_OFF: tuple[Any, ...] = (
    False,
    None,
    0,
    {},
)  # what a release without the setting does


@contextmanager
def random_weights(loading: Any, *, critic: bool) -> Iterator[None]:
    """Let verl build a model with random weights where it would load a checkpoint.

    Args:
        loading: verl's module ``utils.model``.
        critic: whether the model ends in a value head.
    """
    replaced = loading.get_hf_auto_model_class, loading.load_valuehead_model

    def from_pretrained(*, config: Any, torch_dtype: torch.dtype, **_: Any) -> Any:
        return _random_model(config, torch_dtype, critic=critic)

    loading.get_hf_auto_model_class = lambda hf_config: SimpleNamespace(from_pretrained=from_pretrained)
    loading.load_valuehead_model = lambda model_config, torch_dtype, **_: _random_model(
        model_config, torch_dtype, critic=True
    )
    try:
        yield
    finally:
        loading.get_hf_auto_model_class, loading.load_valuehead_model = replaced


def _random_model(config: Any, dtype: torch.dtype, *, critic: bool) -> Any:
    """A model on the host; parameters of one shape share memory, as sharding copies each to the GPU."""
    from transformers import AutoModelForCausalLM, AutoModelForTokenClassification
    from transformers.initialization import no_init_weights

    kind: Any = AutoModelForTokenClassification if critic else AutoModelForCausalLM
    with no_init_weights():
        model = kind.from_config(config, dtype=dtype)
    model.tie_weights()
    model._no_split_modules = sorted(model._no_split_modules or ())  # verl up to 0.7.1 asks for the first
    filled: dict[tuple[torch.Size, torch.dtype], Tensor] = {}
    for parameter in model.parameters():
        if parameter.is_meta:
            continue
        key = (parameter.shape, parameter.dtype)
        if key in filled:
            parameter.data = filled[key]
        else:
            fill(parameter.data)
            filled[key] = parameter.data
    return model


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What an engine gets beside the settings of its passes."""

    external_lib: str | None = None  # a module that verl's workers import
    checkpointing: bool = False  # built in, not switched between passes
    offloads: bool = False  # the states that the settings offload, after every pass
    model: dict[str, Any] = field(default_factory=dict)  # overrides of the model's configuration


NOTHING = Additions()


def fused_backend(head: OutputHead) -> str | None:
    """What verl is told of a fused head; None where it is not asked for one."""
    return _BACKENDS.get(head.kind)


def verl(module: str) -> Any:
    """A module of verl by its name there."""
    return import_module(f"verl.{module}")


def initialized_engine(
    model: ModelSettings, settings: PassSettings, additions: Additions = NOTHING
) -> tuple[Any, Any]:
    """An engine that is ready to train, with AdamW's states, and transformers' configuration of its model.

    Args:
        model: what it is built from.
        settings: of a pass; what it is built with is that of its engine and its head.
        additions: what it gets beside.

    Raises:
        ValueError: this release has no such setting.
    """
    with tempfile.TemporaryDirectory() as directory:
        config = _write_config(model, directory)
        engine = _engine(directory, settings, additions, critic=model.critic)
        with random_weights(verl("utils.model"), critic=model.critic):
            engine.initialize()
    if engine.optimizer is not None:
        make_states(engine.optimizer)
    return engine, config


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


def _engine(directory: str, settings: PassSettings, additions: Additions, *, critic: bool) -> Any:
    configs, engines = verl("workers.config"), verl("workers.engine.fsdp.transformer_impl")
    kind = engines.FSDPEngineWithValueHead if critic else engines.FSDPEngineWithLMHead
    backend = fused_backend(settings.head)
    return kind(
        model_config=_of_release(
            configs.HFModelConfig,
            path=directory,
            load_tokenizer=False,
            enable_gradient_checkpointing=additions.checkpointing
            and settings.engine.checkpointing is Checkpointing.FULL,
            use_remove_padding=True,
            use_liger=settings.engine.fused_layers,
            use_fused_kernels=backend is not None,
            fused_kernel_options={"impl_backend": backend} if backend else {},
            external_lib=additions.external_lib,
            override_config=additions.model,
            **({"model_type": "value_model"} if critic else {}),
        ),
        engine_config=_engine_config(configs.FSDPEngineConfig, settings, additions),
        optimizer_config=configs.FSDPOptimizerConfig(lr=1e-6, lr_warmup_steps=0, total_training_steps=100),
        checkpoint_config=verl("trainer.config").CheckpointConfig(),
    )


def _engine_config(config_class: Any, settings: PassSettings, additions: Additions) -> Any:
    engine, head = settings.engine, settings.head
    shard, world = engine.parallel.shard, engine.parallel.gpus
    return _of_release(
        config_class,
        strategy=engine.backend.value,
        fsdp_size=shard if shard < world else -1,
        model_dtype=_verl_dtype(engine),
        param_offload=additions.offloads and engine.param_offload,
        optimizer_offload=additions.offloads and engine.optimizer_offload,
        forward_only=engine.streamed_offload,
        reshard_after_forward=engine.reshard_after_forward,
        forward_prefetch=engine.forward_prefetch,
        use_torch_compile=head.compiled,
        **{DEFERS: engine.deferred_gradient_sync},
        entropy_checkpointing=head.checkpointed,
        entropy_from_logits_with_chunking=head.chunk_tokens is not None,
        ulysses_sequence_parallel_size=engine.parallel.ulysses,
        use_dynamic_bsz=False,
        use_fused_kernels=fused_backend(head) is not None,
    )


def _of_release(kind: Any, **values: Any) -> Any:
    """A configuration of verl without the settings that its release does not have, where they are off."""
    known = {item.name for item in fields(kind)}
    without = [name for name in values if name not in known and name != DEFERS]
    unsupported = [name for name in without if values[name] not in _OFF]
    if unsupported:
        raise ValueError(f"{kind.__name__} of this release has no {', '.join(unsupported)}")
    return kind(**{name: value for name, value in values.items() if name in known})


def _verl_dtype(engine: Engine) -> str:
    return {"float32": "fp32", "bfloat16": "bf16"}[engine.stored_dtype.value]
