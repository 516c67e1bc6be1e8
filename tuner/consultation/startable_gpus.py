"""The number of GPUs that is assumed where an argument of the launch decides it and nobody gives that."""

from collections.abc import Callable

from msgspec.structs import replace

from tuner.consultation.circumstances import Circumstances
from tuner.errors import TunerError
from tuner.inputs.user_input import OpenArgument, UserInput
from tuner.trainers.protocol import Configuration, Loaded

_TRIED = (8, 4, 2, 1, 6, 3, 5, 7)  # GPUs of a node, the usual numbers first
_PROBE = 3  # a number that no trainer has as its default


def argument_of_number(
    configuration: Configuration, loaded: Loaded, unsettled: tuple[OpenArgument, ...]
) -> OpenArgument | None:
    """The open argument of a launch that says how many GPUs a node has; None where none does.

    Args:
        configuration: of the launch.
        loaded: the same on its release.
        unsettled: the arguments whose values nobody knows.
    """
    for argument in unsettled:
        if not argument.key or loaded.settings.is_set(argument.key):
            continue
        try:
            probed = configuration.adding([f"{argument.key}={_PROBE}"]).on(loaded.version)
            if probed.cluster_size()[0] == _PROBE != loaded.cluster_size()[0]:
                return argument
        except TunerError:
            continue  # its values are no numbers
    return None


def on_number_that_starts(circumstances: Circumstances, loaded: Loaded) -> Circumstances:
    """The circumstances with GPUs of a node on which nothing refuses the job, the usual numbers first.

    The job was written for the number that its author gives, on which it starts. Where it starts on none, the
    number stays as it is.
    """
    own = circumstances.cluster.gpus_per_node
    tried = (_with(circumstances, gpus) for gpus in dict.fromkeys((own, *_TRIED)))
    return next((one for one in tried if _starts(one, loaded)), circumstances)


def on_count_that_starts(
    given: UserInput, read: Callable[[int], UserInput], starts: Callable[[UserInput], bool]
) -> UserInput:
    """A script that counts its cards, read for as many as its job starts on; as it is where that is none.

    Args:
        given: the script, read for the number that is assumed.
        read: the same for another number.
        starts: whether nothing refuses the job that it makes; an error is a refusal.
    """

    def starts_on_it(one: UserInput) -> bool:
        try:
            return one.assumed_cards is not None and starts(one)
        except TunerError:  # it cannot even be read on so many
            return False

    if starts_on_it(given):
        return given
    tried = (read(gpus) for gpus in _TRIED if gpus != given.assumed_cards)
    return next(filter(starts_on_it, tried), given)


def _starts(circumstances: Circumstances, loaded: Loaded) -> bool:
    """Whether no finding refuses the job."""
    try:
        workload = circumstances.workload(loaded, circumstances.rollout_engine(loaded))
        return not any(finding.refuses for finding in loaded.check(workload))
    except TunerError:  # it cannot even be read on so many
        return False


def _with(circumstances: Circumstances, gpus: int) -> Circumstances:
    return replace(circumstances, cluster=replace(circumstances.cluster, gpus_per_node=gpus))
