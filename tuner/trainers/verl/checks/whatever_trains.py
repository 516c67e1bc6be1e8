"""Which checks speak of a job whatever engine trains its models: those of code that all engines share."""

from types import ModuleType

_FOLDERS = ("keys", "rollout", "services", "weight_sync")
_MODULES = (
    "batches.group_filter_refused",
    "batches.mini_exceeds_train",
    "batches.separate_async_refused",
    "batches.trainer_apart_refused",
    "parallelism.device_of_other_vendor",
    "parallelism.node_too_large",
    "parallelism.rollout_expert_parallel",
    "parallelism.rollout_parallel_indivisible",
    "parallelism.rollout_pipeline_parallel",
)


def speaks_whatever_trains(module: ModuleType) -> bool:
    """Whether a check looks at no more than what every engine shares."""
    folder, _separator, name = module.__name__.partition(".checks.")[2].partition(".")
    return folder in _FOLDERS or f"{folder}.{name}" in _MODULES
