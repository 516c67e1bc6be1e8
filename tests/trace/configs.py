"""Small configurations of types that the formulas do not know, and of some that they do."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

_SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 65536,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

UNKNOWN: dict[str, dict[str, Any]] = {
    "granite": {**_SIZES, "logits_scaling": 8.0, "tie_word_embeddings": False},
    "starcoder2": {**_SIZES, "tie_word_embeddings": True},
    "cohere2": {
        **_SIZES,
        "tie_word_embeddings": True,
        "sliding_window": 1024,
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    },
    "olmoe": {**_SIZES, "num_experts": 16, "num_experts_per_tok": 4, "tie_word_embeddings": False},
    "granitemoe": {**_SIZES, "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": True},
    "minicpm3": {
        **_SIZES,
        "num_key_value_heads": 8,
        "q_lora_rank": 96,
        "kv_lora_rank": 64,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
        "tie_word_embeddings": True,
    },
}

KNOWN: dict[str, dict[str, Any]] = {
    "llama": {**_SIZES, "tie_word_embeddings": False},
    "qwen2": {**_SIZES, "tie_word_embeddings": True},
    "qwen3": {**_SIZES, "head_dim": 64, "tie_word_embeddings": True},
    "gemma2": {**_SIZES, "head_dim": 64, "sliding_window": 1024, "tie_word_embeddings": True},
    "olmo2": {**_SIZES, "tie_word_embeddings": False},
    "qwen3_moe": {
        **_SIZES,
        "head_dim": 64,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 128,
        "tie_word_embeddings": False,
    },
    "deepseek_v3": {
        **_SIZES,
        "num_key_value_heads": 8,
        "q_lora_rank": 96,
        "kv_lora_rank": 64,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 128,
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 4,
        "tie_word_embeddings": False,
    },
}


def write(folder: Path, model_type: str, **changes: Any) -> Path:
    """A model folder with a ``config.json``; ``None`` takes a key out."""
    config = {"model_type": model_type, **(UNKNOWN | KNOWN).get(model_type, {}), **changes}
    folder.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def kept_counts(folders: pytest.TempPathFactory) -> Path:
    """A cache folder of this run of pytest that its processes share, so that a model is counted once."""
    base = folders.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "counted"
