"""All rules and checks there are: of the models, of the trainer, and of what the command line adds."""

from functools import cache
from types import ModuleType

from tuner import rules
from tuner.consultation import validation_rounds
from tuner.findings import Rule
from tuner.render import does_not_fit, lost_override, missing_configuration, not_modelled
from tuner.review import budget
from tuner.review.project.selection import KnownRules
from tuner.review.suppression import unused
from tuner.trainers.protocol import Trainer
from tuner.trainers.registry import DEFAULT, trainers

_OWN = (does_not_fit, not_modelled, lost_override, missing_configuration, unused, budget, validation_rounds)


def rules_and_modules() -> tuple[tuple[Rule, ModuleType], ...]:
    """Every rule with the module whose docstring is its page, by code."""
    own = ((module.RULE, module) for module in (*_OWN, *rules.modules()))
    of_trainers = (pair for trainer in trainers() for pair in trainer.rules)
    return tuple(sorted((*own, *of_trainers), key=lambda pair: str(pair[0].code)))


def trainer_of_rule(rule: Rule) -> Trainer:
    """The trainer in whose keys the examples of a rule are written: verl where the rule is of the models."""
    checking = (trainer for trainer in trainers() if any(own is rule for own, _module in trainer.rules))
    return next(checking, DEFAULT)


@cache
def known_rules() -> KnownRules:
    """Every rule, by code and name."""
    return KnownRules(tuple(rule for rule, _module in rules_and_modules()))
