"""The YAML file from which a script itself takes settings of its launch, by a program that is not run."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tuner.inputs.user_input import MissingConfiguration, UnreadFile
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.script import Script
    from tuner.inputs.shell.values import Field


def missing_of(file: UnreadFile, deciding: Collection[str]) -> MissingConfiguration:
    """The file as what is missing of a launch.

    Args:
        file: that is not read.
        deciding: the keys that it tells and that decide figures.
    """
    reason = _(
        "the script takes {count} of its settings from {file}, which is not read: give key=value for "
        "those that are open"
    )
    return MissingConfiguration(
        name="",
        looked_in=(),
        reason=reason.format(count=len(deciding), file=file.name),
        location=file.location,
    )


def settings_file(script: "Script", open_arguments: Iterable[tuple[str, "Field"]]) -> UnreadFile | None:
    """The file that tells the open arguments of a launch; None where a script has no program read one.

    Args:
        script: that has the launch.
        open_arguments: those whose values are not known, with their keys.
    """
    evaluated = next((part for part in script.given_up if part.file), None)
    told: set[str] = set()
    printed = None
    for key, field in open_arguments:
        part = next((part for part in field.text.undecided_parts if part.file), None)
        named = any(unknown.name for unknown in field.text.unknowns)
        if key and (part is not None or (evaluated is not None and named)):
            told.add(key)
            printed = printed or part
    reading = evaluated or printed
    if reading is None or not told:
        return None
    return UnreadFile(name=reading.file, location=reading.location, settings=frozenset(told))
