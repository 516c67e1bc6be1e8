"""What stands in for packages that verl's engine imports and this measurement does without."""

import importlib.machinery
import importlib.util
import sys
import types
import warnings
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from measure.verl_engine.permissive import Permissive

from tuner.validate.head.worker.cross_entropy import cross_entropy_loss


def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """``flash_attn_varlen_func`` by PyTorch's own copy of flash attention 2; without dropout."""
    if q.is_cuda:
        return torch.ops.aten._flash_attention_forward(
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_k,
            int(max_seqlen_q),
            int(max_seqlen_k),
            0.0,
            causal,
            False,
            scale=softmax_scale,
        )[0]
    lengths = cu_seqlens_q.diff().tolist()
    parts = zip(*(states.transpose(0, 1).split(lengths, dim=1) for states in (q, k, v)), strict=True)
    attended = [
        F.scaled_dot_product_attention(*part, is_causal=causal, scale=softmax_scale, enable_gqa=True)
        for part in parts
    ]
    return torch.cat(attended, dim=1).transpose(0, 1)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """``flash_attn_func``, of sequences that all have the same length, by the same."""
    if q.is_cuda:
        lengths = q.size(1), k.size(1)
        return torch.ops.aten._flash_attention_forward(
            q, k, v, None, None, *lengths, 0.0, causal, False, scale=softmax_scale
        )[0]
    states = (part.transpose(1, 2) for part in (q, k, v))
    attended = F.scaled_dot_product_attention(*states, is_causal=causal, scale=softmax_scale, enable_gqa=True)
    return attended.transpose(1, 2)


def stand_in_for_flash_attn() -> None:
    """Puts a ``flash_attn`` in place that transformers and verl take for the package."""
    contents: dict[str, dict[str, Any]] = {
        "flash_attn": {
            "__version__": "2.8.3",
            "flash_attn_func": attention,
            "flash_attn_varlen_func": varlen_attention,
            "flash_attn_with_kvcache": None,
        },
        "flash_attn.bert_padding": dict.fromkeys(
            ("index_first_axis", "pad_input", "rearrange", "unpad_input"), mock.Mock()
        ),
        "flash_attn.ops": {},
        "flash_attn.ops.triton": {},
        "flash_attn.ops.triton.cross_entropy": {"cross_entropy_loss": cross_entropy_loss},
    }
    for name, values in contents.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        vars(module).update(values, __path__=[])
        sys.modules[name] = module

    from transformers import modeling_flash_attention_utils as flash
    from transformers import utils

    # verl's own attention of Qwen2-VL asks for these.
    utils.is_flash_attn_2_available = utils.is_flash_attn_greater_or_equal_2_10 = lambda: True
    flash.is_flash_attn_2_available = lambda: True
    flash.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]["general_availability_check"] = lambda: True


def run_on_the_cpu() -> None:
    """Makes verl take the CPU for its accelerator, for a dry run."""
    if importlib.util.find_spec("verl.plugin") is None:
        return  # releases before it take the CPU by themselves
    from verl.plugin.platform.platform_cuda import PlatformCUDA

    module = mock.MagicMock()
    module.mem_get_info.return_value = (0, 0)
    module.memory_allocated.return_value = module.memory_reserved.return_value = 0
    for name, value in {
        "device_name": "cpu",
        "device_module": module,
        "current_device": lambda self: torch.device("cpu"),
        "empty_cache": lambda self: None,
        "is_available": lambda self: True,
    }.items():
        setattr(PlatformCUDA, name, value)


def prepare_imports() -> None:
    """Imports verl's engine with the stand-ins in place; takes seconds, and once for all engines."""
    missing = tuple(name for name in Permissive.names if importlib.util.find_spec(name) is None)
    Permissive.names = missing
    sys.meta_path.append(Permissive())
    stand_in_for_flash_attn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import peft  # noqa: F401

        if not torch.cuda.is_available():
            run_on_the_cpu()
        import verl.workers.engine.fsdp.transformer_impl
        import verl.workers.utils.losses  # noqa: F401
        from transformers import AutoModelForCausalLM  # noqa: F401
