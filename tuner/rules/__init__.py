"""Rules: one file each. A rule proposes a workload; it computes no saving and knows no trainer key.

Every module of this package that has a ``RULE`` is a rule; modules that begin with an underscore,
and :mod:`tuner.rules.case`, are what rules share. A new file is found without editing anything.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from tuner.findings import Finding
from tuner.rules.case import Case


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every rule module, by code. Each has ``RULE``, ``check`` and its page as docstring."""
    names = [module.name for module in iter_modules(__path__)]
    found = [
        import_module(f"{__name__}.{name}") for name in names if name != "case" and not name.startswith("_")
    ]
    return tuple(sorted(found, key=lambda module: str(module.RULE.code)))


def run(case: Case) -> list[Finding]:
    """What all rules find in one case, by code."""
    findings = (module.check(case) for module in modules())
    return [finding for finding in findings if finding is not None]
