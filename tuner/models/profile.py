"""A bundled model profile: the names that share one ``config.json``, and that configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import resources
from tuner.model_shape import ModelShape
from tuner.models.architectures import shape_from_config


@dataclass(frozen=True, kw_only=True)
class ModelProfile:
    """One file of ``profiles/models``.

    In the file, ``names`` share ``config``, the keys of ``config.json`` that the dimensions
    depend on; each of the optional ``variants`` has further names and the keys that differ.
    """

    configs: Mapping[str, Mapping[str, Any]]  # by listed name
    source: str

    def find(self, name: str) -> ModelShape | None:
        """The dimensions of the model listed under a name in any case, None when it is not listed."""
        for listed, config in self.configs.items():
            if listed.lower() == name.lower():
                return shape_from_config(config, name=listed, source=self.source)
        return None


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
