"""The first release of an engine, or of transformers, that knows a type of model.

Read by ``python -m tests.measure.known_models`` in the registries of their wheels: vLLM
``model_executor/models/registry.py``, SGLang ``srt/models/*.py`` (``EntryClass``), transformers
``models/auto/configuration_auto.py`` (``CONFIG_MAPPING_NAMES``). A type that none of them knows, or that the
oldest release that was read knows already, is not in the table.
"""

import json
import re
from functools import cache
from pathlib import Path

from msgspec import Struct, convert

from tuner.versions import numbers

FILE = Path(__file__).with_name("known_models.json")


class FirstRelease(Struct, frozen=True, array_like=True):
    """Two neighbours among the releases that were read."""

    last_without: str
    version: str  # the first that knows the type


@cache
def _table() -> dict[str, dict[str, FirstRelease]]:
    return convert(json.loads(FILE.read_text("utf-8")), dict[str, dict[str, FirstRelease]])


def first_release(package: str, architecture: str) -> str | None:
    """The first release that knows a type of model; None where every one does that is in use, or none.

    Args:
        package: ``vllm``, ``sglang`` or ``transformers``.
        architecture: the ``model_type`` of a model's ``config.json``.
    """
    found = _table().get(package, {}).get(architecture)
    return None if found is None else found.version


def lacks_model(package: str, version: str, architecture: str) -> bool:
    """Whether a release surely does not know a type of model: one that was read and is no older does not."""
    found = _table().get(package, {}).get(architecture)
    return found is not None and release_order(version) <= release_order(found.last_without)


def release_order(version: str) -> tuple[tuple[int, ...], int]:
    """By what releases are ordered: SGLang adds models in those behind a release as well (``.post2``)."""
    behind = re.search(r"post(\d+)", version)
    return numbers(version), int(behind[1]) if behind else 0
