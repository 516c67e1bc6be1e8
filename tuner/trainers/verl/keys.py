"""The one table of verl's keys, see :mod:`tuner.trainers.key_table`."""

from functools import cache

from tuner.trainers.key_table import Keys, KeyTable, Names, in_sections, keys_by_meaning, within
from tuner.trainers.verl.engine_keys import CRITIC_BATCHES, FSDP, MEGATRON, TRAINED_MEGATRON
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.releases import ENGINE_PREVIEW, reaches
from tuner.trainers.verl.rollout_keys import RECIPES, ROLLOUT
from tuner.trainers.verl.service_keys import REWARD, REWARD_MEGATRON, REWARD_WORKER


def _optimizer(role: str, section: str) -> Keys:
    override = "override_optimizer_config"
    return within(
        section,
        {
            f"{role}.optimizer_offload_fraction": f"{override}.optimizer_offload_fraction >=0.6.0",
            f"{role}.optimizer_cpu_offload": f"{override}.optimizer_cpu_offload >=0.6.0",
            f"{role}.optimizer": "optimizer >=0.6.1",
            f"{role}.optimizer_package": "optimizer_impl >=0.6.1",
            f"{role}.fused_optimizer": f"{override}.fused >=0.6.1",
            f"{role}.override_precision_aware": f"{override}.use_precision_aware_optimizer >=0.6.0",
            f"{role}.precision_aware": "use_precision_aware_optimizer >=0.9.0",
            f"{role}.main_grads_dtype": "main_grads_dtype >=0.9.0",
            f"{role}.moment_dtype": "exp_avg_dtype >=0.9.0",
        },
    )


