"""A key that this release does not have

What it checks
--------------
Keys of a file or override that the release does not have, neither in its YAML nor in its dataclasses.
The message names the nearest key that it does have, and the override moves the value there.

Why it matters
--------------
A misspelled key changes nothing: the setting that was meant keeps its default.
In a file, or with ``+``, Hydra accepts it.
From 0.6.0 on a worker makes dataclasses of ``rollout``, ``actor`` and ``model`` below ``actor_rollout_ref``, and of sections in them: it stops on a key that is no field, whatever it resembles.
Hydra refuses to start on an override without ``+`` for such a key, and on one that deletes it, which is an error.
Nothing added to the command line fixes that: the override itself has to change.
Where the code of a copy of verl reads the key all the same, it needs a ``+`` and is not to be taken away.

When it does not apply
----------------------
A key that was added with ``+``, resembles no known key and stands in no such section is taken for a setting of the user's own code.
A misspelled key of a file whose right spelling the launch gives as an override, which would win anyway.
A key that no release has, nor one like it, in a script where nothing names the release: it may be a fork's.
It is advice then, and Hydra is not said to refuse it.
A field that the classes of a copy of verl have and its YAML leaves out.
A key that a patch of the project adds to verl's YAML, where a README, an image or an install script says to apply it.
A key that another finding explains, such as one that was renamed, is left to that finding.
The nearest key is a guess by its spelling, so the override is yours to judge.

Sources
-------
The composed configurations of the released packages, which tuner bundles.
Hydra 1.3 ``_internal/config_loader_impl.py``, ``_apply_overrides_to_config``.
verl 0.6.0 ``utils/config.py:23-61, 151``, ``workers/fsdp_workers.py:568-569, 791``; 0.9.1 ``workers/engine_workers.py:540, 593, 651``.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Layer, Settings, UnknownKey
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.instantiated import NoField, no_fields
from tuner.trainers.verl.programs import Program
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG001",
    name="unknown-key",
    summary=N_("a key that this release does not have"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
    about_keys=True,
)

REFUSED_BY = RefusedBy.HYDRA

_PLAIN = re.compile(r"[\w./:-]+")  # a value that Hydra takes without quotes
_DELETABLE = re.compile(r"[\w.-]+")  # a key that Hydra takes behind '~'

_FINE_TUNING = ("sft_trainer",)  # in the paths of the programs that fine-tune
_WORDS = 2  # of a key stand in the statement that reads it

PROGRAMS = tuple(Program)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per unknown key."""
    yield from _findings(settings, workload, None)


