"""Registration of the policy loss with torch: its gradients are results of the forward operator.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from typing import Any

import torch
from torch import Tensor

from tuner.kernels import policy_chunks, tiles
from tuner.kernels.backward import Wanted
from tuner.kernels.checks import checked_rows
from tuner.kernels.ops import rows_contiguous
from tuner.kernels.policy_objective import Objective


@torch.library.custom_op("tuner::linear_policy_loss", mutates_args=())
def forward(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    tokens_4T: Tensor,
    ignore_index: int,
    clip_ratio_low: float,
    clip_ratio_high: float,
    clip_ratio_c: float,
    entropy_coeff: float,
    kl_loss_coef: float,
    on_policy: bool,
    chunk_tokens: int,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Loss, log-probability, entropy, and the loss's gradients by both matrices (empty: not wanted).

    Args:
        hidden_TH: bfloat16, float16 or float32.
        weight_VH: same dtype.
        labels_T: int32 or int64, in ``[0, V)`` or ``ignore_index``.
        inverse_temperature_T: float32.
        tokens_4T: of :func:`tuner.kernels.policy_objective.token_losses`.
        ignore_index: the label of rows that are left out: zero in every result.
        clip_ratio_low: and the next five as in :class:`tuner.kernels.policy_objective.Objective`.
        clip_ratio_high: as above.
        clip_ratio_c: as above.
        entropy_coeff: as above.
        kl_loss_coef: as above.
        on_policy: as above.
        chunk_tokens: rows whose logits exist at a time; 0 chooses it.
        hidden_wanted: whether the gradient of the hidden states is computed.
        weight_wanted: whether that of the weight is.
    """
    rows = checked_rows(
        labels_T, inverse_temperature_T, ignore_index=ignore_index, vocabulary=weight_VH.shape[0]
    )
    problem = policy_chunks.ChunkProblem(
        hidden_TH=rows_contiguous(hidden_TH),
        weight_VH=rows_contiguous(weight_VH),
        rows=rows,
        labels_R=rows.take(labels_T).int(),
        inverse_temperature_R=rows.take(inverse_temperature_T),
        tokens_4R=rows.take(tokens_4T, dim=1),
        objective=Objective(
            clip_ratio_low=clip_ratio_low,
            clip_ratio_high=clip_ratio_high,
            clip_ratio_c=clip_ratio_c,
            entropy_coeff=entropy_coeff,
            kl_loss_coef=kl_loss_coef,
            on_policy=on_policy,
        ),
    )
    wanted = Wanted(hidden=hidden_wanted, weight=weight_wanted)
    with torch.autocast(hidden_TH.device.type, enabled=False):
        results = policy_chunks.policy_gradients(problem, wanted, chunk_tokens=chunk_tokens)
    return (
        results.loss,
        results.log_probs_T,
        results.entropy_T,
        hidden_TH.new_empty(0) if results.d_hidden_TH is None else results.d_hidden_TH,
        weight_VH.new_empty(0) if results.d_weight_VH is None else results.d_weight_VH,
    )


@forward.register_fake
def _(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    tokens_4T: Tensor,
    ignore_index: int,
    clip_ratio_low: float,
    clip_ratio_high: float,
    clip_ratio_c: float,
    entropy_coeff: float,
    kl_loss_coef: float,
    on_policy: bool,
    chunk_tokens: int,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        inverse_temperature_T.new_empty(()),
        torch.empty_like(inverse_temperature_T),
        torch.empty_like(inverse_temperature_T),
        hidden_TH.new_empty(hidden_TH.shape if hidden_wanted else (0,)),
        weight_VH.new_empty(weight_VH.shape if weight_wanted else (0,)),
    )


def _scaled(values: Tensor, factor: Tensor) -> Tensor:
    """Multiplied in place, without waiting for the factor and at no cost where it is one.

    Where torch traces, the product is a new tensor: what an operator returned must stay as it was.
    """
    if type(values) is not Tensor:
        return values * factor
    if values.numel() and tiles.has_triton(values):
        from tuner.kernels.scale import scale

        scale(values, factor)
        torch.autograd.graph.increment_version(values)
        return values
    return values.mul_(factor)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, *statistics, d_hidden_TH, d_weight_VH = output
    ctx.mark_non_differentiable(*statistics, d_hidden_TH, d_weight_VH)
    ctx.save_for_backward(d_hidden_TH, d_weight_VH)
    # Zeros for the unused gradients of the gradients would be as large as they are.
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError("linear_policy_loss has no second derivatives: create_graph must be False")
    d_loss = grads[0]
    input_gradients = [
        _scaled(gradient, d_loss) if wanted and d_loss is not None else None
        for gradient, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad[:2], strict=True)
    ]
    return *input_gradients, *(None,) * 13


forward.register_autograd(_differentiate, setup_context=_keep)
