"""Finding a model: a local ``config.json``, else a bundled profile. Never the network."""

import os
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner import resources, shipped
from tuner.architectures import find_architecture
from tuner.errors import InputError, Location, UnsupportedError
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.models.shape import shape_from_config, trace_hint
from tuner.units import MIB

_WITHIN = (
    ".",
    "huggingface",
    "actor",
    "actor/huggingface",
)  # where a trainer's checkpoint has the configuration
_MOST_BYTES = 4 * MIB  # a quantized checkpoint that lists its layers has 0.3 MiB
_CACHE_PREFIX = "models--"  # Hugging Face cache: models--<organisation>--<name>/snapshots/<hash>


class ModelProfile(Struct, frozen=True, kw_only=True):
    """One file of ``profiles/models``.

    In the file, ``names`` share ``config``, the keys of ``config.json`` that the dimensions
    depend on; each of the optional ``variants`` has further names and the keys that differ.
    """

    configs: Mapping[str, Mapping[str, Any]]  # by listed name
    source: str

    def find(self, name: str) -> str | None:
        """The listed spelling of a name in any case, None when it is not listed."""
        return next((listed for listed in self.configs if listed.lower() == name.lower()), None)


def read_profile(file: Path) -> ModelProfile:
    """Read one profile.

    Raises:
        InputError: not YAML, or not of the form that :class:`ModelProfile` describes.
    """
    named: resources.Kinds = {"names": list, "config": dict}
    content = resources.read_profile(file, required={**named, "source": str}, optional={"variants": list})
    own, configs = content["config"], dict.fromkeys(content["names"], content["config"])
    for variant in content.get("variants", []):
        resources.check_keys(variant, file=file, required=named, optional={})
        configs |= dict.fromkeys(variant["names"], own | variant["config"])
    return ModelProfile(configs=configs, source=content["source"])


class FoundConfig(Struct, frozen=True, kw_only=True):
    """The content of a ``config.json``, or the keys of it that a bundled profile holds."""

    values: Mapping[str, Any]
    name: str
    source: str
    contained_in: str = ""  # the part of a path that contains the name; empty where it is the name


def find_model(path: str, *, base: Path | None = None) -> ModelShape:
    """The dimensions of the model that a path or name stands for, as in :func:`find_config`.

    Raises:
        InputError: nothing is known under this name, or the file cannot be used.
        UnsupportedError: the model is of a type that is not modelled.
    """
    config = find_config(path, base=base)
    shape = shape_from_config(config.values, name=config.name, source=config.source)
    return replace(shape, contained_in=config.contained_in) if config.contained_in else shape


def find_config(path: str, *, base: Path | None = None) -> FoundConfig:
    """The configuration of the model that a path or name stands for.

    Args:
        path: a folder with a ``config.json``, such a file, or a name or path whose last part
            names a bundled profile, whether it exists here or not (``Qwen/Qwen2.5-7B-Instruct``,
            ``/data/models/Qwen2.5-7B-Instruct/``); or a path of which a part contains the name of one
            bundled model, see :func:`~tuner.models.contained_names.find_contained`.
        base: the folder that relative paths start from; None: the current one.

    Raises:
        InputError: nothing is known under this name, or the file cannot be read.
    """
    if not path.strip():
        raise InputError(_("the model path is empty"), hint=_how_to_name_one())
    local = (base or Path()) / _expanded(path)
    if is_there(local, Path.is_file):
        return _read_config_json(local)
    if is_there(local, Path.is_dir):
        return _read_folder(local)
    if local.suffix == ".json":
        raise InputError(_("no such file"), location=Location(source=str(local)), hint=_how_to_name_one())
    return _bundled(path)


def model_names() -> tuple[str, ...]:
    """Names of all bundled profiles, sorted without regard to case."""
    names = (name for profile in _profiles() for name in profile.configs)
    return tuple(sorted(names, key=str.lower))


def bundled() -> tuple[ModelShape, ...]:
    """All bundled models, sorted by name without regard to case."""
    models = (
        shape_from_config(config, name=name, source=profile.source)
        for profile in _profiles()
        for name, config in profile.configs.items()
    )
    return tuple(sorted(models, key=lambda model: model.name.lower()))


def config_file(folder: Path) -> Path | None:
    """The ``config.json`` of a checkpoint, also where a trainer has put it below; None without one."""
    files = (folder / place / "config.json" for place in _WITHIN)
    return next((file for file in files if is_there(file, Path.is_file)), None)


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # "~name" of a user that this machine does not have
        return Path(path)


def _how_to_name_one() -> str:
    return _("give --model NAME, --model DIR (a folder with config.json) or --model FILE (a config.json)")


