"""What a ``config.json`` of Hugging Face says: the :class:`ModelShape` of a model, or of its first layers."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tuner.architectures import find_architecture, model_types
from tuner.architectures.config import Config
from tuner.architectures.parts import complete
from tuner.errors import UnsupportedError
from tuner.extras import install
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower

_MAPPINGS = ("auto_mappings.py", "configuration_auto.py")  # transformers 5, and 4
_COUNTS = ("num_hidden_layers", "n_layer")
_INDICES = ("mlp_only_layers",)  # keys that list layers by their index


def extra() -> str:
    """What a trace needs beside this package."""
    return _("needs the extra: {install}").format(install=install("trace"))


def trace_hint(model_type: str) -> str:
    """What ``--trace`` can do for a type that the formulas do not know."""
    if not find_architecture(model_type).traceable:
        return _(
            "--trace cannot count it either, since some of its layers keep a state instead of keys and values"
        )
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return _("where transformers implements it, --trace counts its tensors ({extra})").format(
            extra=extra()
        )
    if _names(Path(spec.origin).parent / "models" / "auto", model_type):
        return _("--trace counts the tensors of transformers' implementation ({extra})").format(extra=extra())
    return _("the installed transformers does not implement it either, so that --trace cannot help")


def _names(folder: Path, model_type: str) -> bool:
    texts = (folder / name for name in _MAPPINGS)
    return any(f'"{model_type}"' in text.read_text(encoding="utf-8") for text in texts if text.is_file())


def cut_config(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """A ``config.json`` with its first layers alone; what it lists for every layer is cut as well.

    Of a model with a decoder among its parts it is the decoder that is cut.
    """
    if not any(config.get(key) is not None for key in _COUNTS) and "text_config" in config:
        return {**config, "text_config": cut_config(config["text_config"], layers)}
    count = next(config[key] for key in _COUNTS if config.get(key) is not None)
    cut = {key: _cut(key, value, count, layers) for key, value in config.items()}
    return cut | {key: layers for key in _COUNTS if config.get(key) is not None}


def _cut(key: str, value: Any, count: int, layers: int) -> Any:
    if not isinstance(value, list):
        return value
    if key in _INDICES:
        return [index for index in value if index < layers]
    return value[:layers] if len(value) == count else value


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
    """The dimensions of a model from its configuration, and the dotted keys that they depend on."""
    root = Config(values=config, source=source)
    model_type = root.text("model_type")
    if model_type is None:
        raise root.missing("model_type")
    architecture = find_architecture(model_type)
    if architecture.read is None:
        raise UnsupportedError(
            _("models of type {model_type!r} are not modelled").format(model_type=model_type),
            location=root.location,
            key="model_type",
            hint=_("{trace_hint}; these types need no trace: {model_types}").format(
                trace_hint=trace_hint(model_type), model_types=", ".join(model_types())
            ),
        )
    if architecture.tower is None:
        shape = complete(architecture.read(root), root)
    else:
        shape = _with_tower(root, architecture.read, architecture.tower, architecture.vision)
    return replace(shape, name=name, architecture=model_type, source=source), root.used


def _with_tower(
    root: Config,
    read: Callable[[Config], ModelShape],
    tower: Callable[[Config, ModelShape], int],
    dimensions: Callable[[Config], VisionTower] | None,
) -> ModelShape:
    """A multimodal model: the language part, with the tower beside it."""
    text = root.section("text_config") or root  # early Qwen-VL files have the text keys at the top
    shape = complete(read(text), text)
    # Once saved inside the text part, now beside it; the outer one decides where both are.
    tied = root.flag("tie_word_embeddings", default=shape.tied_embeddings)
    vision = root.section("vision_config")
    if vision is None:
        raise root.missing("vision_config")
    return replace(
        shape,
        tied_embeddings=tied,
        extra_parameters=tower(vision, shape),
        tower=None if dimensions is None else dimensions(vision),
    )
