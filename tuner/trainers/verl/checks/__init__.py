"""Checks of raw verl settings: dead and renamed keys, what verl itself rejects, bugs of one release.

They stand in folders by topic: every module of a folder is one check, and a new one is found without
editing anything. The modules beside the folders are what checks share. A check of what verl's own fused heads
do says ``OF_VERLS_HEAD``: it is not asked where the workers replace them. A check that reads what a copy of
the trainer allows has ``check_of_copy`` beside ``check``, which is asked in its place for such a launch.
"""

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.findings import Finding, Rule, modules_in_folders
from tuner.inputs.settings import Settings
from tuner.trainers.verl.checks.guards import (
    as_of_copy,
    as_of_project,
    as_of_release,
    with_grounds,
    without_unread,
)
from tuner.trainers.verl.checks.keys import unknown_key
from tuner.trainers.verl.checks.settings import replaces_heads
from tuner.trainers.verl.checks.whatever_trains import speaks_whatever_trains
from tuner.trainers.verl.programs import Program, program_of
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULES: tuple[tuple[Rule, ModuleType], ...] = tuple(
    (module.RULE, module) for module in modules_in_folders(__path__, __name__)
)


_USUAL = (Program.PPO,)  # of a check that does not say in ``PROGRAMS`` whose settings it is for


def run(
    settings: Settings, workload: Workload, *, version: str, code: "TrainerCode | None" = None
) -> list[Finding]:
    """All findings on one configuration, by code, then in the order of the check.

    An unknown key that another finding explains is left to that finding, unless Hydra refuses it: then nothing
    starts, whatever else is known of the key.
    What the release refuses and a copy of the trainer was not found to is a warning.

    Args:
        settings: the resolved configuration.
        workload: the same configuration as read for the model.
        version: the bundled release whose behaviour counts.
        code: the copy of the trainer that the launch would run, where that is not the release itself.
    """
    generation = source_of(settings, version).version
    unchecked = () if settings.program is None else settings.program.unchecked
    other_head = replaces_heads(settings, generation)
    modelled = not workload.unmodelled_engine
    findings = [
        finding
        for rule, module in _rules_of(program_of(settings.defaults))
        if rule.name not in unchecked and not (other_head and getattr(module, "OF_VERLS_HEAD", False))
        if modelled or speaks_whatever_trains(module)
        for finding in _findings(module, settings, workload, generation, code)
    ]
    if code is not None and code.has_trainer:
        findings = [
            unknown_key.as_read_by(code, finding, program_of(settings.defaults))
            if finding.rule is unknown_key.RULE
            else finding
            for finding in without_unread(findings, settings, code)
        ]
    if settings.lacks is not None:
        findings = list(with_grounds(findings, settings.lacks))
    explained = {key for finding in findings if finding.rule is not unknown_key.RULE for key in finding.keys}
    return [
        _in_keys_of_program(finding, settings)
        for finding in findings
        if finding.rule is not unknown_key.RULE or finding.refuses or explained.isdisjoint(finding.keys)
    ]


def refusals_beside(
    rule: Rule, settings: Settings, workload: Workload, version: str, code: "TrainerCode | None"
) -> set[tuple[str, str]]:
    """What the checks of refusals, other than that of a rule, find in a job, by code and message.

    What does not stop it counts as well: a mini-batch that the ranks round down is another training.
    """
    return {
        (finding.rule.code, finding.message)
        for other, module in _rules_of(program_of(settings.defaults))
        if other is not rule
        for finding in _findings(module, settings, workload, version, code)
        if finding.rule.refuses
    }


def _findings(
    module: ModuleType, settings: Settings, workload: Workload, version: str, code: "TrainerCode | None"
) -> Iterator[Finding]:
    """What one check has to say."""
    if code is None:
        of_release = as_of_release(
            module.check(settings, workload, version), module, settings, workload, version
        )
        return as_of_project(of_release, module, settings, workload, version)
    of_copy = getattr(module, "check_of_copy", None)
    findings: Iterator[Finding] = (
        module.check(settings, workload, version)
        if of_copy is None
        else of_copy(settings, workload, version, code)
    )
    return as_of_copy(findings, module, settings, workload, version, code)


@cache
def _rules_of(program: Program) -> tuple[tuple[Rule, ModuleType], ...]:
    """The checks of the settings of one program."""
    return tuple((rule, module) for rule, module in RULES if program in getattr(module, "PROGRAMS", _USUAL))


def _in_keys_of_program(finding: Finding, settings: Settings) -> Finding:
    """The finding with its overrides as the user's program spells them; none where it lacks one of the keys."""
    overrides = [settings.as_reader_takes_it(override) for override in finding.overrides]
    known = tuple(override for override in overrides if override is not None)
    if known == finding.overrides:
        return finding
    return replace(finding, overrides=known if len(known) == len(overrides) else ())
