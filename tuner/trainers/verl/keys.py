"""The one table of verl's keys: what is meant, and how each release spells it.

A meaning such as ``actor.fsdp.param_offload`` maps to the key that a release *reads*. A key that
stands in a release's schema without being read is not in the table for that release. Behind a key
stand the releases that read it: ``>=`` the first one, ``<`` the first one that no longer does.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from tuner.trainers.verl.engine_keys import CRITIC_BATCHES, FSDP, MEGATRON, TRAINED_MEGATRON
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.trainers.verl.rollout_keys import RECIPES, ROLLOUT
from tuner.versions import at_least


class Spelling(Struct, frozen=True, kw_only=True):
    """A key and the releases that read it: ``since`` inclusive, ``until`` exclusive, None is open."""

    key: str
    since: str | None = None
    until: str | None = None

    def holds(self, version: str) -> bool:
        """Whether this release reads the key."""
        return (self.since is None or at_least(version, self.since)) and (
            self.until is None or not at_least(version, self.until)
        )

    def below(self, section: "Spelling") -> "Spelling":
        """The key within a section, read where the release has both."""
        since = self.since
        if since is None or (section.since is not None and at_least(section.since, since)):
            since = section.since
        return Spelling(key=f"{section.key}.{self.key}", since=since, until=self.until or section.until)


def _spelling(text: str) -> Spelling:
    key, *bounds = text.split()
    since = next((bound[2:] for bound in bounds if bound.startswith(">=")), None)
    until = next((bound[1:] for bound in bounds if bound.startswith("<")), None)
    return Spelling(key=key, since=since, until=until)


Names = Mapping[str, str | tuple[str, ...]]
Keys = Mapping[str, tuple[Spelling, ...]]


def _keys(names: Names) -> Keys:
    """Keys by meaning; those that moved between releases are several."""
    return {
        meaning: tuple(map(_spelling, (keys,) if isinstance(keys, str) else keys))
        for meaning, keys in names.items()
    }


def _within(section: str, names: Names) -> Keys:
    """Keys of one section, by meaning."""
    above = Spelling(key=section)
    return {meaning: tuple(own.below(above) for own in keys) for meaning, keys in _keys(names).items()}


def _engine(meaning: str, sections: Iterable[str], leaves: Iterable[str]) -> Keys:
    """Keys of an engine's section, which keep their names while the section moves."""
    above = [_spelling(section) for section in sections]
    return {
        f"{meaning}.{own.key}": tuple(own.below(section) for section in above)
        for own in map(_spelling, leaves)
    }


def _optimizer(role: str, section: str) -> Keys:
    override = "override_optimizer_config"
    return _within(
        f"{section}.optim",
        {
            f"{role}.optimizer_offload_fraction": f"{override}.optimizer_offload_fraction >=0.6.1",
            f"{role}.optimizer_cpu_offload": f"{override}.optimizer_cpu_offload >=0.6.1",
            f"{role}.override_precision_aware": f"{override}.use_precision_aware_optimizer >=0.6.1",
            f"{role}.precision_aware": "use_precision_aware_optimizer >=0.9.0",
            f"{role}.main_grads_dtype": "main_grads_dtype >=0.9.0",
            f"{role}.moment_dtype": "exp_avg_dtype >=0.9.0",
        },
    )


