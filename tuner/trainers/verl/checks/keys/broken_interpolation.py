"""An interpolation that has no value, where the program resolves all of them

What it checks
--------------
Every ``${key}`` of the configuration, the trainer's own and the launch's: whether it comes back to itself, or points at a key that is not there.
The program has to resolve the whole configuration, as ``main_ppo`` of every release does; in a copy of verl the code of the started program has to say so.

Why it matters
--------------
``OmegaConf.resolve`` stops at the first interpolation without a value, whether or not anything reads its key.
An author whose own launches all set such a key does not notice what the YAML has there.
The override is the release's own value, where each key that points there is a number in the release.

When it does not apply
----------------------
An interpolation that asks a resolver, such as ``oc.env`` or one that the program registers, or that points at one.
A name in capitals alone, which something may fill in before Hydra reads the file.
A key that a launch on a release takes away with ``~``.
A configuration of the user's own that rests on no other, and a project with keys of its own.

Sources
-------
OmegaConf 2.3 ``omegaconf.py`` (``resolve``), ``base.py`` (``InterpolationResolutionError``: recursive interpolation detected; ``InterpolationKeyError``).
verl 0.3.0.post1 ``trainer/main_ppo.py:83-84``, 0.5.0 lines 109-110, 0.9.1 lines 144-145.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.settings import Settings
from tuner.inputs.tree import Path, contains, dotted, lookup
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.inputs.broken_interpolations import BrokenInterpolation
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG208",
    name="broken-interpolation",
    summary=N_("an interpolation without a value, where all are resolved"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
    about_keys=True,
)

REFUSED_BY = RefusedBy.OMEGACONF

_PROGRAM = "main_ppo"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for each circle and each missing key; releases resolve all in their own program."""
    # A release's own all have values: only what the launch sets may point nowhere.
    sets = (lookup(settings.tree, path) for path in settings.origins if contains(settings.tree, path))
    if any(map(is_interpolation, sets)) and _file_of(settings.started) == f"{_PROGRAM}.py":
        yield from _findings(settings, str(workload.release), version)


def check_of_copy(
    settings: Settings, _workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """A finding for each of them where the program of a copy resolves all."""
    file = f"/{_file_of(settings.started)}"
    lines = code.lines(("OmegaConf", "resolve"), lacks=("to_container",), stops=False, file=file)
    if lines:
        yield from _findings(settings, str(lines[0]), version)


def _file_of(program: str) -> str:
    """The name of the file of a program, given as one or as a module."""
    return f"{(program or _PROGRAM).removesuffix('.py').replace('.', '/').rpartition('/')[2]}.py"


def _findings(settings: Settings, reader: str, version: str) -> Iterator[Finding]:
    if settings.composed is not None or settings.program is not None:
        return
    from tuner.inputs.broken_interpolations import broken_interpolations  # of few launches

    by_cause: dict[frozenset[Path], list[BrokenInterpolation]] = {}
    for broken in broken_interpolations(settings.tree):
        by_cause.setdefault(frozenset(broken.circle or (broken.target,)), []).append(broken)
    for same in by_cause.values():
        yield (
            _circle(settings, same[0], reader)
            if same[0].circle
            else _missing(settings, same, reader, version)
        )


def _circle(settings: Settings, broken: "BrokenInterpolation", reader: str) -> Finding:
    """The finding of an interpolation that comes back to itself."""
    message = _("{reader} resolves the whole configuration, and {circle} is a circle: the job stops there")
    message = message.format(reader=reader, circle=" -> ".join(map(dotted, broken.circle)))
    note = _("{key}=... gives it a value, which its author knows.").format(key=dotted(broken.target))
    keys = list(dict.fromkeys(map(dotted, broken.circle)))
    return report(RULE, settings, message, keys=keys, notes=[note])


def _missing(settings: Settings, same: "list[BrokenInterpolation]", reader: str, version: str) -> Finding:
    """The finding of all that point at one missing key; numbers get what the release has in their place."""
    key, target = dotted(same[0].path), dotted(same[0].target)
    message = _(
        "{reader} resolves the whole configuration, and {key} points at {target}, which does not exist: "
        "the job stops there"
    )
    message = message.format(reader=reader, key=key, target=target)
    numbers = _of_release([broken.path for broken in same], version)
    if numbers is None:
        note = _("+{key}=... gives it; its author knows the value.").format(key=target)
        return report(RULE, settings, message, keys=[key], notes=[note])
    note = _("The value is that of verl {version}; +{key}=... gives another, which its author knows.")
    return report(
        RULE,
        settings,
        message,
        keys=[key],
        overrides=[assign(settings, name, value) for name, value in numbers.items()],
        notes=[note.format(version=version, key=target)],
    )


def _of_release(paths: list[Path], version: str) -> dict[str, int | float] | None:
    """The numbers that a release has at all of these keys; None where it lacks one, or has no number there."""
    from tuner.trainers.verl.defaults import CONFIGS, read_defaults

    tree = read_defaults(version, CONFIGS[0]).tree
    values = {dotted(path): lookup(tree, path) if contains(tree, path) else None for path in paths}
    numbers = {
        key: it for key, it in values.items() if isinstance(it, int | float) and not isinstance(it, bool)
    }
    return numbers if numbers.keys() == values.keys() else None
