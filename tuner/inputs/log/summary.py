"""The metrics that wandb keeps of a run beside its configuration: those of its last step."""

import json
from pathlib import Path

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.log.metrics import LARGEST, LONGEST_NAME, StepMetrics
from tuner.inputs.log.run_log import RunLog
from tuner.language import _
from tuner.units import MIB

NAME = "wandb-summary.json"
_STEP = "_step"  # which wandb counts; verl hands it its own
_MOST_BYTES = 4 * MIB


def summary_beside(config: Path) -> RunLog | None:
    """The last step of the run whose configuration wandb has kept in a file; None without a summary.

    Raises:
        InputError: the summary cannot be read.

    Source: wandb 0.19, ``wandb/sdk/wandb_summary.py``: what was logged last, by the names it was logged with.
    """
    file = config.with_name(NAME)
    if not is_there(file, Path.is_file):
        return None
    try:
        content = json.loads(read_bytes(file, most=_MOST_BYTES))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(
            _("not a JSON object"),
            location=Location(source=str(file)),
            hint=_("take it away to go by {config} alone").format(config=config.name),
        )
    values = {
        name: float(value)
        for name, value in content.items()
        if isinstance(value, int | float) and abs(value) <= LARGEST and len(name) <= LONGEST_NAME
    }
    step = values.get(_STEP, 0.0)
    steps = (StepMetrics(step=int(max(0.0, step)), values=values),) if values else ()
    return RunLog(configuration=None, steps=steps)
