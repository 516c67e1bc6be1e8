"""Counts what one decoder layer of transformers allocates, tensor by tensor, without running it.

Needs the ``trace`` extra (torch and transformers). Every tensor is fake: it has a shape, a dtype and a
lifetime and no data, so no GPU, no weights and no download are needed. A dispatch mode notes when a storage
comes into being and when it goes; views of one storage count once. What happens inside one operator (its
workspace) is not seen. Attention is flash attention, which keeps its output and one number per head and
token.

The conditions are those of a trainer that shards parameters: weights in bfloat16, forward pass under
bfloat16 autocast, one packed sequence without a mask. Gradients of parameters are not counted here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from msgspec import Struct
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PretrainedConfig,
)
from transformers.masking_utils import flash_attention_mask

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.trace.autocast import COMPUTE, Float32Operators, autocast
from tuner.trace.storages import Storages

FLASH = "flash_attention_fake"  # transformers takes every name with "flash" for flash attention


class LayerCount(Struct, frozen=True, kw_only=True):
    """Bytes that one decoder layer allocates for one micro-batch, parameters and their gradients aside."""

    tokens: int
    saved_bytes: int  # kept from the forward to the backward pass, beyond the layer's input and its output
    forward_peak_bytes: int  # most at once in a forward pass without gradients, beyond the layer's input
    backward_peak_bytes: int  # most at once in the backward pass, beyond what was saved, the layer's input
    # and its output; the gradient of the output counts
    recomputed_peak_bytes: int = 0  # the same where that pass computes again what it needs: what was saved
    # without checkpointing and this are the peak; 0 where it was not asked for


def count_layer(
    config: PretrainedConfig, layer: int, *, tokens: int, lora_rank: int = 0, checkpointed: bool = False
) -> LayerCount:
    """Counts one decoder layer, 0-based, of the model that transformers builds from a configuration.

    Args:
        config: of a decoder-only model, or of a multimodal one whose text part is meant.
        layer: its index.
        tokens: of the micro-batch.
        lora_rank: of adapters on every linear layer, whose base weights are frozen; 0 trains all weights.
        checkpointed: whether to count a backward pass as well that computes again what it needs.
    """
    with FakeTensorMode(), torch.device("cpu"):
        module, arguments = _layer_and_arguments(config, layer, tokens)
        if lora_rank:
            _add_adapters(module, lora_rank)
        with torch.no_grad():
            forward = _peak_without_gradients(module, arguments)
        saved, backward = _saved_and_backward_peak(module, arguments)
        recomputed = 0
        if checkpointed:
            module.zero_grad()
            kept, whole = _saved_and_backward_peak(module, arguments, checkpointed=True)
            recomputed = kept + whole - saved
    return LayerCount(
        tokens=tokens,
        saved_bytes=saved,
        forward_peak_bytes=forward,
        backward_peak_bytes=backward,
        recomputed_peak_bytes=recomputed,
    )


# -- the layer and what the model calls it with ---------------------------------------------------------


@dataclass
class _Arguments:
    """What a model hands to its decoder layer: the hidden states and everything else."""

    hidden: torch.Tensor
    others: tuple[Any, ...]
    named: dict[str, Any]

    def call(self, layer: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        """Runs the layer; the hidden states are what it returns, alone or first of a tuple."""
        with Float32Operators():  # again when the layer is recomputed, for which only autocast is restored
            output = layer(hidden, *self.others, **self.named)
        first: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
        return first


class _Captured(Exception):  # noqa: N818 - not an error: it ends a forward pass early
    """Carries a layer's arguments out of the model's forward pass."""


def _layer_and_arguments(
    config: PretrainedConfig, index: int, tokens: int
) -> tuple[torch.nn.Module, _Arguments]:
    """Builds the model, runs it up to the layer and stops there."""
    decoder = text_decoder(config)
    layers = decoder_layers(decoder)
    target = layers[index]
    for other in layers[:index]:
        other.forward = pass_through

    def capture(hidden_states: torch.Tensor, *others: Any, **named: Any) -> None:
        raise _Captured(_Arguments(hidden_states.detach(), others, named))

    forward, target.forward = target.forward, capture
    try:
        with autocast():
            decoder(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False)
    except _Captured as captured:
        target.forward = forward
        return target, captured.args[0]
    raise RuntimeError(f"layer {index} was never called")


def pass_through(hidden_states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """Stand in for the forward pass of a layer that is left out: hand on the hidden states."""
    return hidden_states


def text_decoder(config: PretrainedConfig) -> torch.nn.Module:
    """The text part of the model, without its output head, in training mode."""
    _register_flash_attention()
    text = config.get_text_config()
    auto: Any = AutoModelForCausalLM
    if type(text) not in auto._model_mapping:  # the text part has no model of its own
        auto, text = AutoModelForImageTextToText, config
    model = auto.from_config(text, dtype=COMPUTE, attn_implementation="eager")
    decoder: Any = model.get_decoder().train()
    # Only now: building a model checks that the package of its attention is installed.
    decoder.config._attn_implementation = FLASH
    text_part: torch.nn.Module = decoder
    return text_part


def decoder_layers(decoder: torch.nn.Module) -> torch.nn.ModuleList:
    """The decoder's layers: its longest list of modules."""
    lists = [module for module in decoder.children() if isinstance(module, torch.nn.ModuleList)]
    if not lists:
        raise UnsupportedError(
            _("{name} keeps its layers in no list, which is not traced").format(name=type(decoder).__name__)
        )
    return max(lists, key=len)


