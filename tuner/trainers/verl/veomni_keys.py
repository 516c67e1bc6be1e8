"""Where verl's VeOmni engine has the keys of its own: a section ``veomni`` in the place of ``fsdp_config``.

VeOmni shards by FSDP2, so that its keys stand under the meanings of FSDP's where they say the same. What
verl does not hand on to it has no key: VeOmni has its own Liger kernels and no adapters.

Fine-tuning has the same keys in its section ``engine``, for the one model that it trains.

0.7.1 hands VeOmni neither its kernels by name nor router replay, and has no critic for it.

Source: verl 0.7.1 to 0.9.1 ``workers/engine/veomni/transformer_impl.py``, 0.8.0 to 0.9.1
``trainer/sft_trainer.py``.
"""

from functools import cache

from tuner.trainers.key_table import Keys, KeyTable, Spelling, keys_by_meaning
from tuner.trainers.verl.keys import KEYS, keys_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.releases import reaches

SECTIONS = {
    "actor": "actor_rollout_ref.actor.veomni",
    "ref": "actor_rollout_ref.ref.veomni",
    "critic": "critic.veomni",
}
_AS_FSDP = {
    "fsdp_size": "fsdp_size",
    "param_offload": "param_offload",
    "optimizer_offload": "optimizer_offload",
    "offload_policy": "enable_fsdp_offload",
    "reshard_after_forward": "enable_full_shard",
    "forward_prefetch": "forward_prefetch",
    "pad_to_length": "pad_to_length >=0.9.0",
    "pad_to_length_bucket": "pad_to_length_bucket >=0.9.0",
}
_OWN = {
    "expert_parallel_size": "expert_parallel_size",
    "mixed_precision": "mixed_precision",
    "moe_implementation": "moe_implementation",
    "rms_norm_implementation": "rms_norm_implementation >=0.8.0",
    "swiglu_mlp_implementation": "swiglu_mlp_implementation >=0.8.0",
    "rotary_pos_emb_implementation": "rotary_pos_emb_implementation >=0.8.0",
}
_OF_ROLES = {
    "ulysses": "ulysses_parallel_size",
    "torch_compile": "use_torch_compile",
    "entropy_checkpointing": "entropy_checkpointing >=0.9.0",
    "entropy_chunking": "entropy_from_logits_with_chunking >=0.9.0",
}
_UNREAD = (
    "model.liger",
    "critic.liger",
    *(f"{role}.{leaf}" for role in SECTIONS for leaf in ("engine_strategy", "old_ulysses")),
)
_UNREAD_OF_ROLES = {"ref": ("optimizer_offload",)}
_OFFLOADED = ("model.enable_activation_offload <0.9.1", "veomni.enable_async_activation_offload >=0.9.1")


def _keys() -> Keys:
    names: dict[str, str | tuple[str, ...]] = {
        "model.activation_offload": (
            "actor_rollout_ref.model.enable_activation_offload <0.9.1",
            "actor_rollout_ref.actor.veomni.enable_async_activation_offload >=0.9.1",
        ),
        "critic.activation_offload": tuple(f"critic.{key}" for key in _OFFLOADED),
        "actor.router_replay": "actor_rollout_ref.actor.veomni.router_replay.mode >=0.8.0",
    }
    for role, section in SECTIONS.items():
        unread = _UNREAD_OF_ROLES.get(role, ())
        named = {f"{role}.fsdp.{leaf}": key for leaf, key in _AS_FSDP.items() if leaf not in unread}
        named |= {f"{role}.veomni.{leaf}": key for leaf, key in _OWN.items()}
        named |= {f"{role}.{leaf}": key for leaf, key in _OF_ROLES.items() if f"{role}.{leaf}" in KEYS}
        since = " >=0.8.0" if role == "critic" else ""  # 0.7.1 has no critic for it
        names |= {name: f"{section}.{key}{'' if ' ' in key else since}" for name, key in named.items()}
    return keys_by_meaning(names)


def _keys_of_fine_tuning() -> Keys:
    named = {f"actor.fsdp.{leaf}": key for leaf, key in _AS_FSDP.items()}
    named |= {f"actor.veomni.{leaf}": key for leaf, key in _OWN.items()}
    named |= {f"actor.{leaf}": key for leaf, key in _OF_ROLES.items()}
    offloaded = ("model.enable_activation_offload <0.9.1", "engine.enable_async_activation_offload >=0.9.1")
    return keys_by_meaning(
        {"model.activation_offload": offloaded} | {name: f"engine.{key}" for name, key in named.items()}
    )


#: The keys that only a configuration of VeOmni has, by meaning.
VEOMNI: Keys = _keys()
VEOMNI_OF_FINE_TUNING: Keys = _keys_of_fine_tuning()


@cache
def veomni_table(program: Program = Program.PPO) -> KeyTable:
    """The table of a job whose models VeOmni trains; it may be asked for what another engine alone has."""
    own = VEOMNI_OF_FINE_TUNING if program.fine_tunes else VEOMNI
    kept: dict[str, tuple[Spelling, ...]] = {
        meaning: spellings
        for meaning, spellings in keys_of(program).items()
        if meaning not in _UNREAD and ".fsdp." not in meaning
    }
    meanings = {meaning for other in Program for meaning in keys_of(other)} | VEOMNI.keys()
    return KeyTable({**kept, **own}, meanings, reaches)
