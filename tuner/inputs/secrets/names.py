"""Names of variables, keys and headers, by what they hold: a secret, or what decides something."""

import re
from functools import lru_cache

_PARTS = re.compile(r"[_\-.\s]+|(?<=[a-z0-9])(?=[A-Z])")  # between the parts of a name
_CERTAIN = frozenset(
    [
        "authorization",
        "cookie",
        "cookies",
        "cred",
        "credential",
        "credentials",
        "creds",
        "passcode",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "privatekey",
        "pw",
        "secret",
        "secrets",
        "webhook",
    ]
)
_CERTAIN_AT_END = frozenset(["auth", "dsn", "pass", "pin", "pwd", "salt"])
_LIKELY_AT_END = frozenset(["apikey", "bearer", "hmac", "nonce", "private", "session", "signature"])
# What models and loaders call a key, a token or a pass is none: prompt_key, pad_token, forward_pass.
_BEFORE_KEY = frozenset(
    [
        "access",
        "account",
        "ak",
        "anthropic",
        "api",
        "app",
        "auth",
        "aws",
        "azure",
        "client",
        "comet",
        "consumer",
        "cosmos",
        "dashscope",
        "deepseek",
        "encryption",
        "gemini",
        "google",
        "groq",
        "hf",
        "hub",
        "kaggle",
        "license",
        "litellm",
        "login",
        "master",
        "mistral",
        "modelscope",
        "neptune",
        "openai",
        "openrouter",
        "private",
        "rsa",
        "secret",
        "service",
        "sign",
        "signing",
        "sk",
        "ssh",
        "storage",
        "subscription",
        "swanlab",
        "user",
        "vault",
        "volc",
        "wandb",
        "zhipu",
    ]
)
_NOT_BEFORE_TOKEN = frozenset(
    [
        "audio",
        "bos",
        "cls",
        "end",
        "eos",
        "first",
        "image",
        "last",
        "mask",
        "max",
        "min",
        "next",
        "num",
        "pad",
        "per",
        "sep",
        "special",
        "start",
        "stop",
        "text",
        "think",
        "unk",
        "video",
    ]
)
_NOT_BEFORE_PASS = frozenset(
    ["backward", "bwd", "first", "forward", "fwd", "multi", "num", "one", "second", "single", "two"]
)
_FOLDERS = frozenset({"PWD", "OLDPWD"})

_HARMLESS_START = (
    "TUNER_",
    *("ASCEND_", "CUBLAS_", "CUDA_", "CUDNN_", "DEEPSPEED_", "FLASHINFER_", "GLOO_", "GPU", "HCCL_", "HIP_"),
    *("KMP_", "MKL_", "NCCL_", "NVIDIA_", "NVSHMEM_", "NVTE_", "OMP_", "OPENBLAS_", "PYTHON", "PYTORCH_"),
    *(
        "RAY_",
        "ROCM_",
        "ROCR_",
        "SGLANG_",
        "SGL_",
        "SLURM_",
        "TENSORBOARD_",
        "TOKENIZERS_",
        "TORCH",
        "TRITON_",
    ),
    *("TRANSFORMERS_", "UCX_", "VERL_", "VLLM_", "XLA_"),
)
_HARMLESS_END = (
    *("_PATH", "_PATHS", "_DIR", "_DIRS", "_FOLDER", "_FILE", "_FILES", "_HOME", "_ROOT", "_SIZE", "_MODE"),
    *("_LEN", "_LENGTH", "_TYPE", "_DTYPE", "_BACKEND", "_PORT", "_PROJECT", "_PROJECT_NAME", "_ADDR"),
    *("_EXPERIMENT_NAME", "_MODEL", "_MODEL_NAME", "_RUN_NAME", "_INTERFACE", "_LEVEL", "_VERSION"),
    *("_STRATEGY", "_ESTIMATOR"),
)
_HARMLESS = frozenset(
    [
        "ADV_ESTIMATOR",
        "BACKEND",
        "CONFIG_NAME",
        "CONFIG_PATH",
        "DATASET",
        "DTYPE",
        "ENGINE",
        "EXPERIMENT_NAME",
        "EXP_NAME",
        "HOME",
        "HYDRA_FULL_ERROR",
        "LD_LIBRARY_PATH",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "MODEL",
        "NNODES",
        "NPROC_PER_NODE",
        "OLDPWD",
        "PATH",
        "PROJECT_NAME",
        "PWD",
        "RANK",
        "ROLLOUT_NAME",
        "STRATEGY",
        "WANDB_MODE",
        "WANDB_NAME",
        "WORLD_SIZE",
    ]
)
_FREE_SECTIONS = frozenset(
    [
        "env",
        "env_vars",
        "envs",
        "environ",
        "environment",
        "environment_variables",
        "headers",
        "custom_headers",
        "extra_headers",
        "default_headers",
        "http_headers",
        "cookies",
        "secrets",
        "credentials",
        "auth",
    ]
)


@lru_cache(maxsize=4096)
def is_certain(name: str) -> bool:
    """Whether a name says that any value is a secret: ``DB_PASS``, ``password``, ``Authorization``."""
    *before, last = _parts(name)
    if name in _FOLDERS:
        return False
    if not _CERTAIN.isdisjoint((*before, last)):
        return True
    return last in _CERTAIN_AT_END and not (last == "pass" and before and before[-1] in _NOT_BEFORE_PASS)


@lru_cache(maxsize=4096)
def is_likely(name: str) -> bool:
    """Whether a name says that a text is a secret, and a number is none: ``OPENAI_KEY``, ``hf_token``."""
    *before, last = _parts(name)
    if last == "key":
        return bool(before) and before[-1] in _BEFORE_KEY
    if last == "token":
        return not before or before[-1] not in _NOT_BEFORE_TOKEN
    return last in _LIKELY_AT_END or last.endswith(("apikey", "passwd", "password"))


@lru_cache(maxsize=4096)
def decides(name: str) -> bool:
    """Whether a name says that a value decides something and is no secret: ``NCCL_DEBUG``, ``model_path``."""
    if is_certain(name) or is_likely(name):
        return False
    loud = name.upper()
    return loud in _HARMLESS or loud.startswith(_HARMLESS_START) or loud.endswith(_HARMLESS_END)


def is_free(key: str) -> bool:
    """Whether a dotted key stands in a section whose keys the user makes up, by the name of that section."""
    if "." not in key:
        return False
    sections = key.split(".")[:-1]
    return any(section.strip("'\"+~").lower() in _FREE_SECTIONS for section in sections)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in _PARTS.split(name) if part) or ("",)
