"""A bundled model profile: the names that share one ``config.json``, and that configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from tuner import resources


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
