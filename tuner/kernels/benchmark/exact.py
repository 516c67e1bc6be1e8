"""What a head should find: in float64, and with logits that torch rounds.

T: rows (tokens). V: vocabulary entries. H: hidden size. C: rows of a chunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tuner.kernels.benchmark.problem import CLIP_RATIO, ENTROPY_COEFF, KL_LOSS_COEF, Problem
from tuner.kernels.benchmark.report import Task


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a head computes; none of what it is not asked for.

    Attributes:
        loss_slopes: by how much, to first order, a relative error of the log-probabilities or of the entropy
            can move the loss, relative to it: at most the norm of its derivatives times their norm.
    """

    log_probs: Tensor | None = None
    entropy: Tensor | None = None
    loss: Tensor | None = None
    d_hidden: Tensor
    d_weight: Tensor
    loss_slopes: Mapping[str, float] = field(default_factory=dict)

    def present(self) -> dict[str, Tensor]:
        """The results that this head has, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def errors(self, exact: "Results", *, least: float = 0.0) -> dict[str, float]:
        """Relative error of each result that both have: norm of the difference over the norm or ``least``."""
        wanted = exact.present()
        return {
            name: float(
                (value.double() - wanted[name]).norm() / wanted[name].double().norm().clamp(min=least)
            )
            for name, value in self.present().items()
            if name in wanted
        }

    def worst(self, exact: "Results") -> dict[str, float]:
        """Largest absolute difference of what there is for each token; NaN if any is."""
        wanted = exact.present()
        return {
            name: float((value.double() - wanted[name]).abs().max())
            for name, value in self.present().items()
            if name in wanted and name in ("log_probs", "entropy")
        }


def objective(task: Task, problem: Problem, log_probs_T: Tensor, entropy_T: Tensor) -> Tensor:
    """The scalar that a head's gradients are of."""
    if task is Task.MEAN:
        return -log_probs_T.mean()
    if task is Task.POLICY_LOSS:
        return _policy_loss(problem, log_probs_T, entropy_T)
    of_log_probs = (log_probs_T * problem.d_log_probs_T).sum()
    return of_log_probs if task is Task.LOG_PROBS else of_log_probs + (entropy_T * problem.d_entropy_T).sum()


def _policy_loss(problem: Problem, log_probs_T: Tensor, entropy_T: Tensor) -> Tensor:
    """PPO's clipped loss, arXiv:1707.06347, with the low-variance KL estimate and the entropy's bonus."""
    inputs = problem.policy
    if inputs is None:
        raise ValueError("the problem has no policy")
    ratio_T = (log_probs_T - inputs.old_log_probs_T).exp()
    clipped_T = ratio_T.clamp(1 - CLIP_RATIO, 1 + CLIP_RATIO)
    free_T, held_T = (-inputs.advantages_T * ratio for ratio in (ratio_T, clipped_T))
    ahead_T = inputs.ref_log_probs_T - log_probs_T
    kl_T = ahead_T.exp() - ahead_T - 1
    losses_T = torch.maximum(free_T, held_T) + KL_LOSS_COEF * kl_T - ENTROPY_COEFF * entropy_T
    return (inputs.token_weights_T * losses_T).sum()


def _upstream(task: Task, problem: Problem, outputs: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The objective, and its derivatives by log-probabilities and entropy."""
    leaves = [output.detach().requires_grad_() for output in outputs]
    value = objective(task, problem, *leaves)
    first, second = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return value.detach(), first, second


def _results(problem: Problem, task: Task, logits_dtype: torch.dtype) -> Results:
    """Results computed from logits in one dtype, chunk by chunk; in float64 all else is float64 too."""
    hidden_TH, weight_VH = (matrix.detach() for matrix in problem.inputs)
    wide = logits_dtype is torch.float64
    if wide:
        hidden_TH, weight_VH = hidden_TH.double(), weight_VH.double()
    factors = (hidden_TH.to(logits_dtype), weight_VH.to(logits_dtype))
    labels_T1 = problem.labels_T[:, None]

    def log_softmax(part: slice) -> Tensor:
        logits_CV = factors[0][part] @ factors[1].T
        return (logits_CV if wide else logits_CV.float()).log_softmax(1)

    chunks: list[tuple[Tensor, Tensor]] = []
    for part in problem.chunks():
        log_p_CV = log_softmax(part)
        entropy_C = -(log_p_CV.exp() * log_p_CV).sum(1)
        chunks.append((log_p_CV.gather(1, labels_T1[part]).squeeze(1), entropy_C))
    outputs = [torch.cat(parts) for parts in zip(*chunks, strict=True)]
    value, d_log_probs_T, d_entropy_T = _upstream(task, problem, outputs)
    d_weight_VH = torch.zeros_like(weight_VH, dtype=torch.float64 if wide else torch.float32)
    d_hidden: list[Tensor] = []
    for part in problem.chunks():
        log_p_CV = log_softmax(part)
        a_C1, b_C1 = d_log_probs_T[part, None], d_entropy_T[part, None]
        d_logits_CV = -log_p_CV.exp() * (a_C1 + b_C1 * (log_p_CV + outputs[1][part, None]))
        d_logits_CV = d_logits_CV.scatter_add_(1, labels_T1[part], a_C1).to(weight_VH.dtype)
        d_weight_VH += d_logits_CV.T.to(d_weight_VH.dtype) @ hidden_TH[part].to(d_weight_VH.dtype)
        d_hidden.append(d_logits_CV @ weight_VH)
    named = dict(zip(("log_probs", "entropy"), outputs, strict=True)) | {"loss": value}
    slopes = {
        name: float(slope.norm() * named[name].norm() / value.abs())
        for name, slope in (("log_probs", d_log_probs_T), ("entropy", d_entropy_T))
    }
    # The exact gradients are kept in float32, whose rounding is far below that of any head's.
    gradient_dtype = torch.float32 if wide else weight_VH.dtype
    return Results(
        **{name: named[name] for name in task.outputs},
        d_hidden=torch.cat(d_hidden).to(gradient_dtype),
        d_weight=d_weight_VH.to(gradient_dtype),
        loss_slopes=slopes if "loss" in task.outputs else {},
    )


def exact_results(problem: Problem, task: Task = Task.EACH) -> Results:
    """All results of the task, computed in float64."""
    return _results(problem, task, torch.float64)


def float32_results(problem: Problem, task: Task = Task.EACH) -> Results:
    """Results of a head whose logits torch keeps in float32; it rounds their gradient and what it returns.

    The gradient of the weight is added in float32 and rounded once.
    """
    return _results(problem, task, torch.float32)


def rounded_results(problem: Problem, task: Task = Task.EACH) -> Results:
    """Results of a head whose logits torch rounds to the dtype of its inputs, as language models do."""
    return _results(problem, task, problem.hidden_TH.dtype)
