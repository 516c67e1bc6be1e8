"""Configurations and random weights of the measured models."""

from pathlib import Path
from typing import Any

import torch

from tuner.validate.training.worker.images import with_rotary_sections

# Folders with a config.json, named relative to the recorded files, which lie there too.
DATA = Path(__file__).parents[3] / "docs" / "validation" / "data"

_TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 512,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_group": 2,
    "topk_group": 1,
}
_TINY_TOWER = {
    "depth": 2,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 4,
    "num_attention_heads": 4,
    "out_hidden_size": 64,
    "fullatt_block_indexes": [1],
    "deepstack_visual_indexes": [0],
    "num_position_embeddings": 64,
}
#: Of the image's tokens, below the tiny vocabulary.
_TINY_IMAGE_TOKEN = 500


def write_config(model: str, directory: str, *, shrink: bool) -> None:
    """Writes the ``config.json`` of a profile or a folder of this repository."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )

    from tuner.models import find_config

    values = dict(find_config(model, base=DATA).values)
    if shrink:
        values = tiny(values)
    values = with_rotary_sections(values)
    model_type = values.pop("model_type")
    sees = "vision_config" in values
    classes = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES if sees else MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    values["architectures"] = [classes[model_type]]
    values |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    AutoConfig.for_model(model_type, **values).save_pretrained(directory)


def tiny(values: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a model of the same type that a processor runs in seconds."""
    values = values | {key: size for key, size in _TINY.items() if values.get(key) is not None}
    if "kv_lora_rank" in values:
        values["num_key_value_heads"] = values["num_attention_heads"]
    if "vision_config" in values:
        values["image_token_id"] = _TINY_IMAGE_TOKEN
        values["vision_config"] = values["vision_config"] | _TINY_TOWER
    text = values.get("text_config")
    if text is not None:
        values["text_config"] = text = text | _TINY
    values = with_rotary_sections(values)
    rope = values.get("text_config", values).get("rope_scaling")
    if rope is not None and "mrope_section" in rope:
        rope["mrope_section"] = [2, 3, 3]  # together half a head
    return values


def random_model(config: Any, dtype: torch.dtype, *, critic: bool = False, frozen_tower: bool = False) -> Any:
    """A model with small random weights, in seconds.

    Parameters of one shape share their memory on the host: sharding copies each of them to the GPU.
    A frozen tower needs no gradients, as verl 0.7.1's workers make it.
    """
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForTokenClassification,
    )
    from transformers.initialization import no_init_weights

    kind = AutoModelForTokenClassification if critic else AutoModelForCausalLM
    if hasattr(config, "vision_config"):
        kind = AutoModelForImageTextToText
    with no_init_weights():
        model = kind.from_config(config, dtype=dtype)
    if frozen_tower:
        model.model.visual.requires_grad_(False)
    model.tie_weights()
    model._no_split_modules = sorted(model._no_split_modules or ())  # verl up to 0.7.1 asks for the first
    pattern = 0.02 * torch.randn(1 << 20, generator=torch.Generator().manual_seed(0))
    filled: dict[tuple[torch.Size, torch.dtype], torch.Tensor] = {}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_meta:
                continue
            if parameter.ndim == 1:
                parameter.fill_(1.0)
                continue
            same = filled.get((parameter.shape, parameter.dtype))
            if same is not None:
                parameter.data = same
                continue
            for part in parameter.view(-1).split(len(pattern)):
                part.copy_(pattern[: len(part)])
            filled[parameter.shape, parameter.dtype] = parameter.data
    return model
