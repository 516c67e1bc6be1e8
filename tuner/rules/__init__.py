"""Rules: one file each. A rule proposes a workload; it computes no saving and knows no trainer key.

They stand in folders by the letters of their codes: every module of a folder is a rule, and a new one
is found without editing anything. The modules beside the folders are what rules share.
"""

from functools import cache, lru_cache
from types import ModuleType

from tuner.findings import Finding, Goal, Rule, modules_in_folders
from tuner.language import chosen
from tuner.rules.case import Case
from tuner.workload import Workload

_OF_GENERATION = f"{__name__}.rollout."  # begins the names of the rules that speak of generating


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every rule module, by code. Each has ``RULE``, ``check`` and its page as docstring."""
    return modules_in_folders(__path__, __name__)


def run(case: Case) -> list[Finding]:
    """What all rules find in one case, by code."""
    return list(_findings(case, modules_for(case.workload), chosen()))


@cache
def _without_generation() -> tuple[ModuleType, ...]:
    return tuple(module for module in modules() if not module.__name__.startswith(_OF_GENERATION))


@cache
def _of_generation() -> tuple[ModuleType, ...]:
    return tuple(module for module in modules() if module.__name__.startswith(_OF_GENERATION))


@cache
def _refusing() -> tuple[ModuleType, ...]:
    """What says that a launch is refused: all other advice is priced with bytes and seconds of the trainer."""
    return tuple(module for module in modules() if module.RULE.refuses)


def modules_for(workload: Workload) -> tuple[ModuleType, ...]:
    """The rule modules that can speak of a job: one that no engine generates for has none to judge."""
    if workload.unmodelled_engine:
        refusing = _refusing()
        return refusing if workload.rollout is not None else ()
    if workload.validates_only:
        return _of_generation()
    served = workload.rollout is not None and not workload.rollout.is_trainer
    return modules() if served else _without_generation()


@lru_cache(maxsize=32)  # a block that is put together comes by the same job more than once
def _findings(case: Case, modules: tuple[ModuleType, ...], language: str) -> tuple[Finding, ...]:
    """The findings, whose texts are in the language that is chosen when they are made."""
    findings = (module.check(case) for module in modules)
    return tuple(finding for finding in findings if finding is not None)


def for_goal(case: Case, goal: Goal) -> list[Finding]:
    """What rules that serve one goal find in a case, by code."""
    findings = (module.check(case) for module in modules_for(case.workload) if module.RULE.goal is goal)
    return [finding for finding in findings if finding is not None]


def of_generation(case: Case) -> list[Finding]:
    """What the rules that speak of generating find in one case, by code; nothing of a job that does not."""
    asked_of = (module for module in modules_for(case.workload) if module.__name__.startswith(_OF_GENERATION))
    findings = (module.check(case) for module in asked_of if case.workload.rollout is not None)
    return [finding for finding in findings if finding is not None]


def finding_of(case: Case, rule: Rule) -> Finding | None:
    """What one rule finds in a case; None of one that is no rule, but a check of a trainer."""
    module = next((module for module in modules_for(case.workload) if module.RULE.code == rule.code), None)
    return None if module is None else module.check(case)


def refusals(case: Case) -> list[Finding]:
    """What rules say of the job that its trainer or engine refuses, by code."""
    findings = (module.check(case) for module in modules_for(case.workload) if module.RULE.refuses)
    return [finding for finding in findings if finding is not None and finding.refuses]