def _read_folder(folder: Path) -> FoundConfig:
    file = config_file(folder)
    if file is not None:
        return _read_config_json(file)
    raise InputError(
        _("the folder holds no config.json"),
        location=Location(source=str(folder)),
        hint=_("name the folder of a checkpoint, or give --model NAME or --model FILE (a config.json)"),
    )


def _read_config_json(file: Path) -> FoundConfig:
    # A checkpoint's own folder names it; a downloaded snapshot's folder is a hash.
    name = _cached_name(file.resolve()) or file.resolve().parent.name
    return FoundConfig(values=_load_json(file), name=name, source=str(file))


def _load_json(file: Path) -> dict[str, Any]:
    import json

    try:
        content = json.loads(read_bytes(file, most=_MOST_BYTES).decode("utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(
            _("not valid JSON: {msg}").format(msg=error.msg),
            location=Location(source=str(file), line=error.lineno, column=error.colno),
            hint=_("a model is read from the config.json of its checkpoint"),
        ) from None
    except (ValueError, RecursionError):  # no UTF-8, a number of thousands of digits, or brackets
        raise InputError(_("not a JSON text file"), location=Location(source=str(file))) from None
    if not isinstance(content, dict):
        raise InputError(
            _("expected a JSON object, found {name}").format(name=type(content).__name__),
            location=Location(source=str(file)),
        )
    return content


def _cached_name(path: Path) -> str | None:
    """The model's name if the path leads into a Hugging Face cache."""
    for part in path.parts:
        if part.startswith(_CACHE_PREFIX):
            return part.rpartition("--")[2]
    return None


def _bundled(path: str) -> FoundConfig:
    last_part = path.replace(os.sep, "/").rstrip("/").rpartition("/")[2]
    name = _cached_name(Path(path)) or last_part
    config = _find_in_profiles(name) or _contained(path)
    if config is not None:
        return config
    from tuner.models.unmodelled_names import generates_by_diffusion, unmodelled_type  # most names are found

    if generates_by_diffusion(path):
        raise UnsupportedError(
            _(
                "{path!r} is a model that generates images or video by diffusion, which is not modelled"
            ).format(path=path)
        )
    model_type = unmodelled_type(name)
    if model_type is not None and find_architecture(model_type).read is None:
        raise UnsupportedError(
            _("{path!r} is no folder here, and models of its type, {model_type!r}, are not modelled").format(
                path=path, model_type=model_type
            ),
            hint=trace_hint(model_type),
        )
    near = _near(name)
    suggestion = _("; near it: {near}").format(near=", ".join(near)) if near else ""
    raise InputError(
        _("no model {path!r}: there is no such folder here, and no bundled profile is named {name!r}").format(
            path=path, name=name
        )
        + suggestion,
        hint=_how_to_name_one(),
    )


@lru_cache(maxsize=256)  # many configurations are for the same few models
@lru_cache(maxsize=256)  # many configurations name the same few models
def _near(name: str) -> tuple[str, ...]:
    from difflib import get_close_matches

    listed = {known.lower(): known for known in model_names()}
    return tuple(listed[match] for match in get_close_matches(name.lower(), listed, n=3))


@lru_cache(maxsize=256)
def _find_in_profiles(name: str) -> FoundConfig | None:
    # Looking through the texts first leaves one file to parse instead of all.

    for file in _files(likely=name):
        if name.lower() in file.read_text(encoding="utf-8").lower():
            profile = read_profile(file)
            listed = profile.find(name)
            if listed is not None:
                return FoundConfig(values=profile.configs[listed], name=listed, source=profile.source)
    return None


def named_within(text: str) -> str | None:
    """The one bundled model whose name stands in a text, such as a run's; None where none or several do."""
    config = _contained(text)
    return None if config is None else config.name


@lru_cache(maxsize=256)
def _contained(path: str) -> FoundConfig | None:
    """The bundled model whose name a part of the path contains, where one alone fits."""
    from tuner.models.contained_names import find_contained

    profiles = _profiles()
    configs = {name: config for profile in profiles for name, config in profile.configs.items()}
    contained = find_contained(path, configs)
    if contained is None:
        return None
    source = next(profile.source for profile in profiles if contained.name in profile.configs)
    return FoundConfig(
        values=configs[contained.name], name=contained.name, source=source, contained_in=contained.part
    )


@cache
def _profiles() -> "tuple[ModelProfile, ...]":
    """All profiles; a search for what is near goes through them more than once."""
    return tuple(read_profile(file) for file in _files())


def _files(likely: str = "") -> Iterator[Path]:
    return shipped.profiles_of("models", likely=likely.lower())
