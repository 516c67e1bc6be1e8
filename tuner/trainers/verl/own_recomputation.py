"""Whether Megatron's recomputation has a switch and keys of verl's own, which win over Megatron's."""

from tuner.inputs.settings import Settings

RELEASED_UNTIL = "0.5.0"  # from here on the releases have Megatron's keys alone

_WORKERS = "single_controller/base/megatron"
_OWN = "tf_config recompute_granularity activations_checkpoint_granularity"


def own_recomputation(settings: Settings) -> bool | None:
    """Whether a copy overwrites Megatron's keys with its own; None where no copy's worker is there to see.

    Source: verl 0.4.1 ``single_controller/base/megatron/worker.py:93-99``
    (``add_optimization_config_to_tf_config``), which 0.5.0 lacks.
    """
    has = settings.has_statement
    if has is None:
        return None
    if has(_OWN):
        return True
    return False if has("hf_to_mcore_config override_transformer_config", _WORKERS) else None