_JOB = {
    "gpus_per_node": "trainer.n_gpus_per_node",
    "nodes": "trainer.nnodes",
    "batch.prompts": "data.train_batch_size",
    "batch.generated_prompts": "data.gen_batch_size",
    "batch.max_prompt_tokens": "data.max_prompt_length",
    "batch.max_response_tokens": "data.max_response_length",
    "advantage": "algorithm.adv_estimator",
    "kl_in_reward": "algorithm.use_kl_in_reward",
    "bypass_old_log_prob": "algorithm.rollout_correction.bypass_mode >=0.6.1",
    "hybrid_engine": "actor_rollout_ref.hybrid_engine",
    "legacy_workers": "trainer.use_legacy_worker_impl >=0.7.1 <0.8.0",
    "v1_trainer": "trainer.use_v1 >=0.9.0",
    "v1_mode": "trainer.v1.trainer_mode >=0.9.0",
}
_MODEL = {
    "model.path": "path",
    "model.packed": "use_remove_padding",
    "model.gradient_checkpointing": "enable_gradient_checkpointing",
    "model.activation_offload": "enable_activation_offload",
    "model.liger": "use_liger",
    "model.fused_head": "use_fused_kernels",
    "model.fused_backend": "fused_kernel_options.impl_backend",
    "model.lora_rank": "lora_rank",
    "model.target_modules": "target_modules",
    "model.exclude_modules": "exclude_modules >=0.5.0",
    "model.lora_adapter": "lora_adapter_path >=0.6.1",
    "model.megatron_lora_rank": "lora.rank >=0.7.1",
    "model.megatron_target_modules": "lora.target_modules >=0.7.1",
    "model.lora_merge": "lora.merge >=0.7.1",
    "model.megatron_recompute": "gradient_checkpointing_kwargs.activations_checkpoint_granularity <0.5.0",
    "model.mtp_rollout": "mtp.enable_rollout >=0.9.0",
}
_ACTOR: Names = {
    "actor.strategy": "strategy",
    "batch.mini_batch_prompts": "ppo_mini_batch_size",
    "batch.epochs": "ppo_epochs",
    "actor.dynamic": "use_dynamic_bsz",
    "actor.token_budget": "ppo_max_token_len_per_gpu",
    "actor.micro_batch": "ppo_micro_batch_size_per_gpu",
    "actor.global_micro_batch": f"ppo_micro_batch_size <{ENGINE_PREVIEW}",
    "actor.use_kl_loss": "use_kl_loss",
    "actor.entropy_coeff": "entropy_coeff",
    "actor.calculate_entropy": "calculate_entropy >=0.7.1",
    "actor.fsdp.dtype": f"fsdp_config.dtype >=0.6.1 <{ENGINE_PREVIEW}",
    # forwarded to the engine's own key when above 1
    "actor.old_ulysses": f"ulysses_sequence_parallel_size >={ENGINE_PREVIEW}",
    **{
        meaning: (f"{leaf} <{ENGINE_PREVIEW}", f"fsdp_config.{leaf} >={ENGINE_PREVIEW}")
        for meaning, leaf in (
            ("actor.ulysses", "ulysses_sequence_parallel_size"),
            ("actor.torch_compile", "use_torch_compile"),
            ("actor.entropy_checkpointing", "entropy_checkpointing"),
            ("actor.entropy_chunking", "entropy_from_logits_with_chunking"),
        )
    },
}
_REFERENCE = {
    "ref.strategy": "strategy",
    "ref.dynamic": "log_prob_use_dynamic_bsz",
    "ref.token_budget": "log_prob_max_token_len_per_gpu",
    "ref.micro_batch": "log_prob_micro_batch_size_per_gpu",
    "ref.global_micro_batch": f"log_prob_micro_batch_size <{ENGINE_PREVIEW}",
    "ref.old_ulysses": f"ulysses_sequence_parallel_size >={ENGINE_PREVIEW}",
    "ref.fsdp.dtype": f"fsdp_config.dtype >=0.6.1 <{ENGINE_PREVIEW}",
}
_REFERENCE_ULYSSES = (
    f"actor_rollout_ref.actor.ulysses_sequence_parallel_size <{ENGINE_PREVIEW}",
    f"actor_rollout_ref.ref.fsdp_config.ulysses_sequence_parallel_size >={ENGINE_PREVIEW}",
)
_CRITIC: Names = {
    "critic.enable": "enable >=0.6.1",
    "critic.strategy": "strategy",
    "critic.path": "model.path",
    "critic.packed": "model.use_remove_padding",
    "critic.gradient_checkpointing": "model.enable_gradient_checkpointing",
    "critic.activation_offload": "model.enable_activation_offload",
    "critic.liger": "model.use_liger >=0.8.0",
    "critic.lora_rank": "model.lora_rank",
    "critic.target_modules": "model.target_modules",
    "critic.exclude_modules": "model.exclude_modules >=0.8.0",
    "critic.megatron_lora_rank": "model.lora.rank >=0.7.1",
    "critic.megatron_target_modules": "model.lora.target_modules >=0.7.1",
    "critic.megatron_recompute": (
        "model.gradient_checkpointing_kwargs.activations_checkpoint_granularity <0.5.0"
    ),
    "critic.dynamic": f"use_dynamic_bsz <{ENGINE_PREVIEW}",
    "critic.micro_batch": f"ppo_micro_batch_size_per_gpu <{ENGINE_PREVIEW}",
    "critic.global_micro_batch": f"ppo_micro_batch_size <{ENGINE_PREVIEW}",
    "critic.token_budget": "ppo_max_token_len_per_gpu",
    "values.micro_batch": f"forward_micro_batch_size_per_gpu <{ENGINE_PREVIEW}",
    "values.global_micro_batch": f"forward_micro_batch_size <{ENGINE_PREVIEW}",
    "values.token_budget": (
        f"forward_max_token_len_per_gpu <{ENGINE_PREVIEW}",
        f"ppo_infer_max_token_len_per_gpu >={ENGINE_PREVIEW}",
    ),
    "critic.ulysses": (
        f"ulysses_sequence_parallel_size <{ENGINE_PREVIEW}",
        f"model.fsdp_config.ulysses_sequence_parallel_size >={ENGINE_PREVIEW} <0.8.0",
        "fsdp.ulysses_sequence_parallel_size >=0.8.0",
    ),
}
KEYS: Keys = {
    **_keys(_JOB),
    **_keys(RECIPES),
    **_within("actor_rollout_ref.model", _MODEL),
    **_within("actor_rollout_ref.actor", _ACTOR),
    **_engine("actor.fsdp", ("actor_rollout_ref.actor.fsdp_config",), FSDP),
    **_engine("actor.megatron", ("actor_rollout_ref.actor.megatron",), TRAINED_MEGATRON),
    **_optimizer("actor", "actor_rollout_ref.actor"),
    **_within("actor_rollout_ref.ref", _REFERENCE),
    **_keys({"ref.ulysses": _REFERENCE_ULYSSES}),
    **_engine("ref.fsdp", ("actor_rollout_ref.ref.fsdp_config",), FSDP),
    **_engine("ref.megatron", ("actor_rollout_ref.ref.megatron",), MEGATRON),
    **_within("critic", _CRITIC),
    **_engine(
        "critic.fsdp",
        ("critic.model.fsdp_config <0.8.0", "critic.fsdp >=0.8.0"),
        (*FSDP, *CRITIC_BATCHES),
    ),
    **_engine("critic.megatron", ("critic.megatron",), (*TRAINED_MEGATRON, *CRITIC_BATCHES)),
    **_optimizer("critic", "critic"),
    **_within("actor_rollout_ref.rollout", ROLLOUT),
}


@lru_cache(maxsize=4096)
def key(meaning: str, version: str) -> str | None:
    """The key that a release reads for a meaning, None where it has no such switch.

    Raises:
        KeyError: the meaning is not in the table.
    """
    return next((spelling.key for spelling in KEYS[meaning] if spelling.holds(version)), None)
