"""Values that are known to hold no secret, whatever they are called: numbers, switches, common words."""

import re
from functools import cache
from typing import Any

_COMMON = """
true false yes no on off y n none null nil nan inf auto default enable enabled disable disabled always
never full partial selective all any both only sync async static dynamic value path file

bfloat16 bf16 float16 fp16 half float32 fp32 float float64 fp8 fp8_e4m3 fp8_e5m2 e4m3 e5m2 int8 int4
uint8 mxfp4 mxfp8 nvfp4 awq gptq bitsandbytes w8a8 tf32 torchao

fsdp fsdp2 megatron ddp deepspeed torchtitan veomni automodel hf transformers vllm sglang trtllm eager
sdpa flash_attention_2 flash_attention_3 flash_attn flash_attn_vllm_v1 flashinfer flashmla triton
triton_attn torch_native torch_sdpa xformers fa2 fa3 fa4 mla torch triton_mla cutlass cutlass_mla marlin
deepep deep_gemm nccl hccl gloo mpi mp uni ray spawn fork forkserver cuda cpu gpu npu rocm meta native
nixl mooncake external_launcher nsys piecewise full_and_piecewise full_decode_only inductor

grpo gae ppo rloo remax gspo dapo cispo sft kl k1 k2 k3 low_var_kl mse adam adamw sgd cosine constant
linear block uniform token sequence mean sum left right middle error warn

console wandb swanlab mlflow tensorboard trackio clearml comet online offline debug info warning critical
trace silent text json
"""
_WORDS = frozenset(_COMMON.split())


@cache
def _number() -> re.Pattern[str]:
    return re.compile(
        r"[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?(?:[KMGTkmgt]i?[Bb]?|[Bbs]|ms|min|h)?"
        r"|\d+(?:\.\d+){1,3}(?:\.?(?:post|rc|dev)\d+)?"
        r"|[+-]?\.?(?:inf|nan)",
        re.IGNORECASE,
    )


@cache
def _reference() -> re.Pattern[str]:
    name = r"(?:[\w.]*|\$\{[\w.]*\})"  # also one that is a reference itself
    return re.compile(r"\$\{(?:oc\.(?:env|select):)?" + name + r"\}|\$\w+|\?\?\?|~")


@cache
def _special_token() -> re.Pattern[str]:
    """A tokenizer's, such as <pad>."""
    return re.compile(r"<\W?[A-Za-z_]{1,30}\W?>")


@cache
def _between() -> re.Pattern[str]:
    """What parts the items of a list or of a small mapping."""
    return re.compile(r"[,:;\s\[\]{}()|=]+")


_LONGEST_NUMBER = 24  # characters


def is_harmless(value: Any) -> bool:
    """Whether a value is known to hold no secret: a number, a boolean, a common word, or a list of these."""
    if isinstance(value, dict):
        return all(is_harmless(child) for child in value.values())
    if isinstance(value, list | tuple):
        return all(map(is_harmless, value))
    if not isinstance(value, str):
        return True
    bare = value.strip("'\"")
    if _special_token().fullmatch(bare) or is_reference(bare):
        return True
    return all(_is_harmless_word(word) for word in _between().split(bare) if word)


def is_reference(value: str) -> bool:
    """Whether a value is nothing but the name of another key or variable."""
    return _reference().fullmatch(value) is not None


def _is_harmless_word(word: str) -> bool:
    bare = word.strip("'\"").removesuffix("...")  # "NAME=value..."
    if not bare or bare.lower() in _WORDS or _reference().fullmatch(bare):
        return True
    return len(bare) <= _LONGEST_NUMBER and _number().fullmatch(bare) is not None
