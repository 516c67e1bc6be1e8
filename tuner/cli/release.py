"""The release of the trainer to go by, as the option, the input and the machine name it."""

from tuner.inputs.given import Given
from tuner.trainers.chosen import TRAINER
from tuner.trainers.protocol import ReleaseChoice


def choose_release(requested: str | None, given: Given) -> ReleaseChoice:
    """The release of ``--verl-version``, else the one that printed the input, else what the trainer chooses.

    Raises:
        InputError: ``requested`` is not a version number.
    """
    if requested is None and given.document is not None and given.document.printed:
        return TRAINER.release_of_printed(given.document)
    return TRAINER.choose_release(requested)
