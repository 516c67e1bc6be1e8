"""Sparse attention: what the estimate leaves out of every program's jobs."""

from tuner.language import N_
from tuner.trainers.omission import Omission, OmissionContext

_PATHS = ("actor_rollout_ref.model.path", "model.path", "model.partial_pretrain")


def _path(job: OmissionContext) -> str | None:
    """The path of a model whose attention sees chosen keys alone."""
    if job.workload.model.indexer is None:
        return None
    return next(key for key in _PATHS if key in job.settings)


CHOSEN_KEYS = Omission(
    name=N_("the choice of keys in sparse attention"),
    reason=N_(
        "attention is taken to see every key, and neither the scores of all keys nor masks are counted; "
        "transformers has no flash attention for such a model, which verl's FSDP engine asks for"
    ),
    patterns=(),
    trigger=_path,
)