def check_of_copy(
    settings: Settings, workload: Workload, _version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """One finding per unknown key, by the fields that the classes of a copy of verl have."""
    yield from _findings(settings, workload, code)


def _findings(settings: Settings, workload: Workload, code: "TrainerCode | None") -> Iterator[Finding]:
    raising = {one.key: one for one in no_fields(settings, workload.release.version, code)}
    for unknown in settings.unknown:
        raises = raising.pop(unknown.key, None)
        if raises is None and _is_overruled(unknown, settings):
            continue
        if raises is None and code is not None and _is_read(unknown, settings, code):
            continue
        yield _finding(settings, workload, unknown, None if unknown.refused else raises)
    for raises in raising.values():
        origin = settings.origins[raises.path]
        if origin.location is not None:
            alone = UnknownKey(key=raises.key, nearest=None, location=origin.location)
            yield _finding(settings, workload, alone, raises)


def _is_overruled(unknown: UnknownKey, settings: Settings) -> bool:
    """Whether an override gives the key that a file misspells: spelled right it would decide nothing either."""
    nearest = settings.origin(unknown.nearest or "")
    origin = settings.origin(unknown.key)
    if nearest is None or origin is None or unknown.refused:
        return False
    return origin.layer is Layer.FILE and nearest.layer is Layer.OVERRIDE


def _is_read(unknown: UnknownKey, settings: Settings, code: "TrainerCode") -> bool:
    """Whether Hydra takes a key, as that of a file, and code of the copy reads its last word, which none else has.

    Nothing is unknown about it then, and the nearest known key is another one.
    """
    last = unknown.key.rpartition(".")[2]
    if unknown.refused or any(key.rpartition(".")[2] == last for key in settings.released):
        return False
    return code.names_key(last) and code.line_that_reads((last,)) is not None


def _finding(settings: Settings, workload: Workload, unknown: UnknownKey, raises: NoField | None) -> Finding:
    message = _message(unknown, settings, workload)
    if raises is not None:
        message = _("{message}: {name} has no such field, and the worker stops when it makes one").format(
            message=message, name=raises.name
        )
    finding = report(
        RULE,
        settings,
        message,
        keys=[unknown.key],
        overrides=() if unknown.refused else _moved(settings, unknown) or _removed(unknown, raises),
        severity=_severity(settings, unknown, raises),
        notes=_notes(unknown, workload),
    )
    value = settings.get(unknown.key)
    return replace(
        finding,
        location=unknown.location,
        set_aside=unknown.refused,
        hides_value=bool(finding.overrides) and settings.shown(unknown.key, value) != value,
    )


def _severity(settings: Settings, unknown: UnknownKey, raises: NoField | None) -> Severity:
    """How sure it is that the key is wrong: one that Hydra may refuse, or a fork have, is no more than told."""
    if unknown.refused or raises is not None:
        return Severity.ERROR
    return Severity.ADVICE if _is_of_others(settings, unknown) else RULE.severity


def _is_of_others(settings: Settings, unknown: UnknownKey) -> bool:
    """Whether a key that Hydra would refuse in a release is taken for that of a fork, whose code is not here."""
    origin = settings.origin(unknown.key)
    others = unknown.nearest is None and not unknown.known_in and not unknown.refused and not unknown.reader
    return others and origin is not None and origin.layer is Layer.OVERRIDE


def as_read_by(code: "TrainerCode", finding: Finding, program: Program) -> Finding:
    """The finding on a key that Hydra refuses, with the line of a copy of the trainer that reads it.

    The line has the last words of the key, of which one alone may be that of another section; or the last one
    and a name of the section, such as ``env_config`` of ``env``, with no word for the sections between.
    """
    if not finding.set_aside:
        return finding
    key = finding.keys[0]
    section, *_between, last = key.split(".") if "." in key else ("", key)
    others = () if program.fine_tunes else _FINE_TUNING  # whose trainer is another program
    line = code.line_that_reads(key.split(".")[-_WORDS:], others)
    if line is None and section and not _between:
        names = (f"{section}_config", f"config_{section}")
        lines = (code.line_of_name(name, (last,), "", outside=others) for name in names)
        line = next((one for one in lines if one is not None), None)
    if line is None:
        return finding
    note = _("{line} reads {key}: +{key}=... gives it.").format(line=line, key=key)
    return replace(finding, read_at=str(line), notes=(*finding.notes, note))


def _message(unknown: UnknownKey, settings: Settings, workload: Workload) -> str:
    if unknown.refused:
        message = _("{release} does not have the key {key}, and Hydra refuses to start")
    else:
        message = _("{release} does not have the key {key}")
    message = message.format(release=unknown.reader or workload.release, key=unknown.key)
    if _is_of_others(settings, unknown):
        return _("{message}, nor does any other: a fork or a patch that is not here may").format(
            message=message
        )
    if unknown.nearest is None:
        return message
    if unknown.nearest == f"+{unknown.key}":
        longer = _("{message}; Hydra takes it as {nearest}=...")
    else:
        longer = _("{message}; the nearest known key is {nearest}")
    return longer.format(message=message, nearest=unknown.nearest)


def _notes(unknown: UnknownKey, workload: Workload) -> Iterator[str]:
    if unknown.known_in:
        *others, last = unknown.known_in
        have = _("{trainer} {others} and {last} have it") if others else _("{trainer} {last} has it")
        yield have.format(trainer=workload.release.trainer, others=", ".join(others), last=last)


def _moved(settings: Settings, unknown: UnknownKey) -> tuple[str, ...]:
    """Overrides that give the value to the nearest key and take the unknown one away; none where in doubt."""
    if unknown.nearest is None or unknown.known_in or not _DELETABLE.fullmatch(unknown.key):
        return ()
    nearest, value = unknown.nearest.removeprefix("+"), settings.get(unknown.key)
    if nearest == unknown.key or not _suits(value, settings.get(nearest)):
        return ()
    removed = f"~{unknown.key}"
    return (removed,) if settings.is_set(nearest) else (assign(settings, nearest, value), removed)


def _removed(unknown: UnknownKey, raises: NoField | None) -> tuple[str, ...]:
    """The override that takes away a key with which nothing starts and which no code reads."""
    gone = raises is not None and _DELETABLE.fullmatch(unknown.key)
    return (f"~{unknown.key}",) if gone else ()


def _suits(value: object, known: object) -> bool:
    """Whether a value can stand where a known one stands, and can be spelled without quotes."""
    if value is None or isinstance(value, dict | list) or not _PLAIN.fullmatch(str(value)):
        return False
    kinds = (bool, str)  # the others are numbers
    return known is None or all(isinstance(value, kind) == isinstance(known, kind) for kind in kinds)
