"""The settings of a job as they may be sent to others: what decides figures, no name, place or secret.

Nothing is sent because it looks harmless under a name that nobody knows: a value goes in where the release
has its key and it is a number, a switch or a common word of training, or where the estimate reads the key and
the value is one plain word. All else is left out, and its key is named.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tuner.consultation.job import JobReading
from tuner.inputs.override_syntax import override
from tuner.inputs.resolution import overrides
from tuner.inputs.secrets import shown_value
from tuner.inputs.secrets.harmless import is_harmless
from tuner.inputs.secrets.names import is_free
from tuner.models import FoundConfig, find_config, model_names
from tuner.override_text import DELETES, override_key
from tuner.trainers.key_facts import KeyKind

_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_OPTION = re.compile(r"(?:--config-name=)?[\w.=+-]+")
#: Texts of a config.json that decide dimensions; its other texts name people, folders and repositories.
_TEXTS_OF_MODELS = frozenset(
    [
        *(
            "model_type",
            "architectures",
            "hidden_act",
            "hidden_activation",
            "activation",
            "activation_function",
        ),
        *("torch_dtype", "dtype", "layer_types", "mlp_layer_types", "layers_block_type", "scoring_func"),
        *("topk_method", "type", "rope_type", "position_embedding_type", "quant_method", "fmt"),
    ]
)


class SentSettings(Struct, frozen=True, kw_only=True):
    """The settings of a job that go into a bundle, and what was left out of them."""

    program: str
    overrides: tuple[str, ...]
    models: dict[str, dict[str, Any]]
    hidden: tuple[str, ...]  # keys of the release
    unnamed: int  # further settings, whose very keys are somebody's own


def sent_settings(job: JobReading, model: str | None) -> SentSettings:
    """What may be sent of a job's settings.

    Args:
        job: with all its settings.
        model: that an option names in the place of the key's.
    """
    loaded = job.loaded
    named = {loaded.model_key: model or loaded.model_path()}
    if loaded.critic_model_path() is not None:
        named[loaded.critic_model_key] = loaded.critic_model_path()
    models: dict[str, dict[str, Any]] = {}
    hidden: list[str] = []
    unnamed = 0
    sent = [word for word in loaded.base.words if _OPTION.fullmatch(word)]
    unknown = {one.key for one in loaded.settings.unknown}
    texts = overrides(loaded.settings)
    kinds = {key: state.kind for key, state in loaded.key_states(map(override_key, texts)).items()}
    for text in texts:
        key = override_key(text)
        if key in named:
            continue
        if key in unknown or is_free(key) or kinds[key] is None:
            unnamed += 1
        elif _may_be_sent(job, key, text, kinds[key]):
            sent.append(text)
        else:
            hidden.append(key)
    for key, path in named.items():
        if path is not None:
            sent.append(override(key, _model_name(path, models, dict(job.given.models))))
    program = job.given.program if _MODULE.fullmatch(job.given.program) else ""
    return SentSettings(
        program=program, overrides=tuple(sent), models=models, hidden=tuple(hidden), unnamed=unnamed
    )


def _may_be_sent(job: JobReading, key: str, text: str, kind: KeyKind | None) -> bool:
    """Whether an override has a key of the release and a value that names nobody."""
    if text.startswith(DELETES):
        return True
    value = job.loaded.settings.get(key)
    if shown_value(key, value, known=True) != value:
        return False
    if isinstance(value, str) and kind is KeyKind.MODELLED and _WORD.fullmatch(value):
        return True
    return is_harmless(value) and not any(map(_ADDRESS.search, _texts(value)))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, the names of its sections among them."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield str(name)
            yield from _texts(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _texts(child)
    elif isinstance(value, str):
        yield value


def _model_name(
    path: str, models: dict[str, dict[str, Any]], described: Mapping[str, Mapping[str, Any]]
) -> str:
    """The bundled name of a model; of another one a name of its own, under which its dimensions are kept."""
    values = described.get(path)  # those that a record or a bundle has itself
    found = find_config(path) if values is None else FoundConfig(values=values, name="", source="")
    if found.name in model_names() and find_config(found.name).values == found.values:
        return found.name
    dimensions = _dimensions(found.values)
    known = next((name for name, values in models.items() if values == dimensions), None)
    name = known or f"model-{len(models) + 1}"
    models[name] = dimensions
    return name


def _dimensions(values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and switches of a config.json, and those texts of it that decide dimensions."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if not _WORD.fullmatch(name):
            continue
        if isinstance(value, Mapping):
            kept[name] = _dimensions(value)
        elif _is_number(value) or _are_numbers(value) or _decides(name, value):
            kept[name] = value
    return kept


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _decides(name: str, value: object) -> bool:
    """Whether it is a text, or are texts, by which dimensions are read."""
    return name in _TEXTS_OF_MODELS and all(map(_WORD.fullmatch, _texts(value)))
