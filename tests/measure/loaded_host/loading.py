"""The process of one case: ``python -m measure.loaded_host.loading CASE ROLE LAYERS FOLDER``."""

import ctypes
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

#: Matrices of Qwen3-30B-A3B, whose experts are small ones in a checkpoint, and of Qwen3-4B.
CASES: dict[str, dict[str, Any]] = {
    "qwen3_moe": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "norm_topk_prob": True,
    },
    "qwen3": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
}
_MORE_LAYERS = {"qwen3": 6}  # of a model without experts, for one with them
_TURNS = 2


def main() -> None:
    """Write the weights, or load them and let go of them twice; one line of JSON for each reading."""
    case, role, layers, folder = sys.argv[1:]
    config = _config(case, int(layers) * _MORE_LAYERS.get(case, 1))
    if role == "write":
        _write(config, folder)
    else:
        _load(folder, on_meta=role == "others")


def _config(case: str, layers: int) -> Any:
    from transformers import AutoConfig

    ends = {"bos_token_id": 1, "eos_token_id": 1, "vocab_size": 32768, "head_dim": 128}
    return AutoConfig.for_model(case, **CASES[case], **ends, num_hidden_layers=layers, dtype="bfloat16")


def _write(config: Any, folder: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)


def _load(folder: str, *, on_meta: bool) -> None:
    import torch
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    _say("imported", 0)
    for turn in range(1, _TURNS + 1):
        begun = time.monotonic()
        with init_empty_weights() if on_meta else torch.device("cpu"):
            config = AutoConfig.from_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, config=config)
        size = 4 * sum(one.numel() for one in model.parameters())
        _say("loaded", turn, weight_bytes=size, seconds=round(time.monotonic() - begun, 1))
        del model
        gc.collect()
        _say("gone", turn)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    _say("trimmed", _TURNS)


def _say(step: str, turn: int, **more: Any) -> None:
    status = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) << 10 for line in status if line.startswith("Rss")}
    print(json.dumps({"step": step, "turn": turn, "host_bytes": sizes["RssAnon"], **more}), flush=True)


if __name__ == "__main__":
    main()
