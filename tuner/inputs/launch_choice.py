"""The question which launch of a script is meant, with what tells them apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.errors import InputError, Location, cut
from tuner.inputs.secrets import taken_override, without_secrets
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.shell.launches import Launch

_LISTED = 10  # launches in one message
_WORDS = 2  # of a launch that others lack, in one message


def several_launches(launches: Sequence["Launch"], place: Location) -> InputError:
    """The error about a script of which nobody says what launch is meant."""
    listed = _("; ").join(
        _line(number, launch, launches) for number, launch in enumerate(launches[:_LISTED], start=1)
    )
    return InputError(
        _("the script has {count} launches").format(count=len(launches)), location=place, hint=listed
    )


def _line(number: int, launch: "Launch", launches: Sequence["Launch"]) -> str:
    """One launch: where it stands, and its own words where a function or a loop starts others there too."""
    line = _("--launch {number}: {program}, line {line}").format(
        number=number, program=launch.program, line=launch.location.line
    )
    there = [other for other in launches if _stand(other) == _stand(launch)]
    own = [word for word in _words(launch) if not all(word in _words(other) for other in there)]
    if not own:
        return line
    words = " ".join(cut(without_secrets(taken_override(word))) for word in own[:_WORDS])
    return _("{line} ({words})").format(line=line, words=words)


def _stand(launch: "Launch") -> tuple[str, Location]:
    return launch.program, launch.location


def _words(launch: "Launch") -> list[str]:
    return [str(argument.text) for argument in launch.arguments]
