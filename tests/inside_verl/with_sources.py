"""Log-probabilities and gradients by verl's own forward pass, then with the head; run with verl's sources.

    PYTHONPATH=.:SOURCES python tests/inside_verl/with_sources.py

Prints both as JSON. Packages that verl imports and this does without answer anything.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure.verl_engine.stand_ins import Permissive, stand_in_for_flash_attn

WITHOUT = (
    "accelerate",
    "codetiming",
    "datasets",
    "dill",
    "pandas",
    "peft",
    "pylatexenc",
    "ray",
    "tensordict",
)
WITHOUT += ("torchdata", "wandb")


def outcome(patching: Any) -> dict[str, list[float]]:
    """Of a small model with verl's torch head, as the file has it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, num_key_value_heads=2, **sizes))
    patching.apply_monkey_patch(
        model=model, use_remove_padding=True, use_fused_kernels=True, fused_kernels_backend="torch"
    )
    ids = torch.randint(97, (1, 24))
    output = model(
        input_ids=ids,
        attention_mask=None,
        position_ids=torch.arange(24)[None],
        use_cache=False,
        temperature=0.7,
        return_dict=True,
    )
    (output.log_probs.sum() + 0.3 * output.entropy.sum()).backward()
    gradients = [parameter.grad.norm() for parameter in model.parameters()]
    return {
        "log_probs": output.log_probs.flatten().tolist(),
        "entropy": output.entropy.flatten().tolist(),
        "gradients": torch.stack(gradients).tolist(),
    }


def main() -> None:
    """Both, the second after ``tuner.inside_verl`` was imported as a worker imports it."""
    Permissive.names = tuple(name for name in WITHOUT if importlib.util.find_spec(name) is None)
    sys.meta_path.append(Permissive())
    stand_in_for_flash_attn()
    patching = importlib.import_module("verl.models.transformers.monkey_patch")
    kept = LlamaForCausalLM.forward
    theirs = outcome(patching)
    LlamaForCausalLM.forward = kept
    importlib.import_module("tuner.inside_verl")
    marked = importlib.import_module("tuner.inside_verl.head.choice").MARK
    ours = outcome(patching)
    print(json.dumps({"theirs": theirs, "ours": ours, "head": hasattr(LlamaForCausalLM.forward, marked)}))


if __name__ == "__main__":
    main()
