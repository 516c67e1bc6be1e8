"""Models of verl with random weights, so that no checkpoint is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tuner.validate.training.worker.model import fill


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
