"""Checks of raw verl settings: dead and renamed keys, what verl itself rejects, bugs of one release."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from tuner.findings import Finding, Rule
from tuner.inputs.settings import Settings
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload


def _modules() -> Iterator[ModuleType]:
    """Every module of this package that does not start with an underscore is one check."""
    for found in sorted(iter_modules(__path__), key=lambda found: found.name):
        if not found.name.startswith("_"):
            yield import_module(f"{__name__}.{found.name}")


RULES: tuple[tuple[Rule, ModuleType], ...] = tuple(
    sorted(((module.RULE, module) for module in _modules()), key=lambda pair: pair[0].code)
)


def run(settings: Settings, workload: Workload, *, version: str) -> list[Finding]:
    """All findings on one configuration, by code, then in the order of the check.

    Args:
        settings: the resolved configuration.
        workload: the same configuration as read for the model.
        version: the bundled release whose behaviour counts.
    """
    generation = source_of(settings, version).version
    return [finding for _, module in RULES for finding in module.check(settings, workload, generation)]
