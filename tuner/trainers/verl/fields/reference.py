"""Whether a job has a reference: the switches of the KL terms that need one."""

from tuner.trainers.fields import Assignments, Ruled
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.roles import uses_reference
from tuner.workload import Workload


def _has_reference(context: ReleaseContext) -> bool:
    return uses_reference(context.source)


def _set_reference(context: ReleaseContext, workload: Workload) -> Assignments:
    """Switches off each KL term, and the weight by which a copy makes a reference.

    Which of them a new reference would serve is not for a proposal to say.

    Raises:
        ValueError: a reference is asked for.
    """
    if workload.reference is not None:
        raise ValueError("no setting alone asks for a reference")
    source, weight = context.source, "kl_in_reward_weight"
    terms = ("actor.use_kl_loss", "kl_in_reward")
    off: Assignments = tuple((term, False) for term in terms if source.flag(term))
    by_weight = source.copy.reference_by_weight and source.number(weight, default=0.0) != 0
    return (*off, (weight, 0.0)) if by_weight else off


REFERENCE: Ruled[ReleaseContext] = Ruled(
    "reference", _has_reference, _set_reference, of=lambda workload: workload.reference is not None
)
