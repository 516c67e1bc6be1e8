"""What a script decides by something that is not run, said of one of its launches."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tuner.errors import cut
from tuner.inputs.alternative_launches import forced, remark
from tuner.inputs.secrets import without_secrets
from tuner.inputs.shell.loops import MOST_ROUNDS
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart
from tuner.inputs.user_input import AlternativeLaunch, Remark
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.script import Script
    from tuner.inputs.shell.launches import Launch
    from tuner.inputs.shell.values import Field

_CHARACTERS = 100  # of a command
_NAMED = 3  # settings that one command decides


def not_followed(
    script: "Script",
    launch: "Launch",
    open_arguments: Iterable[tuple[str, "Field"]],
    alternatives: Iterable[AlternativeLaunch] = (),
) -> tuple[Remark, ...]:
    """What of the reading of a launch rests on commands that are not run, each command once.

    Args:
        script: that has the launch.
        launch: the one that is read.
        open_arguments: those whose values are not known, with their keys.
        alternatives: other jobs that the script would start if a test ended otherwise.
    """
    decided: dict[UndecidedPart, list[str]] = {}
    for key, field in open_arguments:
        for cause in field.text.undecided_parts:
            decided.setdefault(cause, []).append(key or _("further arguments"))
    for cause in launch.doubts:
        decided.setdefault(cause, []).append(_("whether the trainer is started here"))
    remarks = [*map(_alone, script.given_up), *(_decision_remark(*item) for item in decided.items())]
    remarks += [*map(forced, script.forced), *map(remark, alternatives)]
    return tuple(dict.fromkeys(sorted(remarks, key=lambda entry: entry.location.line or 0)))


def named(causes: Iterable[UndecidedPart]) -> str:
    """Commands that are not run, with their places."""
    return _(", ").join(
        dict.fromkeys(
            _("{command} ({place})").format(command=_shown(cause), place=cause.location) for cause in causes
        )
    )


def _alone(cause: UndecidedPart) -> Remark:
    """What is said of a part of the script whatever rests on it."""
    if cause.kind is UndecidedKind.LOOP:
        text = _("{loop} has no end that can be seen: it is followed for {rounds:,} rounds").format(
            loop=_shown(cause), rounds=MOST_ROUNDS
        )
    else:
        text = _("{command} is not run: what it sets is not known").format(command=_shown(cause))
    return Remark(text=text, location=cause.location)


def _decision_remark(cause: UndecidedPart, decided: list[str]) -> Remark:
    text = _("{command} is not run: what it prints decides {settings}")
    if cause.kind is UndecidedKind.STATUS:
        text = _("{command} is not run: whether it succeeds decides {settings}")
    if cause.kind is UndecidedKind.TEST:
        text = _("whether {command} is not known: it decides {settings}")
    settings = _(", ").join(_few(list(dict.fromkeys(decided))))
    return Remark(text=text.format(command=_shown(cause), settings=settings), location=cause.location)


def _few(settings: list[str]) -> Iterator[str]:
    yield from settings[:_NAMED]
    if len(settings) > _NAMED:
        yield _("{count} more").format(count=len(settings) - _NAMED)


def _shown(cause: UndecidedPart) -> str:
    return cut(without_secrets(cause.text), _CHARACTERS)
