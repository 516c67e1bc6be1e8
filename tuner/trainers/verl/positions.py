"""Whether the settings give a model other positions than its own configuration does."""

from tuner.inputs.settings import Settings

_OVERRIDDEN = "actor_rollout_ref.model.override_config"


def has_own_positions(settings: Settings) -> bool:
    """Whether a rope scaling or another number of positions is set; under ``model_config`` with Megatron."""
    overridden = (
        *settings.section(_OVERRIDDEN).items(),
        *settings.section(f"{_OVERRIDDEN}.model_config").items(),
    )
    return any(value is not None and ("rope" in name or "position" in name) for name, value in overridden)
