"""Looks at a record again and again, and predicts anew only when what a prediction rests on has changed."""

import time
from pathlib import Path

from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.errors import InputError, Location, TunerError
from tuner.files import is_there
from tuner.inputs.record.read import RunRecord, read_record
from tuner.language import _
from tuner.render.watch import Frame

_PREDICTED_AGAIN_S = 30.0  # at the earliest, while steps go by


class Watched:
    """A run that is watched.

    Args:
        folder: of the record.
        premises: of the prediction, as options say.

    Raises:
        InputError: the folder holds no record.
    """

    def __init__(self, folder: Path, premises: Premises) -> None:
        if is_there(folder) and not is_there(folder, Path.is_dir):
            raise InputError(
                _("is no directory"),
                location=Location(source=str(folder)),
                hint=_("give the folder that {variable} named").format(variable="TUNER_RECORD"),
            )
        self._folder, self._premises = folder, premises
        self._answer: Consultation | None = None
        self._why_not = ""
        self._predicted_at: float | None = None
        self._steps: int | None = None
        read_record(folder)  # what is wrong with the record is said before a screen is drawn

    def look(self) -> Frame:
        """The state of the run now.

        Raises:
            InputError: a line of the record is none.
        """
        record = read_record(self._folder)
        self._predict(record)
        return Frame(record=record, answer=self._answer, no_prediction=self._why_not, now=time.time())

    def _predict(self, record: RunRecord) -> None:
        now = time.monotonic()
        lately = self._predicted_at is not None and now - self._predicted_at < _PREDICTED_AGAIN_S
        if self._predicted_at is not None and (lately or record.last_step == self._steps):
            return
        self._predicted_at, self._steps = now, record.last_step
        try:
            self._answer, self._why_not = consult(str(self._folder), (), self._premises, block=False), ""
        except TunerError as error:
            self._answer, self._why_not = None, str(error)
