"""A model's forward pass that returns log-probabilities and entropy, as verl reads them."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tuner.inside_verl.head.projection import output_projection, replaced_projection
from tuner.inside_verl.verl_process import say
from tuner.kernels import log_prob_and_entropy
from tuner.language import _

# For frames of a compiled model that replace a layer's forward pass; what they call is compiled.
only_this_frame_eager = functools.partial(torch.compiler.disable, recursive=False)
LOGITS_NEEDED = "_tuner_head_needs_logits"  # on a model whose logits are more than a product


def next_tokens(input_ids: Tensor, positions: int, shift_labels: Tensor | None) -> Tensor:
    """The labels of a forward pass: the tokens that follow, on the rows that this rank's head sees.

    B: sequences, 1 where they are packed. S: positions of this rank.

    verl gives them from 0.8.0 on. Before that its fused heads roll what they have of the tokens, which
    with Ulysses gives the last position of a rank its own first token; here the next rank's is fetched.

    Args:
        input_ids: ``[B, S]``, or, of a model that slices its embeddings, all the ranks' positions.
        positions: S, the rows of the hidden states.
        shift_labels: ``[B, S]`` where verl gives them.

    Returns:
        ``[B, S]``; behind the last token of all stands an arbitrary one.

    Source: verl 0.9.1, ``prepare_model_inputs`` of ``verl/workers/engine/fsdp/transformer_impl.py``.
    """
    if shift_labels is not None:
        return shift_labels
    rolled = torch.roll(input_ids, shifts=-1, dims=-1)
    from verl.utils import ulysses

    ranks = ulysses.get_ulysses_sequence_parallel_world_size()
    if ranks == 1:
        return rolled
    rank = ulysses.get_ulysses_sequence_parallel_rank()
    if input_ids.shape[-1] != positions:
        return rolled[..., rank * positions : (rank + 1) * positions]
    firsts = [torch.empty_like(rolled[..., -1]) for _ in range(ranks)]
    torch.distributed.all_gather(
        firsts, rolled[..., -1].contiguous(), group=ulysses.get_ulysses_sequence_parallel_group()
    )
    rolled[..., -1] = firsts[(rank + 1) % ranks]
    return rolled


def _from_logits(outputs: Any, labels: Callable[[Tensor], Tensor], temperature: float | Tensor) -> Tensor:
    both = log_prob_and_entropy(outputs.logits, labels(outputs.logits), temperature)
    return torch.stack(both, dim=-1)


def _say_why_logits(model: Any, reason: str) -> None:
    if not getattr(model, LOGITS_NEEDED, False):
        setattr(model, LOGITS_NEEDED, True)
        say(
            _("{model} {reason}, so its logits are computed, and the statistics from them").format(
                model=type(model).__name__, reason=reason
            )
        )


@only_this_frame_eager
def _results(
    model: Any,
    run: Callable[[], Any],
    labels: Callable[[Tensor], Tensor],
    temperature: float | Tensor,
) -> tuple[Any, Tensor]:
    layer = None if getattr(model, LOGITS_NEEDED, False) else output_projection(model)
    if layer is None:
        _say_why_logits(model, _("has an output projection with a bias, adapters or parts of its own"))
        outputs = run()
        return outputs, _from_logits(outputs, labels, temperature)
    with replaced_projection(layer, labels, temperature) as replaced:
        outputs = run()
    if replaced.results is not None and replaced.is_what_the_model_returns(outputs.logits):
        return outputs, replaced.results
    _say_why_logits(model, _("changes its logits behind the projection"))
    outputs = run()
    return outputs, _from_logits(outputs, labels, temperature)


def with_head(original: Callable[..., Any]) -> Callable[..., Any]:
    """A model's forward pass with the head, where the caller gives a temperature; else the original.

    verl gives it with every call that reads log-probabilities, and with no other. The model runs as it is,
    with images, sliced embeddings and whatever verl has patched in it, up to its output projection. A model
    whose logits are more than that product computes them.

    Args:
        original: the forward pass of a causal language model of transformers, bound or not.
    """

    @functools.wraps(original)
    def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
        temperature = kwargs.pop("temperature", None)
        shift_labels = kwargs.pop("shift_labels", None)
        if temperature is None:
            return original(model, *args, **kwargs)
        from verl.models.transformers.dense_common import CausalLMOutputForPPO

        input_ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]

        def labels(states: Tensor) -> Tensor:
            return next_tokens(input_ids, states.shape[-2], shift_labels)

        outputs, results = _results(model, lambda: original(model, *args, **kwargs), labels, temperature)
        # FSDP2 hooks onto what a module returns, and a view would lose its hook to whoever writes into it.
        log_probs, entropy = (part.clone() for part in results.unbind(-1))
        return CausalLMOutputForPPO(
            log_probs=log_probs,
            entropy=entropy,
            past_key_values=getattr(outputs, "past_key_values", None),
            hidden_states=getattr(outputs, "hidden_states", None),
            attentions=getattr(outputs, "attentions", None),
        )

    eager: Callable[..., Any] = only_this_frame_eager(forward)
    return eager
