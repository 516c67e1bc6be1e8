"""Stands for Transformer Engine's compiled part: the same calls, each of one or two of torch's operators.

Results are of the right shape and kept alike, and mean nothing: a norm does not normalise, and attention
returns its scaled queries.
"""

import enum
from types import ModuleType
from typing import Any

import torch

Tensors = tuple[torch.Tensor | None, ...]

_DTYPES = (
    "Byte",
    "Int16",
    "Int32",
    "Int64",
    "Float32",
    "Float16",
    "BFloat16",
    "Float8E4M3",
    "Float8E5M2",
    "Float8E8M0",
)
_ENUMS = {
    "DType": [f"k{name}" for name in _DTYPES],
    "FP8FwdTensors": [f"GEMM{n}_{what}" for n in (1, 2, 3) for what in ("INPUT", "WEIGHT", "OUTPUT")],
    "FP8BwdTensors": [f"GRAD_{what}{n}" for n in (1, 2, 3) for what in ("OUTPUT", "INPUT")],
    "CommOverlapType": ["RS", "AG"],
    "CommOverlapAlgo": ["NONE"],
    "Float8BlockScaleTensorFormat": ["GEMM_READY", "COMPACT"],
    "NVTE_Fused_Attn_Backend": [
        "NVTE_No_Backend",
        "NVTE_F16_max512_seqlen",
        "NVTE_F16_arbitrary_seqlen",
        "NVTE_FP8",
    ],
}
_NAMES = ("NVTE_QKV_Layout", "NVTE_QKV_Format", "NVTE_Bias_Type", "NVTE_Mask_Type", "NVTE_Softmax_Type")


class _AnyName:
    """An enumeration that has every name."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __getattr__(self, name: str) -> int:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.numbers.setdefault(name, len(self.numbers))


def generic_gemm(
    a: torch.Tensor,
    transpose_a: bool,
    b: torch.Tensor,
    transpose_b: bool,
    out: torch.Tensor | None,
    *rest: Any,
    **_: Any,
) -> Tensors:
    """A product of two matrices, the second one first, as cuBLAS has it; into ``out`` where there is one."""
    bias, grad, accumulates = rest[2], rest[6], rest[9]
    left, right = (matrix.reshape(-1, matrix.shape[-1]) for matrix in (b, a))
    left, right = left.t() if transpose_b else left, right.t() if transpose_a else right
    if out is not None:
        if not accumulates:
            torch.mm(left, right, out=out)
        else:
            out.add_(left @ right)
        return out, None, None, None
    product = torch.mm(left, right)
    if not transpose_b:
        product = product.view(*b.shape[:-1], product.shape[-1])
    return product, bias if grad else None, None, None


def rmsnorm_fwd(
    states: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor | None, *_: Any
) -> Tensors:
    """Output, nothing, and a float32 statistic for each token."""
    normed = torch.empty_like(states) if out is None else out
    torch.mul(states, weight, out=normed)
    return normed, None, torch.empty(states.shape[0], dtype=torch.float32)


def rmsnorm_bwd(
    gradient: torch.Tensor, states: torch.Tensor, _: Any, weight: torch.Tensor, *__: Any
) -> Tensors:
    """Gradients of the states and of the weight."""
    of_states, of_weight = torch.empty_like(states), torch.empty_like(weight)
    torch.mul(gradient, weight, out=of_states)
    torch.sum(gradient, 0, out=of_weight)
    return of_states, of_weight


def fused_attn_fwd(*arguments: Any) -> list[torch.Tensor]:
    """Output, a float32 statistic for each token and head, and the state of the random numbers."""
    scale, query = arguments[3], arguments[12]
    attended = torch.empty_like(query)
    torch.mul(query, scale, out=attended)
    return [attended, torch.empty(query.shape[0], query.shape[1]), torch.empty(2, dtype=torch.int64)]


def fused_attn_bwd(*arguments: Any) -> list[torch.Tensor | None]:
    """Gradients of queries, keys and values, the first three tensors of three dimensions."""
    states = [one for one in arguments if isinstance(one, torch.Tensor) and one.dim() == 3][:3]
    gradients: list[torch.Tensor | None] = []
    for one in states:
        gradient = torch.empty_like(one)
        torch.mul(one, 2, out=gradient)
        gradients.append(gradient)
    return [*gradients, None]


def fused_rope_forward(states: torch.Tensor, *_: Any) -> torch.Tensor:
    """Rotated states: one copy."""
    rotated = torch.empty_like(states)
    torch.mul(states, 2, out=rotated)
    return rotated


class CompiledPart(ModuleType):
    """The module ``transformer_engine_torch``; what is not needed here is an empty class."""

    def __init__(self) -> None:
        super().__init__("transformer_engine_torch")
        enums: dict[str, Any] = {
            name: enum.IntEnum(name, members, start=0) for name, members in _ENUMS.items()
        }
        functions = (
            generic_gemm,
            rmsnorm_fwd,
            rmsnorm_bwd,
            fused_attn_fwd,
            fused_attn_bwd,
            fused_rope_forward,
        )
        vars(self).update(enums)
        vars(self).update({name: _AnyName() for name in _NAMES})
        vars(self).update({function.__name__: function for function in functions})
        vars(self).update(
            layernorm_fwd=None,  # of another norm, but asked for by name
            layernorm_bwd=None,
            fused_rope_backward=fused_rope_forward,
            device_supports_multicast=lambda *_: False,
            get_stream_priority_range=lambda *_: (0, -5),
            get_num_cublas_streams=lambda: 4,
            get_cublasLt_version=lambda: 130000,
            get_cudnn_version=lambda: 91000,
            ubuf_built_with_mpi=lambda: False,
            get_fused_attn_backend=lambda *_: enums["NVTE_Fused_Attn_Backend"]["NVTE_F16_arbitrary_seqlen"],
        )

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})
