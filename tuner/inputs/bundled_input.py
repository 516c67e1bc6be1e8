"""A bundle as what a person gives: its settings, with what was measured of the run beside them."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from tuner.errors import InputError, Location, cut
from tuner.inputs.launch_input import pasted
from tuner.inputs.log.metrics import StepMetrics
from tuner.inputs.log.run_log import RunLog
from tuner.inputs.record.bundle import read_bundle
from tuner.inputs.record.form import Line
from tuner.inputs.record.read import record_of_lines
from tuner.inputs.user_input import UserInput
from tuner.language import _


def bundled_input(file: Path, words: tuple[str, ...] = ()) -> UserInput:
    """A bundle as what a person gives: its settings, with what was measured beside them.

    Raises:
        InputError: it cannot be read, or a line of its record is none.
    """
    bundle = read_bundle(file)
    program = ["python3", "-m", bundle.program] if bundle.program else []
    typed = [*program, *bundle.overrides, *words]
    if not typed:
        raise InputError(_("it has no settings"), location=Location(source=str(file)), key="overrides")
    given = pasted(typed)
    given = replace(
        given,
        source=str(file),
        folder="",
        said=tuple(bundle.premises.items()),
        models=tuple(bundle.models.items()),
    )
    if not bundle.record:
        steps = tuple(StepMetrics(step=one.step, values=one.metrics) for one in bundle.steps)
        return replace(given, log=RunLog(configuration=None, steps=steps)) if steps else given
    try:
        lines = [msgspec.convert(line, type=Line) for line in bundle.record]
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(
            _("its record has a line that is none: {reason}").format(reason=cut(str(error))),
            location=Location(source=str(file)),
        ) from None
    record = record_of_lines(file, lines)
    return replace(given, record=record, log=RunLog(configuration=None, steps=record.steps))
