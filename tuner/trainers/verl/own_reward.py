"""Whether a worker that only a copy of verl has runs the reward model."""

from tuner.inputs.settings import Settings

STRATEGY = "reward_model.strategy"

#: Of the releases that run it on an engine of the trainer. Source: verl 0.6.1 ``trainer/main_ppo.py``.
_RELEASED = ("fsdp", "fsdp2", "megatron")


def has_own_reward(settings: Settings) -> bool:
    """Whether the strategy is one that the copy's code compares with, and that no release has."""
    named, has = settings.get(STRATEGY), settings.has_statement
    if has is None or not isinstance(named, str) or named in _RELEASED:
        return False
    return named.isidentifier() and has(f"reward_model strategy {named}")
