"""Inputs of the output head by rows, what may still be allocated for them, and how far off a result is.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from dataclasses import replace

import torch
from torch import Tensor

from tuner.kernels.benchmark.problem import Problem


def part(problem: Problem, rows: slice | Tensor) -> Problem:
    """Some rows of a problem; a slice shares its memory."""
    policy = problem.policy
    return replace(
        problem,
        hidden_TH=problem.hidden_TH.detach()[rows].requires_grad_(),
        labels_T=problem.labels_T[rows],
        d_log_probs_T=problem.d_log_probs_T[rows],
        d_entropy_T=problem.d_entropy_T[rows],
        policy=None
        if policy is None
        else replace(policy, **{name: value[rows] for name, value in vars(policy).items()}),
    )


def free_bytes(device: torch.device) -> int:
    """What this process may still allocate: on the device, and of its own limit."""
    free, total = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    limit = int(total * torch.cuda.get_per_process_memory_fraction(device))
    return min(free + unused, limit - torch.cuda.memory_allocated(device))


def relative_error(value: Tensor, exact: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((value.double() - exact).norm() / exact.double().norm())
