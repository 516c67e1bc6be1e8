"""From the content of a Hugging Face ``config.json`` to a :class:`ModelShape`."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tuner.errors import UnsupportedError
from tuner.model_shape import ModelShape
from tuner.models import dense, sparse, vision
from tuner.models.config import Config
from tuner.models.implemented import trace_hint
from tuner.models.parts import complete

_Reader = Callable[[Config], ModelShape]

_TEXT: dict[str, _Reader] = {
    "deepseek_v2": sparse.deepseek,
    "deepseek_v3": sparse.deepseek,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3,
    "glm4": dense.glm4,
    "glm4_moe": sparse.glm4_moe,
    "gpt2": dense.gpt2,
    "gpt_oss": sparse.gpt_oss,
    "kimi_k2": sparse.deepseek,
    "llama": dense.llama,
    "mimo": dense.mimo,
    "mistral": dense.mistral,
    "mixtral": sparse.mixtral,
    "olmo2": dense.olmo2,
    "olmo3": dense.olmo3,
    "phi": dense.phi,
    "phi3": dense.phi3,
    "qwen2": dense.qwen2,
    "qwen2_moe": sparse.qwen2_moe,
    "qwen3": dense.qwen3,
    "qwen3_5_moe_text": sparse.gated_delta_moe,
    "qwen3_5_text": sparse.gated_delta,
    "qwen3_moe": sparse.qwen3_moe,
    "qwen3_next": sparse.gated_delta_moe,
    "seed_oss": dense.seed_oss,
    "smollm3": dense.smollm3,
}

# The language part, and the vision tower's parameters given its configuration and that part.
_MULTIMODAL: dict[str, tuple[_Reader, Callable[[Config, ModelShape], int]]] = {
    "gemma3": (dense.gemma3, lambda tower, text: vision.gemma3(tower, hidden=text.hidden)),
    "glm4v": (dense.glm4v, lambda tower, text: vision.glm4v(tower)),
    "qwen2_5_vl": (dense.qwen2, lambda tower, text: vision.qwen2_5_vl(tower)),
    "qwen2_vl": (dense.qwen2, lambda tower, text: vision.qwen2_vl(tower)),
    "qwen3_5": (sparse.gated_delta, lambda tower, text: vision.qwen3_vl(tower)),
    "qwen3_5_moe": (sparse.gated_delta_moe, lambda tower, text: vision.qwen3_vl(tower)),
    "qwen3_vl": (dense.qwen3, lambda tower, text: vision.qwen3_vl(tower)),
    "qwen3_vl_moe": (sparse.qwen3_moe, lambda tower, text: vision.qwen3_vl(tower)),
}


def model_types() -> tuple[str, ...]:
    """The values of ``model_type`` that can be read."""
    return tuple(sorted([*_TEXT, *_MULTIMODAL]))


def shape_from_config(config: Mapping[str, Any], *, name: str, source: str) -> ModelShape:
    """Read the content of a ``config.json``; of a multimodal model the language part.

    The vision tower is counted in ``extra_parameters``.

    Args:
        config: the parsed file; old and new spellings of transformers are understood.
        name: what to call the model.
        source: where the values come from, for messages and as the shape's ``source``.

    Raises:
        InputError: a key is missing, or its value has the wrong type or range.
        UnsupportedError: the model is of a type that is not modelled.
    """
    shape, _ = read_config(config, name=name, source=source)
    return shape


def read_config(config: Mapping[str, Any], *, name: str, source: str) -> tuple[ModelShape, set[str]]:
    """As :func:`shape_from_config`, with the dotted keys that the shape depends on."""
    root = Config(values=config, source=source)
    model_type = root.text("model_type")
    if model_type is None:
        raise root.missing("model_type")
    if model_type in _MULTIMODAL:
        shape = _read_multimodal(root, model_type)
    elif model_type in _TEXT:
        shape = complete(_TEXT[model_type](root), root)
    else:
        raise UnsupportedError(
            f"models of type {model_type!r} are not modelled",
            location=root.location,
            key="model_type",
            hint=f"{trace_hint(model_type)}; these types need no trace: {', '.join(model_types())}",
        )
    return replace(shape, name=name, architecture=model_type, source=source), root.used


def _read_multimodal(root: Config, model_type: str) -> ModelShape:
    reader, tower_parameters = _MULTIMODAL[model_type]
    text = root.section("text_config") or root  # early Qwen-VL files have the text keys at the top
    shape = complete(reader(text), text)
    # Once saved inside the text part, now beside it; the outer one decides where both are.
    tied = root.flag("tie_word_embeddings", default=shape.tied_embeddings)
    tower = root.section("vision_config")
    if tower is None:
        raise root.missing("vision_config")
    return replace(shape, tied_embeddings=tied, extra_parameters=tower_parameters(tower, shape))
