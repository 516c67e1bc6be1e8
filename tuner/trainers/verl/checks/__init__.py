"""Checks of raw verl settings: dead and renamed keys, what verl itself rejects, bugs of one release.

They stand in folders by topic: every module of a folder is one check, and a new one is found without
editing anything. The modules beside the folders are what checks share.
"""

from types import ModuleType

from tuner.findings import Finding, Rule, modules_in_folders
from tuner.inputs.settings import Settings
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

RULES: tuple[tuple[Rule, ModuleType], ...] = tuple(
    (module.RULE, module) for module in modules_in_folders(__path__, __name__)
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
