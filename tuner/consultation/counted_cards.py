"""A launch script that counts the cards of its machine, where nobody says how many that has."""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from tuner.errors import InputError
from tuner.inputs.machine import TargetMachine, read_for
from tuner.inputs.user_input import Remark, UserInput
from tuner.language import _

ASSUMED_PER_NODE = 8  # as verl's own default has it


def read_for_node(machine: TargetMachine, read: Callable[[], UserInput]) -> UserInput:
    """What is read for a machine; what the script makes of its cards follows the number that is assumed.

    One variable often stands for the cards and for how they are shared out: a default for each of the two
    makes a job that the script never starts.

    Args:
        machine: that the script would run on.
        read: reads what was given, for the machine that is set.

    Raises:
        TunerError: it cannot be read.
    """
    with read_for(machine):
        given = read()
    if machine.per_node is not None or not given.unsettled:
        return given
    with suppress(InputError), read_for(replace(machine, per_node=ASSUMED_PER_NODE)):
        counted = read()
        still_open = {argument.key for argument in counted.unsettled}
        settled = {argument.key for argument in given.unsettled} - still_open
        if settled and counted.program == given.program:
            settling = (one for one in given.not_followed if one not in counted.not_followed)
            return replace(counted, not_followed=(*map(_assumed, settling), *counted.not_followed))
    return given


def _assumed(remark: Remark) -> Remark:
    """What counts the cards and is not run, with how many are taken."""
    text = _("{remark}; {gpus} cards are assumed, --gpu 4xNAME says otherwise")
    return replace(remark, text=text.format(remark=remark.text, gpus=ASSUMED_PER_NODE))
