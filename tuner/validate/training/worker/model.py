"""transformers' model of a configuration, with Liger's layers if asked; weights are made on the device.

Norms and MLPs of a built model are changed one by one. What rotates queries and keys is a function of the
module that the model comes from; it is replaced for the whole process, and so are the module's classes. Here
the module gets its own back before the next model is built.

Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``_build_module``). Up to 0.7.1 the model's
``forward`` is replaced besides, by one that returns the same logits where no labels are given.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import nn

from tuner.validate.training.settings import ModelSettings
from tuner.validate.training.worker import attention, images

_own: dict[str, dict[str, Any]] = {}  # what a module of transformers was before, by its name


_STANDARD_DEVIATION = 0.02
_PATTERN = 1 << 20
WITHOUT_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


def fuse_layers(model: Any) -> None:
    """Change the layers of a model; nothing where Liger has none for its type, as in verl.

    Args:
        model: transformers', not yet sharded.

    Raises:
        ImportError: Liger is not installed, or not for this transformers.
    """
    liger = import_module("liger_kernel.transformers.monkey_patch")
    name = type(model).__module__
    _own.setdefault(name, dict(vars(sys.modules[name])))
    liger._apply_liger_kernel_to_instance(model=model, fused_linear_cross_entropy=False, swiglu=True)


def restore_modules() -> None:
    """Give transformers' modules their own functions and classes back; models built before lose Liger's."""
    for name, before in _own.items():
        vars(sys.modules[name]).update(before)
    _own.clear()


def empty_model(settings: ModelSettings, dtype: torch.dtype, *, fused_layers: bool = False) -> Any:
    """A model whose parameters are on the meta device and whose buffers are real.

    Args:
        settings: what it is built from.
        dtype: of its parameters.
        fused_layers: Liger's layers in the place of its own.

    Raises:
        ValueError: transformers does not know the type, or has no value model of it.
        ImportError: Liger's layers are wanted, and it is not installed.
    """
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForTokenClassification,
    )
    from transformers.initialization import no_init_weights

    attention.register()
    restore_modules()
    values = images.with_rotary_sections({**settings.config, **dict.fromkeys(WITHOUT_TOKENS)})
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    kind: Any = AutoModelForImageTextToText if images.sees(config) else AutoModelForCausalLM
    if settings.critic:
        kind, config.num_labels = AutoModelForTokenClassification, 1
        config.classifier_dropout, config.hidden_dropout = 0.0, "0"
    with no_init_weights(), _parameters_on_meta():
        model = kind.from_config(config, dtype=dtype, attn_implementation=attention.NAME)
    if fused_layers:
        fuse_layers(model)
    model.to(dtype)
    model.tie_weights()
    attention.attend_within_images(model)
    images.see_as_verl(model)
    return model


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Parameters go to the meta device as they are made, before anything fills billions of numbers.

    Buffers stay: what they hold is computed when a model is built, and never again.
    """
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:
            parameter = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = on_meta  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def fill(values: torch.Tensor) -> None:
    """Small random weights; ones where a layer scales or shifts."""
    with torch.no_grad():
        if values.ndim == 1:
            values.fill_(1.0)
        elif values.is_cuda:
            values.normal_(0.0, _STANDARD_DEVIATION)
        else:
            # A host would take minutes to draw billions of numbers, and long to start a copy of every few.
            few, flat = _pattern(), values.view(-1)
            whole = len(flat) // _PATTERN * _PATTERN
            flat[:whole].view(-1, _PATTERN).copy_(few)
            flat[whole:].copy_(few[: len(flat) - whole])


@cache
def _pattern() -> torch.Tensor:
    return _STANDARD_DEVIATION * torch.randn(_PATTERN, generator=torch.Generator().manual_seed(0))


def materialise(module: nn.Module, device: torch.device, fill_one: Callable[[torch.Tensor], None]) -> None:
    """Parameters on the device, each filled; buffers moved there as they are."""
    buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    module.to_empty(device=device)
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
    for parameter in module.parameters():
        fill_one(parameter)
