"""How large the output head is in the passes of a job."""

from tuner import batching
from tuner.validate.head.settings import HeadShape
from tuner.workload import Phase, Workload


def update_shape(workload: Workload) -> HeadShape:
    """Sizes of the output head in the update's largest micro-batch on one GPU."""
    model = workload.model
    tokens = batching.micro_batch_tokens(workload.batch, workload.actor_update)
    return HeadShape(tokens=tokens, hidden=model.hidden, vocab=model.vocab)


def log_prob_tokens(workload: Workload) -> int:
    """Tokens of the log-probability pass's micro-batch; of the update's where the step has no such pass."""
    step_pass = workload.pass_of(Phase.OLD_LOG_PROB) or workload.actor_update
    return batching.micro_batch_tokens(workload.batch, step_pass)
