"""transformers' own model of a configuration: no weights, no code of a checkpoint, no network."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tuner.errors import InputError, Location, TunerError, UnsupportedError
from tuner.language import _
from tuner.models import FoundConfig
from tuner.models.shape import extra

# What a configuration may hold beside the architecture: code and kernels to fetch, and number formats,
# which are the trainer's to choose.
_FOREIGN_KEYS = frozenset(
    {
        "_attn_implementation",
        "_experts_implementation",
        "_name_or_path",
        "attn_implementation",
        "auto_map",
        "dtype",
        "experts_implementation",
        "quantization_config",
        "torch_dtype",
        "transformers_version",
    }
)
# Their experts pick tokens by value, and fake tensors have no values.
_TOO_OLD = ("2", "3", "4")


def versions() -> tuple[str, str]:
    """The installed versions of torch and transformers, found without importing them.

    Raises:
        InputError: one of them is not installed or too old.
    """
    try:
        torch, transformers = version("torch"), version("transformers")
    except PackageNotFoundError as error:
        raise InputError(
            _("--trace cannot work, {error} is not installed").format(error=error.name), hint=extra()
        ) from None
    if transformers.partition(".")[0] in _TOO_OLD:
        raise InputError(
            _("--trace cannot work with transformers {transformers}").format(transformers=transformers),
            hint=extra(),
        )
    return torch, transformers


@contextmanager
def at_work(source: str) -> Iterator[None]:
    """Lets torch and transformers work silently and offline; what they refuse becomes one message."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    logged = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TunerError as error:
        error.location = error.location or Location(source=source)
        raise
    except ImportError as error:
        raise InputError(
            _("--trace cannot work: {first_line}").format(first_line=_first_line(error)), hint=extra()
        ) from None
    except Exception as error:  # whatever the code of a model raises on a configuration it does not expect
        raise UnsupportedError(
            _("transformers' implementation cannot be traced: {name}: {first_line}").format(
                name=type(error).__name__, first_line=_first_line(error)
            ),
            location=Location(source=source),
        ) from None
    finally:
        logging.disable(logged)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def model_config(config_json: FoundConfig) -> Any:
    """The configuration as an object of transformers' own class for its type.

    Raises:
        UnsupportedError: transformers has no such class; the code that a checkpoint brings is not run.
    """
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    model_type = config_json.values.get("model_type")
    if not isinstance(model_type, str) or model_type not in transformers.CONFIG_MAPPING:
        own = (
            _("; the code that its auto_map names is never executed")
            if "auto_map" in config_json.values
            else ""
        )
        raise UnsupportedError(
            _("transformers {version} does not implement models of type {model_type!r}{own}").format(
                version=transformers.__version__, model_type=model_type, own=own
            ),
            location=Location(source=config_json.source),
            key="model_type",
            hint=_("--trace needs a type that transformers implements itself"),
        )
    config = transformers.CONFIG_MAPPING[model_type].from_dict(_without_foreign_keys(config_json.values))
    if config.is_encoder_decoder:
        raise UnsupportedError(
            _("an encoder-decoder model is not modelled"), location=Location(source=config_json.source)
        )
    return config


def _without_foreign_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_foreign_keys(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if key not in _FOREIGN_KEYS
    }


def language_model(config: Any) -> Any:
    """The model with its head in bfloat16, on the current device; of a multimodal one all of it."""
    import torch
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    multimodal: Any = transformers.AutoModelForImageTextToText
    if config.get_text_config() is not config and type(config) in multimodal._model_mapping:
        auto = multimodal
    return auto.from_config(config, dtype=torch.bfloat16, attn_implementation="eager")
