"""The one recorder of this process, made when the first phase begins."""

import logging
from functools import lru_cache
from pathlib import Path

from tuner.inside_verl.record.meter import meter
from tuner.inside_verl.record.recorder import Recorder
from tuner.inside_verl.record.table import print_table
from tuner.inside_verl.settings import RECORD
from tuner.language import _

LOGGER = logging.getLogger("tuner.inside_verl.record")


@lru_cache(maxsize=1)
def recorder() -> Recorder:
    """The recorder of the folder that the setting names."""
    folder = Path(RECORD.read() or ".").absolute()
    return Recorder(
        folder, meter=meter, say=_stopped, opened=lambda worker, step: print_table(folder, worker, step)
    )


def wanted() -> bool:
    """Whether the setting names a folder."""
    return RECORD.read() is not None


def _stopped(reason: str) -> None:
    LOGGER.warning(
        "tuner.inside_verl: %s",
        _("the record ends here, and the run goes on: {reason}").format(reason=reason),
    )
