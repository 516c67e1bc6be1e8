"""What rules and checks say. They state a reason; the model prices it, and only ``render`` words it."""

import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from tuner.enumeration import Enum
from tuner.errors import Location
from tuner.evidence import ChangedCode, Evidence
from tuner.language import N_
from tuner.workload import Phase, Workload


class Severity(Enum):
    """How bad it is to leave things as they are, worst first."""

    ERROR = N_("error")  # the job will fail, or a setting is silently not what it says
    WARNING = N_("warning")  # likely to run out of memory, or deprecated
    ADVICE = N_("advice")  # the job runs; it could be faster or smaller


class Goal(Enum):
    """What a rule wants to improve; its price is judged by this."""

    MEMORY = N_("memory")
    TIME = N_("time")
    CORRECTNESS = N_("correctness")


class Numerics(Enum):
    """What following the advice does to the numbers of the training run."""

    EXACT = "exact"  # the same bits, or the same up to the order of independent samples
    REORDERED = "reordered"  # the same mathematics in another order of summation
    REWEIGHTED = "reweighted"  # tokens weigh otherwise in a loss that micro-batches average
    CHANGED = "changed"  # another computation; results differ beyond rounding


class Rule(Struct, frozen=True, kw_only=True):
    """The identity of a rule or check. ``code`` and ``name`` are never reused."""

    code: str
    name: str
    summary: str
    severity: Severity
    goal: Goal
    numerics: Numerics
    since: str = "0.1.0"
    refuses: bool = False  # an error of this rule ends the launch before its first step is through
    yours: bool = False  # following it changes the training: listed apart, never part of what is to be pasted
    package: str = ""  # that following it needs where the job runs, and that the trainer does not depend on
    unread: bool = False  # speaks of keys that do nothing: where nothing is wrong, one line names them all
    fine_print: bool = (
        False  # a warning of it is of the size of gradients or of rounding: what is trained is what was asked
    )
    first: bool = False  # a warning of it says that answers or rewards are others: before what a step costs
    about_keys: bool = (
        False  # rests on which keys a release has, of which those that are not bundled have others
    )

    def __reduce__(self) -> tuple[Any, ...]:
        """From another process comes the same rule, of which one is kept, however many findings name it."""
        return _rule, astuple(self)


@cache
def _rule(*values: Any) -> Rule:
    return Rule(**dict(zip(Rule.__struct_fields__, values, strict=True)))


class Finding(Struct, frozen=True, kw_only=True):
    """One rule that applies to one configuration.

    A rule of ``tuner.rules`` sets ``proposal``, the workload it would rather see. A check of a
    trainer sees raw settings instead and may set ``keys`` and ``overrides`` itself.
    """

    rule: Rule
    message: str  # one sentence with the numbers that led to it
    severity: Severity
    evidence: Evidence
    phase: Phase | None = None
    proposal: Workload | None = None
    keys: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    location: Location | None = None
    notes: tuple[str, ...] = ()  # caveats, one sentence each
    set_aside: bool = False  # the configuration is read as if its cause were not there
    read_at: str = ""  # the line of the trainer's copy that reads what is set aside
    hides_value: bool = False  # its overrides move a value that may be a secret
    not_in_copy: bool = False  # what it rests on does not stand in the copy of the trainer that runs
    only_in: str = ""  # the releases in which it holds, where the guessed one may be another
    effect: Numerics | None = None  # on the training, where it is another than the rule's own
    grounds: ChangedCode | None = (
        None  # where the trainer's copy does otherwise in what its overrides rest on
    )

    @property
    def code(self) -> str:
        """The rule's code, such as ``ROL013``."""
        return self.rule.code

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name

    @property
    def numerics(self) -> Numerics:
        """What following it does to the training, by itself."""
        return self.effect or self.rule.numerics

    @property
    def refuses(self) -> bool:
        """Whether the trainer or its engine refuses the launch for this reason, whatever memory there is.

        Maybe in some of the releases alone that it may be of: these are ``only_in``.
        """
        return self.rule.refuses and (self.severity is Severity.ERROR or bool(self.only_in))


class NotStanding(ValueError):  # noqa: N818 - the name says what the proposal is
    """A proposal rests on code that the launch does not run.

    Args:
        key: that it would set.
        grounds: where the code that runs does otherwise.
    """

    def __init__(self, key: str, grounds: ChangedCode) -> None:
        super().__init__(key, grounds)
        self.key, self.grounds = key, grounds


class Written(Struct, frozen=True, kw_only=True):
    """A proposal as a trainer's overrides, and the workload that its release reads from them."""

    overrides: tuple[str, ...]
    workload: Workload


def modules_in_folders(paths: Iterable[str], package: str) -> tuple[ModuleType, ...]:
    """The modules in the folders of a package of rules or checks, by the codes of their ``RULE``.

    Args:
        paths: the package's ``__path__``.
        package: its name; modules that stand in it directly are not taken.
    """
    names = [
        f"{package}.{folder.name}.{file.name.removesuffix('.py')}"
        for path in paths
        for folder in os.scandir(path)
        if folder.is_dir()
        for file in os.scandir(folder)
        if file.name.endswith(".py") and file.name != "__init__.py"
    ]
    return tuple(sorted(map(import_module, names), key=lambda module: str(module.RULE.code)))
