"""Which launch of a script is meant: what tells them apart, and which is judged where nobody says."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.errors import InputError, Location, cut
from tuner.inputs.secrets import taken_override, without_secrets
from tuner.inputs.user_input import Remark
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.shell.launches import Launch

_LISTED = 10  # launches in one message
_WORDS = 2  # of a launch that others lack, in one message
_FINE_TUNES = re.compile(r"(?<![a-z])(?:sft|fine_?tun\w*)(?![a-z])")
_ONLY_GENERATES = re.compile(r"(?<![a-z])(?:generation|generate|eval|evaluate|evaluation|infer)(?![a-z])")


def several_launches(launches: Sequence["Launch"], place: Location) -> InputError:
    """The error about a script of which nobody says what launch is meant."""
    count = _("the script has {count} launches").format(count=len(launches))
    return InputError(count, location=place, hint=_listed(launches))


def main_launch(launches: Sequence["Launch"]) -> "Launch | None":
    """The one that the others lead to or look at, by the programs' names; None where several may be.

    Sequences are generated and a model is fine-tuned before it learns by reinforcement, and it is
    evaluated afterwards.
    """
    last = max(map(_weight, launches))
    main = [launch for launch in launches if _weight(launch) == last]
    return main[0] if len(main) == 1 and last else None


def other_launches(launches: Sequence["Launch"], chosen: int) -> Remark:
    """What is said of the launches of a script beside the one that is judged."""
    text = _("{count} launches: {launches}; judged is launch {number}, another one with --launch").format(
        count=len(launches), launches=_listed(launches), number=chosen
    )
    return Remark(text=text, location=launches[chosen - 1].location)


def fine_tunes(launch: "Launch") -> bool:
    """Whether a program's name says that it learns from given sequences."""
    return _FINE_TUNES.search(_program_name(launch)) is not None


def _weight(launch: "Launch") -> int:
    """How near a program is to the end that a script is written for."""
    if _ONLY_GENERATES.search(_program_name(launch)):
        return 0
    return 1 if fine_tunes(launch) else 2


def _program_name(launch: "Launch") -> str:
    return launch.program.removesuffix(".py").replace("/", ".").rpartition(".")[2].lower()


def _listed(launches: Sequence["Launch"]) -> str:
    return _("; ").join(
        _line(number, launch, launches) for number, launch in enumerate(launches[:_LISTED], start=1)
    )


def _line(number: int, launch: "Launch", launches: Sequence["Launch"]) -> str:
    """One launch: where it stands, and its own words where a function or a loop starts others there too."""
    line = _("--launch {number}: {program}, line {line}").format(
        number=number, program=launch.program, line=launch.location.line
    )
    if len({one.location.source for one in launches}) > 1:  # a script that starts others
        line = _("--launch {number}: {program} ({place})").format(
            number=number, program=launch.program, place=launch.location
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
