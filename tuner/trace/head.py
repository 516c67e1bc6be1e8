"""What a model does outside its layers: the final norm, and what it makes of the logits."""

import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import LogitCopies
from tuner.trace.autocast import COMPUTE, autocast
from tuner.trace.build import language_model
from tuner.trace.count import decoder_layers, pass_through, text_decoder
from tuner.trace.storages import Storages

_TOKENS = 1024


def final_norm_saved_bytes(config: Any, *, frozen: bool) -> int:
    """Bytes per token that are kept between the last layer and the output projection, its input included.

    Args:
        config: transformers' configuration.
        frozen: whether the weights are, as under adapters; the projection then keeps no input.
    """
    return (
        _kept_behind_layers(config, 2 * _TOKENS, frozen) - _kept_behind_layers(config, _TOKENS, frozen)
    ) // _TOKENS


def _kept_behind_layers(config: Any, tokens: int, frozen: bool) -> int:
    with FakeTensorMode(), torch.device("cpu"), ExitStack() as counting:
        decoder = text_decoder(config).requires_grad_(not frozen)
        layers = decoder_layers(decoder)
        for layer in layers:
            layer.forward = pass_through
        storages = Storages([*decoder.parameters(), *decoder.buffers()])
        last: list[weakref.ref[Any]] = []

        def output(hidden: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            # Made from a leaf, as only a leaf is kept alive by the graph itself.
            made = torch.empty_like(hidden).requires_grad_() * 1
            last.append(weakref.ref(made.untyped_storage()))
            counting.enter_context(storages)
            return made

        layers[-1].forward = output
        with autocast():
            result = decoder(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False)
        hidden = result.last_hidden_state
        not_kept = storages.numbers(hidden) if frozen else set()
        kept_input = hidden.untyped_storage().nbytes() if last[0]() is not None else 0
        return storages.live(without=not_kept) + kept_input


def logit_copies(config: Any) -> LogitCopies:
    """What the model makes of the product of hidden states and output projection: scaling, soft-capping.

    Raises:
        UnsupportedError: it returns the logits in another number format.
    """
    # On the meta device: building a vision tower looks at values, which fake tensors do not have.
    with torch.device("meta"):
        model = language_model(config)
        with torch.no_grad():
            forward = _project(model).storages.peak()
        kept = _project(model)
        logit_bytes = kept.logits.untyped_storage().nbytes()
        if logit_bytes != kept.logits.numel() * COMPUTE.itemsize:
            raise UnsupportedError(
                _("logits of type {dtype} are not modelled").format(dtype=kept.logits.dtype)
            )
        saved = kept.storages.live()
        backward = _backward_peak(_project(model, keep=True))
    made = [ceil(size / logit_bytes) - 1 for size in (saved, forward, backward)]
    return LogitCopies(saved=made[0], forward=made[1], backward=made[2])


@dataclass
class _Projected:
    """A model's logits, and what was allocated since its projection began."""

    logits: torch.Tensor
    raw: tuple[torch.Tensor, ...]  # what the projection itself returned, where it was asked to be kept
    storages: Storages


class _Outputs(tuple[torch.Tensor]):
    """The hidden states in the place of what a decoder returns."""

    def __getattr__(self, name: str) -> torch.Tensor | None:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[0] if name == "last_hidden_state" else None


def _body(model: Any) -> Any:
    """What the model calls for hidden states: its child that is or contains the decoder."""
    decoder = model.get_decoder()
    return next(child for child in model.children() if any(part is decoder for part in child.modules()))


def _project(model: Any, *, keep: bool = False) -> _Projected:
    raw: list[torch.Tensor] = []
    head = model.get_output_embeddings()
    hidden = torch.empty(1, _TOKENS, head.weight.shape[1], dtype=COMPUTE).requires_grad_()
    _body(model).forward = lambda *_, **__: _Outputs((hidden,))
    storages = Storages([hidden, *model.parameters(), *model.buffers()])
    with ExitStack() as counting:
        hooks = [head.register_forward_pre_hook(lambda *_: counting.enter_context(storages) and None)]
        if keep:
            hooks.append(head.register_forward_hook(lambda *arguments: raw.append(arguments[-1])))
        with autocast():
            logits = model(input_ids=torch.zeros(1, _TOKENS, dtype=torch.long), use_cache=False).logits
    for hook in hooks:
        hook.remove()
    return _Projected(logits, tuple(raw), storages)


class _Loss(torch.autograd.Function):
    """A loss whose backward pass makes the gradient of the logits and leaves it to autograd alone."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.shape = logits.shape
        return logits.new_empty(())

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> torch.Tensor:
        return torch.empty(ctx.shape, dtype=COMPUTE, device="meta")


def _backward_peak(projected: _Projected) -> int:
    loss = _Loss.apply(projected.logits)  # type: ignore[no-untyped-call]
    raw, storages = projected.raw, projected.storages
    projected.logits = torch.empty(0)  # whether they live on is the graph's affair
    upstream = torch.empty_like(loss)
    with storages:
        start = len(storages.events)
        torch.autograd.grad(loss, raw, upstream)
    return storages.peak(start)
