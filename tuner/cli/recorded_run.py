"""What the record of a run says of the machine that it ran on."""

from tuner.cli.hardware import ChosenGpu
from tuner.cli.premises import Premises
from tuner.errors import InputError
from tuner.gpus import find_gpu
from tuner.inputs.record.read import RunRecord
from tuner.language import _


def card_of(record: RunRecord, premises: Premises) -> ChosenGpu | None:
    """The card that a run was recorded on; None where an option names one, or no profile describes it."""
    name = record.process.gpu
    if premises.gpu is not None or name is None:
        return None
    try:
        gpu = find_gpu(name)
    except InputError:
        return None
    return ChosenGpu(gpu=gpu, reason=_("the run was recorded on {name}").format(name=name), assumed=False)
