"""From the content of a Hugging Face ``config.json`` to a :class:`ModelShape`."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tuner.architectures import find_architecture, model_types
from tuner.architectures.config import Config
from tuner.architectures.parts import complete
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.models.implemented_types import trace_hint
from tuner.vision_tower import VisionTower


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
