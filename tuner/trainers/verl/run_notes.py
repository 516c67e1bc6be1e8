"""Settings that the note on a run names, beside those that were published with it.

Source: github.com/ISEEKYAN/verl_megatron_practice, whose tables have such notes and whose scripts have the
settings (``DAPO_7B/9.mcore_4node_tp4.sh``, ``DAPO_7B/19.mcore_4node_tp4cp2.sh``).
"""

_SECTION = "actor_rollout_ref.actor.megatron.override_transformer_config"

#: Switches of Megatron's transformer configuration, which the tables call by their keys.
_SWITCHES = ("apply_rope_fusion", "bias_activation_fusion", "gradient_accumulation_fusion")

#: What they call all of them together.
_ALL = "all optimization option"


def noted_settings(note: str) -> tuple[str, ...]:
    """Overrides that switch on what a note names."""
    return tuple(f"+{_SECTION}.{name}=True" for name in _SWITCHES if name in note or _ALL in note)
