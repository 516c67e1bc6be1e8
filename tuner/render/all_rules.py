"""All rules and checks there are: of the models, of the trainer, and of what the command line adds."""

from functools import cache
from types import ModuleType

from tuner import rules
from tuner.findings import Rule
from tuner.render import does_not_fit, lost_override, not_modelled
from tuner.review import budget
from tuner.review.project.selection import KnownRules
from tuner.review.suppression import unused
from tuner.trainers.chosen import TRAINER

_OWN = (does_not_fit, not_modelled, lost_override, unused, budget)


def rules_and_modules() -> tuple[tuple[Rule, ModuleType], ...]:
    """Every rule with the module whose docstring is its page, by code."""
    own = ((module.RULE, module) for module in (*_OWN, *rules.modules()))
    return tuple(sorted((*own, *TRAINER.rules), key=lambda pair: str(pair[0].code)))


@cache
def known_rules() -> KnownRules:
    """Every rule, by code and name."""
    return KnownRules(tuple(rule for rule, _module in rules_and_modules()))