# -- flash attention ------------------------------------------------------------------------------------


@cache
def _register_flash_attention() -> None:
    AttentionInterface.register(FLASH, _flash_attention)
    AttentionMaskInterface.register(FLASH, flash_attention_mask)


def _flash_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attends as transformers does to packed sequences: values padded to queries' width, all contiguous."""
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    width, value_width = query.shape[-1], value.shape[-1]
    if value_width != width:
        value = torch.nn.functional.pad(value, [0, width - value_width])
    packed = [states.contiguous().view(-1, states.size(-2), width) for states in (query, key, value)]
    tokens = packed[0].size(0)
    starts = torch.empty(2, dtype=torch.int32)
    output = torch.ops.aten._flash_attention_forward(
        *packed, starts, starts, tokens, tokens, 0.0, True, False
    )[0]
    return output.view(query.size(0), -1, output.size(-2), width)[..., :value_width], None


# -- adapters -------------------------------------------------------------------------------------------


class _Adapted(torch.nn.Module):
    """A frozen linear layer with a low-rank adapter beside it, as PEFT computes it without dropout."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, rank, bias=False, dtype=COMPUTE)
        self.up = torch.nn.Linear(rank, base.out_features, bias=False, dtype=COMPUTE)

    @property
    def weight(self) -> torch.Tensor:
        """The frozen weight, which some routers read."""
        return self.base.weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.base(states) + self.up(self.down(states)) * 0.5
        return adapted


def _add_adapters(layer: torch.nn.Module, rank: int) -> None:
    layer.requires_grad_(False)
    linear = [(name, module) for name, module in layer.named_modules() if isinstance(module, torch.nn.Linear)]
    for name, module in linear:
        parent, _, own_name = name.rpartition(".")
        setattr(layer.get_submodule(parent), own_name, _Adapted(module, rank))


# -- counting -------------------------------------------------------------------------------------------


def _peak_without_gradients(layer: torch.nn.Module, arguments: _Arguments) -> int:
    storages = Storages(_state(layer), arguments.hidden, arguments.others, arguments.named)
    with storages, autocast():
        arguments.call(layer, arguments.hidden)
    return storages.peak()


def _saved_and_backward_peak(
    layer: torch.nn.Module, arguments: _Arguments, *, checkpointed: bool = False
) -> tuple[int, int]:
    hidden = arguments.hidden.detach().requires_grad_()
    run: Callable[..., Any] = arguments.call
    if checkpointed:
        run = partial(checkpoint, arguments.call, use_reentrant=False, preserve_rng_state=False)
    with Storages(_state(layer), hidden, arguments.others, arguments.named) as storages:
        with autocast():
            output = run(layer, hidden)
        own_output = storages.numbers(output)
        saved = storages.live(without=own_output)
        start = len(storages.events)
        storages.backward = True
        torch.autograd.backward([output], [torch.empty_like(output)])
        gradients = storages.numbers(
            [weight.grad for weight in layer.parameters() if weight.grad is not None]
        )
        backward = storages.peak(start, without=gradients | own_output)
    return saved, backward


def _state(layer: torch.nn.Module) -> list[torch.Tensor]:
    return [*layer.parameters(), *layer.buffers()]
