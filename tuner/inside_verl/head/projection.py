"""The output projection of a model, computing log-probabilities and entropy in place of logits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tuner.inside_verl.head.policy.loss_handoff import WAY
from tuner.inside_verl.head.policy.results import planned_results
from tuner.inside_verl.settings import HEAD
from tuner.kernels import Mode, linear_cross_entropy


def kernel_mode() -> Mode:
    """What is kept of the logits, by the environment of this process."""
    return Mode.SAVED_LOGITS if HEAD.read() == "saved" else Mode.RECOMPUTE


@dataclass
class Replaced:
    """What the projection gave in a forward pass that was meant for the head."""

    results: Tensor | None = None  # [..., 2]: log-probability and entropy of each row
    version: int = 0  # of the results, which counts what is written into them

    @torch.compiler.disable
    def is_what_the_model_returns(self, logits: Tensor) -> bool:
        """Whether a model hands on what its projection gave, with nothing done to it.

        A model that caps or scales its logits returns another tensor, or has written into this one.
        """
        results = self.results
        if results is None or logits.shape != results.shape or results._version != self.version:
            return False
        return logits.untyped_storage().data_ptr() == results.untyped_storage().data_ptr()


def output_projection(model: Any) -> nn.Linear | None:
    """The layer behind a model's last hidden state, where it is a product with its weight and nothing more.

    None for one with a bias, with adapters, or of another kind: its logits have to be computed.
    """
    layer = model.get_output_embeddings()
    layer = getattr(layer, "_fsdp_wrapped_module", layer)
    if not isinstance(layer, nn.Linear) or type(layer).forward is not nn.Linear.forward:
        return None
    return layer if getattr(layer, "bias", None) is None else None


def _results(
    hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float | Tensor
) -> tuple[Tensor, Tensor]:
    plan = WAY.take()
    if plan is None:
        return linear_cross_entropy(hidden, weight, labels, temperature, mode=kernel_mode())
    return planned_results(plan, hidden, weight, labels, temperature)


@contextmanager
def replaced_projection(
    layer: nn.Linear, labels: Callable[[Tensor], Tensor], temperature: float | Tensor
) -> Iterator[Replaced]:
    """Makes a projection give log-probabilities and entropy, for as long as this lasts.

    It is done inside the layer, where FSDP has gathered the weight and cast both to the dtype of the pass.

    Args:
        layer: its weight has the shape ``[V, H]``.
        labels: from the hidden states ``[B, S, H]`` the labels ``[B, S]``.
        temperature: divides the logits.
    """
    replaced = Replaced()

    @torch.compiler.disable  # the host reads which rows take part
    def forward(hidden: Tensor) -> Tensor:
        results = _results(hidden, layer.weight, labels(hidden), temperature)
        replaced.results = torch.stack(results, dim=-1)
        replaced.version = replaced.results._version
        return replaced.results

    before = vars(layer).get("forward")
    vars(layer)["forward"] = forward
    try:
        yield replaced
    finally:
        if before is None:
            del vars(layer)["forward"]
        else:
            vars(layer)["forward"] = before