_JOB = {
    "gpus_per_node": "trainer.n_gpus_per_node",
    "nodes": "trainer.nnodes",
    "validation.only": "trainer.val_only >=0.4.1",
    "saving.frequency": "trainer.save_freq",
    "saving.most_kept": "trainer.max_actor_ckpt_to_keep",
    "batch.prompts": "data.train_batch_size",
    "batch.generated_prompts": "data.gen_batch_size >=0.4.0",
    "filter.enable": "algorithm.filter_groups.enable >=0.4.0",
    "filter.most_rounds": "algorithm.filter_groups.max_num_gen_batches >=0.4.0",
    "filter.at_once": "algorithm.filter_groups.max_inflight_gen_batches >=0.9.0",
    "batch.max_prompt_tokens": "data.max_prompt_length",
    "batch.max_response_tokens": "data.max_response_length",
    "images.key": "data.image_key",
    "images.max_pixels": "data.mm_processor_kwargs.max_pixels >=0.8.0",
    "batch.balanced": "trainer.balance_batch",
    "advantage": "algorithm.adv_estimator",
    "kl_in_reward": "algorithm.use_kl_in_reward >=0.4.0",
    "kl_in_reward_weight": "algorithm.kl_ctrl.kl_coef >=0.4.0",
    "bypass_old_log_prob": "algorithm.rollout_correction.bypass_mode >=0.6.1",
    "hybrid_engine": "actor_rollout_ref.hybrid_engine",
    "legacy_workers": "trainer.use_legacy_worker_impl >=0.7.0 <0.8.0",
    "v1_trainer": "trainer.use_v1 >=0.9.0",
    "v1_mode": "trainer.v1.trainer_mode >=0.9.0",
}
_MODEL = {
    "model.path": "path",
    "model.packed": "use_remove_padding",
    "model.gradient_checkpointing": "enable_gradient_checkpointing",
    "model.activation_offload": "enable_activation_offload >=0.4.0",
    "model.liger": "use_liger",
    "model.fused_head": "use_fused_kernels >=0.4.0",
    "model.external_library": "external_lib",
    # before, workers ask for FlashAttention whatever is set: 0.6.1 ``workers/fsdp_workers.py:318``, 0.9.1
    # ``workers/config/model.py:185``
    "model.attention": "override_config.attn_implementation >=0.6.1",
    "model.fused_backend": "fused_kernel_options.impl_backend >=0.4.1",
    "model.lora_rank": "lora_rank >=0.4.0",
    "model.target_modules": "target_modules >=0.4.0",
    "model.exclude_modules": "exclude_modules >=0.5.0",
    "model.lora_adapter": "lora_adapter_path >=0.6.1",
    "model.megatron_lora_rank": "lora.rank >=0.7.0",
    "model.megatron_target_modules": "lora.target_modules >=0.7.0",
    "model.lora_merge": "lora.merge >=0.7.1",
    "model.megatron_recompute": (
        "gradient_checkpointing_kwargs.activations_checkpoint_granularity >=0.4.0 <0.5.0"
    ),
    "model.mtp": "mtp.enable >=0.7.1",
    "model.mtp_train": "mtp.enable_train >=0.7.1",
    "model.mtp_rollout": "mtp.enable_rollout >=0.9.0",
}
_ACTOR: Names = {
    "actor.strategy": "strategy",
    "actor.engine_strategy": f"fsdp_config.strategy >={ENGINE_PREVIEW} <0.8.0",
    "actor.saves_in_background": "checkpoint.async_save >=0.4.1",
    "actor.saved": ("checkpoint.contents <0.4.1", "checkpoint.save_contents >=0.4.1"),
    "actor.saves_adapters": "checkpoint.save_lora_only >=0.9.0",
    "batch.mini_batch_prompts": "ppo_mini_batch_size",
    "batch.epochs": "ppo_epochs",
    "actor.dynamic": "use_dynamic_bsz",
    "actor.token_budget": "ppo_max_token_len_per_gpu",
    "actor.micro_batch": "ppo_micro_batch_size_per_gpu",
    "actor.global_micro_batch": f"ppo_micro_batch_size <{ENGINE_PREVIEW}",
    "actor.use_kl_loss": "use_kl_loss",
    "actor.kl_loss_weight": "kl_loss_coef",
    "actor.shared_prefixes": f"use_prefix_grouper >=0.7.1 <{ENGINE_PREVIEW}",
    "actor.entropy_coeff": "entropy_coeff",
    "actor.router_replay": (
        f"router_replay.mode >=0.7.0 <{ENGINE_PREVIEW}",
        f"megatron.router_replay.mode >={ENGINE_PREVIEW}",
    ),
    "actor.loss_aggregation": "loss_agg_mode >=0.4.0",
    "actor.policy_loss": "policy_loss.loss_mode >=0.4.1",
    "actor.squares": "calculate_sum_pi_squared >=0.7.1",
    "actor.calculate_entropy": "calculate_entropy >=0.7.0",
    "actor.frozen_tower": f"freeze_vision_tower >=0.6.0 <{ENGINE_PREVIEW}",
    "actor.fsdp.dtype": f"fsdp_config.dtype >=0.6.1 <{ENGINE_PREVIEW}",
    # forwarded to the engine's own key when above 1
    "actor.old_ulysses": f"ulysses_sequence_parallel_size >={ENGINE_PREVIEW}",
    **{
        meaning: (f"{leaf}{since} <{ENGINE_PREVIEW}", f"fsdp_config.{leaf} >={ENGINE_PREVIEW}")
        for meaning, leaf, since in (
            ("actor.ulysses", "ulysses_sequence_parallel_size", ""),
            ("actor.torch_compile", "use_torch_compile", ""),
            ("actor.entropy_checkpointing", "entropy_checkpointing", " >=0.4.1"),
            ("actor.entropy_chunking", "entropy_from_logits_with_chunking", " >=0.4.1"),
        )
    },
}
_REFERENCE = {
    "ref.strategy": "strategy >=0.4.0",
    "ref.engine_strategy": f"fsdp_config.strategy >={ENGINE_PREVIEW} <0.8.0",
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
    "critic.enable": "enable >=0.6.0",
    "critic.strategy": "strategy",
    "critic.engine_strategy": f"model.fsdp_config.strategy >={ENGINE_PREVIEW} <0.8.0",
    "critic.path": "model.path",
    "critic.saves_in_background": "checkpoint.async_save >=0.4.1",
    "critic.saved": ("checkpoint.contents <0.4.1", "checkpoint.save_contents >=0.4.1"),
    "critic.saves_adapters": "checkpoint.save_lora_only >=0.9.0",
    "critic.packed": "model.use_remove_padding",
    "critic.gradient_checkpointing": "model.enable_gradient_checkpointing",
    "critic.activation_offload": "model.enable_activation_offload >=0.4.0",
    "critic.liger": "model.use_liger >=0.8.0",
    "critic.attention": "model.override_config.attn_implementation >=0.6.1",
    "critic.lora_rank": "model.lora_rank >=0.4.0",
    "critic.target_modules": "model.target_modules >=0.4.0",
    "critic.exclude_modules": "model.exclude_modules >=0.8.0",
    "critic.megatron_lora_rank": "model.lora.rank >=0.7.0",
    "critic.megatron_target_modules": "model.lora.target_modules >=0.7.0",
    "critic.megatron_recompute": (
        "model.gradient_checkpointing_kwargs.activations_checkpoint_granularity >=0.4.0 <0.5.0"
    ),
    "critic.dynamic": f"use_dynamic_bsz <{ENGINE_PREVIEW}",
    "critic.micro_batch": f"ppo_micro_batch_size_per_gpu <{ENGINE_PREVIEW}",
    "critic.mini_batch": "ppo_mini_batch_size",
    "critic.epochs": "ppo_epochs",
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
    **keys_by_meaning(_JOB),
    **keys_by_meaning(RECIPES),
    **within("actor_rollout_ref.model", _MODEL),
    **within("actor_rollout_ref.actor", _ACTOR),
    **in_sections("actor.fsdp", ("actor_rollout_ref.actor.fsdp_config",), FSDP),
    **in_sections("actor.megatron", ("actor_rollout_ref.actor.megatron >=0.4.0",), TRAINED_MEGATRON),
    **_optimizer("actor", "actor_rollout_ref.actor.optim"),
    **within("actor_rollout_ref.ref", _REFERENCE),
    **keys_by_meaning({"ref.ulysses": _REFERENCE_ULYSSES}),
    **in_sections("ref.fsdp", ("actor_rollout_ref.ref.fsdp_config",), FSDP),
    **in_sections("ref.megatron", ("actor_rollout_ref.ref.megatron >=0.4.0",), MEGATRON),
    **within("critic", _CRITIC),
    **in_sections(
        "critic.fsdp",
        ("critic.model.fsdp_config <0.8.0", "critic.fsdp >=0.8.0"),
        (*FSDP, *CRITIC_BATCHES),
    ),
    **in_sections("critic.megatron", ("critic.megatron >=0.4.0",), (*TRAINED_MEGATRON, *CRITIC_BATCHES)),
    **_optimizer("critic", "critic.optim"),
    **within("actor_rollout_ref.rollout", ROLLOUT),
    **keys_by_meaning(REWARD),
    **keys_by_meaning(REWARD_WORKER),
    **in_sections("reward.megatron", ("reward_model.megatron >=0.4.0 <0.7.1",), REWARD_MEGATRON),
}


@cache
def keys_of(program: Program) -> Keys:
    """The keys of a program; those of fine-tuning are under meanings of the first table, but for a few."""
    if program is Program.PPO:
        return KEYS
    from tuner.trainers.verl.fine_tuning_keys import SFT, SFT_ENGINE  # few jobs are of it

    if program is Program.SFT:
        return keys_by_meaning(SFT)
    return {
        **keys_by_meaning(SFT_ENGINE),
        **within("model", _MODEL),
        **in_sections("actor.fsdp", ("engine",), FSDP),
        **in_sections("actor.megatron", ("engine",), TRAINED_MEGATRON),
        **_optimizer("actor", "optim"),
    }


@cache
def table_of(program: Program) -> KeyTable:
    """The table of a program's keys; it may be asked for what another program alone has."""
    meanings = (meaning for other in Program for meaning in keys_of(other))
    return KeyTable(keys_of(program), meanings, reaches)


def key(meaning: str, version: str, program: Program = Program.PPO) -> str | None:
    """The key that a release's program reads for a meaning, None where it has no such switch.

    Raises:
        KeyError: no program has the meaning.
    """
    return table_of(program).key(meaning, version)
