"""Checks of raw settings of NeMo-RL: what it refuses when it starts, and keys that do not do what they say.

Every module of a folder is one check, and a new one is found without editing anything.
"""

from types import ModuleType

from tuner.findings import Finding, Rule, modules_in_folders
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Workload

RULES: tuple[tuple[Rule, ModuleType], ...] = tuple(
    (module.RULE, module) for module in modules_in_folders(__path__, __name__)
)


def run(source: SettingsByMeaning, workload: Workload) -> list[Finding]:
    """All findings on one configuration, by code."""
    return [finding for _rule, module in RULES for finding in module.check(source, workload)]
