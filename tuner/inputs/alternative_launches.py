"""What a launch would be if the script went another way, by a test that nobody knows."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.errors import cut
from tuner.inputs.execution_paths import same_job, settings
from tuner.inputs.overrides import COMMAND_LINE, CONFIG_OPTIONS, Argument
from tuner.inputs.secrets import taken_override, without_secrets
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart
from tuner.inputs.user_input import AlternativeLaunch, Count, Processes, Remark, UserInput
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.script import Script
    from tuner.inputs.shell.launches import Launch

_CHARACTERS = 100  # of a test
_NAMED = 3  # settings of one way
_PROGRAM = ""  # the key of what is started
_PROCESSES = "--nproc_per_node"
_UNKNOWN_VALUE = re.compile(r"[\d._eE+-]*\$[A-Za-z_]\w*[\d._eE+-]*")  # a variable, beside digits at most


def alternative_launches(script: "Script", launch: "Launch") -> Iterator[AlternativeLaunch]:
    """Each other way that leads to another job than a launch is, in the order of the script."""
    besides = {one.location for one in script.launches if one.on_default_path}
    for way in script.paths:
        other = _same_place(launch, way.launches)
        if other is None or same_job(launch, other):
            continue
        if other.location != launch.location and other.location in besides:
            continue  # it is started on the way that is read as well, and is no other job in its place
        here, there = settings(launch), settings(other)
        changed = [key for key in dict.fromkeys((*there, *here)) if here.get(key) != there.get(key)]
        yield AlternativeLaunch(
            test=cut(without_secrets(way.test.text), _CHARACTERS),
            is_program=way.test.kind is UndecidedKind.STATUS,
            name=way.test.name,
            location=way.test.location,
            holds=way.holds,
            program=other.program,
            arguments=tuple(
                Argument(text=taken_override(str(argument.text)), location=argument.location)
                for argument in other.arguments
            ),
            changes=tuple((key, _override_value(here, key), _override_value(there, key)) for key in changed),
        )


def alternative_input(given: UserInput, way: AlternativeLaunch) -> tuple[UserInput, frozenset[str]]:
    """The launch on another way as an input of its own, and the keys whose values nobody knows there."""
    known: list[Argument] = []
    unknown: set[str] = set()
    before = ""
    for argument in way.arguments:
        key, _equals, value = argument.text.partition("=")
        if before not in CONFIG_OPTIONS and _UNKNOWN_VALUE.fullmatch(value or key):
            unknown.add(key.lstrip("+") if value else "")
        else:
            known.append(argument)
        before = argument.text
    passed = {argument.text for argument in known}
    typed = [
        argument
        for argument in given.arguments
        if argument.location.source == COMMAND_LINE and argument.text not in passed
    ]
    other = replace(
        given,
        arguments=(*known, *typed),
        program=way.program,
        processes=_processes(given.processes, way),
        unsettled=(),
        alternatives=(),
        remarks=(),
        not_followed=(),
    )
    return other, frozenset(unknown)


def _processes(here: Processes | None, way: AlternativeLaunch) -> Processes | None:
    """The processes of a way: as many as on the way that is read, where the two do not differ in them."""
    for key, _here, count in way.changes:
        if key == _PROCESSES:
            number = (
                None
                if count is None
                else Count(value=int(count), text=f"torchrun {_PROCESSES}={count}", location=way.location)
            )
            return replace(here or Processes(), per_node=number, open_per_node=None)
    return here


def _same_place(launch: "Launch", others: tuple["Launch", ...]) -> "Launch | None":
    """The launch of another way that takes the place of one: at its line, or the only one that there is."""
    at_place = [other for other in others if other.location == launch.location]
    return next(iter(at_place or (others if len(others) == 1 else ())), None)


def _override_value(values: dict[str, str], key: str) -> str | None:
    value = values.get(key)
    return None if value is None else taken_override(f"{key}={value}").removeprefix(f"{key}=")


def remark(way: AlternativeLaunch) -> Remark:
    """A way in a sentence: what decides, what is read, and what the other way means."""
    if way.is_program:
        form = _("{test} is not run, and taken to fail: {here}; if it succeeds: {there}")
        if not way.holds:
            form = _("{test} is not run, and taken to succeed: {here}; if it fails: {there}")
    else:
        form = _("whether {test} is not known, and read as if not: {here}; if so: {there}")
        if not way.holds:
            form = _("whether {test} is not known, and read as if so: {here}; if not: {there}")
    text = form.format(
        test=way.test,
        here=_listed([(key, here) for key, here, _there in way.changes]),
        there=_listed([(key, there) for key, _here, there in way.changes]),
    )
    if way.name:
        text = _("{remark}; {name}=VALUE behind the script settles it").format(remark=text, name=way.name)
    return Remark(text=text, location=way.location)


def forced(test: UndecidedPart) -> Remark:
    """A test that is taken to end as it has to for the job to start."""
    form = _("the trainer starts only if {test}, which is taken to be so")
    if test.if_empty:
        form = _("the trainer starts only if not {test}, which is taken to be so")
    if test.kind is UndecidedKind.STATUS:
        form = _("{test} is not run: whether it succeeds decides whether the trainer is started here")
    return Remark(text=form.format(test=cut(without_secrets(test.text), _CHARACTERS)), location=test.location)


def _listed(values: list[tuple[str, str | None]]) -> str:
    named = [_setting_text(key, value) for key, value in values[:_NAMED]]
    if len(values) > _NAMED:
        named.append(_("{count} more").format(count=len(values) - _NAMED))
    return _(", ").join(named)


def _setting_text(key: str, value: str | None) -> str:
    if key == _PROGRAM:
        return value or ""
    return _("no {key}").format(key=key) if value is None else cut(f"{key}={value}", _CHARACTERS)
