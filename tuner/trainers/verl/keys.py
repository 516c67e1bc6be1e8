"""The one table of verl's keys: what is meant, and how each release spells it.

A meaning such as ``actor.fsdp.param_offload`` maps to the key that a release *reads*. A key that
stands in a release's schema without being read is not in the table for that release.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from tuner.versions import at_least

# 0.7.1 carries both generations of workers; trainer.use_legacy_worker_impl=disable picks the new
# one, which reads the keys of the releases after it. It counts as a release between 0.7.1 and 0.8.0.
ENGINE_PREVIEW = "0.7.1.1"


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


def _always(prefix: str, names: Mapping[str, str]) -> dict[str, tuple[Spelling, ...]]:
    return {meaning: (Spelling(key=prefix + key),) for meaning, key in names.items()}


def _section(
    meaning: str, sections: Iterable[Spelling], names: Iterable[str], **since: str
) -> dict[str, tuple[Spelling, ...]]:
    """The leaves of an engine's section, which keep their names while the section moves."""
    return {
        f"{meaning}.{name}": tuple(
            Spelling(
                key=f"{section.key}.{name}",
                since=_later(section.since, since.get(name.rpartition(".")[2])),
                until=section.until,
            )
            for section in sections
        )
        for name in names
    }


def _later(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    return one if at_least(one, other) else other


_FSDP = (
    "fsdp_size",
    "param_offload",
    "optimizer_offload",
    "offload_policy",
    "reshard_after_forward",
    "forward_prefetch",
    "model_dtype",
    "mixed_precision.param_dtype",
    "mixed_precision.reduce_dtype",
    "use_no_sync_for_gradient_accumulation",
    "use_torch_compile",
    "entropy_checkpointing",
    "entropy_from_logits_with_chunking",
    "entropy_from_logits_chunk_size",
)
_FSDP_SINCE = {
    "use_no_sync_for_gradient_accumulation": "0.9.1",
    "use_torch_compile": ENGINE_PREVIEW,
    "entropy_checkpointing": ENGINE_PREVIEW,
    "entropy_from_logits_with_chunking": ENGINE_PREVIEW,
    "entropy_from_logits_chunk_size": "0.9.0",
}
_MEGATRON = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "use_distributed_optimizer",
    "param_offload",
    "optimizer_offload",
    "dtype",
    "override_transformer_config.recompute_granularity",
    "override_transformer_config.recompute_method",
    "override_transformer_config.recompute_num_layers",
    "override_transformer_config.num_layers_in_first_pipeline_stage",
    "override_transformer_config.num_layers_in_last_pipeline_stage",
    "override_transformer_config.account_for_embedding_in_pipeline_split",
    "override_transformer_config.account_for_loss_in_pipeline_split",
    "override_transformer_config.bias_activation_fusion",
    "override_transformer_config.apply_rope_fusion",
    "override_transformer_config.deallocate_pipeline_outputs",
    "override_transformer_config.gradient_accumulation_fusion",
    "override_ddp_config.grad_reduce_in_fp32",
    "virtual_pipeline_model_parallel_size",
    "use_mbridge",
    "vanilla_mbridge",
    "entropy_from_logits_with_chunking",
    "entropy_from_logits_chunk_size",
)
_OF_A_TRAINED_MODEL = (
    "optimizer_offload",
    "use_distributed_optimizer",
    "override_ddp_config.grad_reduce_in_fp32",
    "override_transformer_config.gradient_accumulation_fusion",
)
_MEGATRON_SINCE = {
    "dtype": "0.6.1",
    "grad_reduce_in_fp32": "0.5.0",
    "use_mbridge": "0.5.0",
    "vanilla_mbridge": "0.7.1",
    "entropy_from_logits_with_chunking": "0.9.0",
    "entropy_from_logits_chunk_size": "0.9.0",
}
_ACTOR = "actor_rollout_ref.actor."
_REF = "actor_rollout_ref.ref."
_MODEL = "actor_rollout_ref.model."
_ROLLOUT = "actor_rollout_ref.rollout."

KEYS: Mapping[str, tuple[Spelling, ...]] = {
    **_always(
        "",
        {
            "gpus_per_node": "trainer.n_gpus_per_node",
            "nodes": "trainer.nnodes",
            "batch.prompts": "data.train_batch_size",
            "batch.generated_prompts": "data.gen_batch_size",
            "batch.max_prompt_tokens": "data.max_prompt_length",
            "batch.max_response_tokens": "data.max_response_length",
            "advantage": "algorithm.adv_estimator",
            "kl_in_reward": "algorithm.use_kl_in_reward",
        },
    ),
    "bypass_old_log_prob": (Spelling(key="algorithm.rollout_correction.bypass_mode", since="0.6.1"),),
    "hybrid_engine": (Spelling(key="actor_rollout_ref.hybrid_engine"),),
    "legacy_workers": (Spelling(key="trainer.use_legacy_worker_impl", since="0.7.1", until="0.8.0"),),
    "v1_trainer": (Spelling(key="trainer.use_v1", since="0.9.0"),),
    "v1_mode": (Spelling(key="trainer.v1.trainer_mode", since="0.9.0"),),
    # -- model ---------------------------------------------------------------------------
    **_always(
        _MODEL,
        {
            "model.path": "path",
            "model.packed": "use_remove_padding",
            "model.gradient_checkpointing": "enable_gradient_checkpointing",
            "model.activation_offload": "enable_activation_offload",
            "model.liger": "use_liger",
            "model.fused_head": "use_fused_kernels",
            "model.fused_backend": "fused_kernel_options.impl_backend",
            "model.lora_rank": "lora_rank",
            "model.target_modules": "target_modules",
        },
    ),
    "model.exclude_modules": (Spelling(key=_MODEL + "exclude_modules", since="0.5.0"),),
    "model.lora_adapter": (Spelling(key=_MODEL + "lora_adapter_path", since="0.6.1"),),
    "model.megatron_lora_rank": (Spelling(key=_MODEL + "lora.rank", since="0.7.1"),),
    "model.megatron_target_modules": (Spelling(key=_MODEL + "lora.target_modules", since="0.7.1"),),
    "model.lora_merge": (Spelling(key=_MODEL + "lora.merge", since="0.7.1"),),
    "model.megatron_recompute": (
        Spelling(
            key=_MODEL + "gradient_checkpointing_kwargs.activations_checkpoint_granularity", until="0.5.0"
        ),
    ),
    "model.mtp_rollout": (Spelling(key=_MODEL + "mtp.enable_rollout", since="0.9.0"),),
    # -- actor ---------------------------------------------------------------------------
    **_always(
        _ACTOR,
        {
            "actor.strategy": "strategy",
            "batch.mini_batch_prompts": "ppo_mini_batch_size",
            "batch.epochs": "ppo_epochs",
            "actor.dynamic": "use_dynamic_bsz",
            "actor.token_budget": "ppo_max_token_len_per_gpu",
            "actor.micro_batch": "ppo_micro_batch_size_per_gpu",
            "actor.use_kl_loss": "use_kl_loss",
            "actor.entropy_coeff": "entropy_coeff",
        },
    ),
    "actor.global_micro_batch": (Spelling(key=_ACTOR + "ppo_micro_batch_size", until=ENGINE_PREVIEW),),
    "actor.calculate_entropy": (Spelling(key=_ACTOR + "calculate_entropy", since="0.7.1"),),
    "actor.ulysses": (
        Spelling(key=_ACTOR + "ulysses_sequence_parallel_size", until=ENGINE_PREVIEW),
        Spelling(key=_ACTOR + "fsdp_config.ulysses_sequence_parallel_size", since=ENGINE_PREVIEW),
    ),
    # forwarded to the engine's own key when above 1
    "actor.old_ulysses": (Spelling(key=_ACTOR + "ulysses_sequence_parallel_size", since=ENGINE_PREVIEW),),
    "actor.torch_compile": (
        Spelling(key=_ACTOR + "use_torch_compile", until=ENGINE_PREVIEW),
        Spelling(key=_ACTOR + "fsdp_config.use_torch_compile", since=ENGINE_PREVIEW),
    ),
    "actor.entropy_checkpointing": (
        Spelling(key=_ACTOR + "entropy_checkpointing", until=ENGINE_PREVIEW),
        Spelling(key=_ACTOR + "fsdp_config.entropy_checkpointing", since=ENGINE_PREVIEW),
    ),
    "actor.entropy_chunking": (
        Spelling(key=_ACTOR + "entropy_from_logits_with_chunking", until=ENGINE_PREVIEW),
        Spelling(key=_ACTOR + "fsdp_config.entropy_from_logits_with_chunking", since=ENGINE_PREVIEW),
    ),
    "actor.fsdp.dtype": (Spelling(key=_ACTOR + "fsdp_config.dtype", since="0.6.1", until=ENGINE_PREVIEW),),
    **_section("actor.fsdp", (Spelling(key=_ACTOR + "fsdp_config"),), _FSDP, **_FSDP_SINCE),
    **_section("actor.megatron", (Spelling(key=_ACTOR + "megatron"),), _MEGATRON, **_MEGATRON_SINCE),
    "actor.megatron.use_remove_padding": (
        Spelling(key=_ACTOR + "megatron.use_remove_padding", since="0.7.1", until=ENGINE_PREVIEW),
    ),
    "actor.optimizer_offload_fraction": (
        Spelling(key=_ACTOR + "optim.override_optimizer_config.optimizer_offload_fraction", since="0.6.1"),
    ),
    "actor.optimizer_cpu_offload": (
        Spelling(key=_ACTOR + "optim.override_optimizer_config.optimizer_cpu_offload", since="0.6.1"),
    ),
    "actor.precision_aware": (Spelling(key=_ACTOR + "optim.use_precision_aware_optimizer", since="0.9.0"),),
    "actor.override_precision_aware": (
        Spelling(key=_ACTOR + "optim.override_optimizer_config.use_precision_aware_optimizer", since="0.6.1"),
    ),
    "actor.main_grads_dtype": (Spelling(key=_ACTOR + "optim.main_grads_dtype", since="0.9.0"),),
    "actor.moment_dtype": (Spelling(key=_ACTOR + "optim.exp_avg_dtype", since="0.9.0"),),
    # -- log-probabilities of the actor ----------------------------------------------------
    **_always(
        _ROLLOUT,
        {
            "log_prob.dynamic": "log_prob_use_dynamic_bsz",
            "log_prob.token_budget": "log_prob_max_token_len_per_gpu",
            "log_prob.micro_batch": "log_prob_micro_batch_size_per_gpu",
        },
    ),
    "log_prob.global_micro_batch": (
        Spelling(key=_ROLLOUT + "log_prob_micro_batch_size", until=ENGINE_PREVIEW),
    ),
    # -- reference -------------------------------------------------------------------------
    **_always(
        _REF,
        {
            "ref.strategy": "strategy",
            "ref.dynamic": "log_prob_use_dynamic_bsz",
            "ref.token_budget": "log_prob_max_token_len_per_gpu",
            "ref.micro_batch": "log_prob_micro_batch_size_per_gpu",
        },
    ),
    "ref.global_micro_batch": (Spelling(key=_REF + "log_prob_micro_batch_size", until=ENGINE_PREVIEW),),
    "ref.ulysses": (
        Spelling(key=_ACTOR + "ulysses_sequence_parallel_size", until=ENGINE_PREVIEW),
        Spelling(key=_REF + "fsdp_config.ulysses_sequence_parallel_size", since=ENGINE_PREVIEW),
    ),
    "ref.old_ulysses": (Spelling(key=_REF + "ulysses_sequence_parallel_size", since=ENGINE_PREVIEW),),
    "ref.fsdp.dtype": (Spelling(key=_REF + "fsdp_config.dtype", since="0.6.1", until=ENGINE_PREVIEW),),
    **_section("ref.fsdp", (Spelling(key=_REF + "fsdp_config"),), _FSDP, **_FSDP_SINCE),
    **_section(
        "ref.megatron",
        (Spelling(key=_REF + "megatron"),),
        tuple(name for name in _MEGATRON if name not in _OF_A_TRAINED_MODEL),
        **_MEGATRON_SINCE,
    ),
    # -- critic ----------------------------------------------------------------------------
    **_always(
        "critic.",
        {
            "critic.strategy": "strategy",
            "critic.path": "model.path",
            "critic.packed": "model.use_remove_padding",
            "critic.gradient_checkpointing": "model.enable_gradient_checkpointing",
            "critic.activation_offload": "model.enable_activation_offload",
            "critic.lora_rank": "model.lora_rank",
            "critic.target_modules": "model.target_modules",
        },
    ),
    "critic.enable": (Spelling(key="critic.enable", since="0.6.1"),),
    "critic.liger": (Spelling(key="critic.model.use_liger", since="0.8.0"),),
    "critic.megatron_lora_rank": (Spelling(key="critic.model.lora.rank", since="0.7.1"),),
    "critic.megatron_target_modules": (Spelling(key="critic.model.lora.target_modules", since="0.7.1"),),
    "critic.exclude_modules": (Spelling(key="critic.model.exclude_modules", since="0.8.0"),),
    "critic.megatron_recompute": (
        Spelling(
            key="critic.model.gradient_checkpointing_kwargs.activations_checkpoint_granularity", until="0.5.0"
        ),
    ),
    "critic.dynamic": (Spelling(key="critic.use_dynamic_bsz", until=ENGINE_PREVIEW),),
    "critic.micro_batch": (Spelling(key="critic.ppo_micro_batch_size_per_gpu", until=ENGINE_PREVIEW),),
    "critic.global_micro_batch": (Spelling(key="critic.ppo_micro_batch_size", until=ENGINE_PREVIEW),),
    "critic.token_budget": (Spelling(key="critic.ppo_max_token_len_per_gpu"),),
    "values.micro_batch": (Spelling(key="critic.forward_micro_batch_size_per_gpu", until=ENGINE_PREVIEW),),
    "values.global_micro_batch": (Spelling(key="critic.forward_micro_batch_size", until=ENGINE_PREVIEW),),
    "values.token_budget": (
        Spelling(key="critic.forward_max_token_len_per_gpu", until=ENGINE_PREVIEW),
        Spelling(key="critic.ppo_infer_max_token_len_per_gpu", since=ENGINE_PREVIEW),
    ),
    "critic.ulysses": (
        Spelling(key="critic.ulysses_sequence_parallel_size", until=ENGINE_PREVIEW),
        Spelling(
            key="critic.model.fsdp_config.ulysses_sequence_parallel_size", since=ENGINE_PREVIEW, until="0.8.0"
        ),
        Spelling(key="critic.fsdp.ulysses_sequence_parallel_size", since="0.8.0"),
    ),
    **_section(
        "critic.fsdp",
        (Spelling(key="critic.model.fsdp_config", until="0.8.0"), Spelling(key="critic.fsdp", since="0.8.0")),
        (*_FSDP, "use_dynamic_bsz", "micro_batch_size_per_gpu", "infer_micro_batch_size_per_gpu"),
        **_FSDP_SINCE,
        use_dynamic_bsz=ENGINE_PREVIEW,
        micro_batch_size_per_gpu=ENGINE_PREVIEW,
        infer_micro_batch_size_per_gpu=ENGINE_PREVIEW,
    ),
    **_section(
        "critic.megatron",
        (Spelling(key="critic.megatron"),),
        (*_MEGATRON, "use_dynamic_bsz", "micro_batch_size_per_gpu", "infer_micro_batch_size_per_gpu"),
        **_MEGATRON_SINCE,
        use_dynamic_bsz=ENGINE_PREVIEW,
        micro_batch_size_per_gpu=ENGINE_PREVIEW,
        infer_micro_batch_size_per_gpu=ENGINE_PREVIEW,
    ),
    "critic.megatron.use_remove_padding": (
        Spelling(key="critic.megatron.use_remove_padding", since="0.7.1", until=ENGINE_PREVIEW),
    ),
    "critic.optimizer_offload_fraction": (
        Spelling(key="critic.optim.override_optimizer_config.optimizer_offload_fraction", since="0.6.1"),
    ),
    "critic.optimizer_cpu_offload": (
        Spelling(key="critic.optim.override_optimizer_config.optimizer_cpu_offload", since="0.6.1"),
    ),
    "critic.precision_aware": (Spelling(key="critic.optim.use_precision_aware_optimizer", since="0.9.0"),),
    "critic.override_precision_aware": (
        Spelling(key="critic.optim.override_optimizer_config.use_precision_aware_optimizer", since="0.6.1"),
    ),
    "critic.main_grads_dtype": (Spelling(key="critic.optim.main_grads_dtype", since="0.9.0"),),
    "critic.moment_dtype": (Spelling(key="critic.optim.exp_avg_dtype", since="0.9.0"),),
    # -- rollout ---------------------------------------------------------------------------
    **_always(
        _ROLLOUT,
        {
            "rollout.engine": "name",
            "rollout.mode": "mode",
            "batch.responses_per_prompt": "n",
            "rollout.temperature": "temperature",
            "rollout.memory_fraction": "gpu_memory_utilization",
            "rollout.tensor_parallel": "tensor_model_parallel_size",
            "rollout.dtype": "dtype",
            "rollout.max_batched_tokens": "max_num_batched_tokens",
            "rollout.prompt_length": "prompt_length",
            "rollout.response_length": "response_length",
            "rollout.max_model_tokens": "max_model_len",
            "rollout.enforce_eager": "enforce_eager",
            "rollout.chunked_prefill": "enable_chunked_prefill",
            "rollout.disable_log_stats": "disable_log_stats",
            "rollout.load_format": "load_format",
            "rollout.layered_summon": "layered_summon",
            "rollout.vllm_kv_dtype": "engine_kwargs.vllm.kv_cache_dtype",
            "rollout.sglang_kv_dtype": "engine_kwargs.sglang.kv_cache_dtype",
            "rollout.vllm_quantization": "engine_kwargs.vllm.quantization",
            "rollout.sglang_quantization": "engine_kwargs.sglang.quantization",
        },
    ),
    "rollout.free_cache": (Spelling(key=_ROLLOUT + "free_cache_engine", since="0.5.0"),),
    # 0.4.1 only asserts that it is off together with enforce_eager; vLLM sleeps all the same
    "rollout.unused_free_cache": (Spelling(key=_ROLLOUT + "free_cache_engine", until="0.5.0"),),
    "rollout.multi_stage_wake_up": (Spelling(key=_ROLLOUT + "multi_stage_wake_up", until="0.6.0"),),
    "rollout.sleep_mode": (Spelling(key=_ROLLOUT + "enable_sleep_mode", since="0.7.1"),),
    "rollout.max_sequences": (Spelling(key=_ROLLOUT + "max_num_seqs", since="0.6.1"),),
    "rollout.data_parallel": (Spelling(key=_ROLLOUT + "data_parallel_size", since="0.6.1"),),
    "rollout.pipeline_parallel": (Spelling(key=_ROLLOUT + "pipeline_model_parallel_size", since="0.6.1"),),
    "rollout.expert_parallel": (Spelling(key=_ROLLOUT + "expert_parallel_size", since="0.6.1"),),
    "rollout.capture_sizes": (Spelling(key=_ROLLOUT + "cudagraph_capture_sizes", since="0.6.1"),),
    "rollout.prefix_caching": (Spelling(key=_ROLLOUT + "enable_prefix_caching", since="0.6.1"),),
    "rollout.quantization": (Spelling(key=_ROLLOUT + "quantization", since="0.7.1"),),
    "rollout.standalone_fraction": (
        Spelling(key=_ROLLOUT + "standalone_gpu_memory_utilization", since="0.9.0"),
    ),
    "rollout.gpus_per_node": (Spelling(key=_ROLLOUT + "n_gpus_per_node", since="0.7.1"),),
    "rollout.nodes": (Spelling(key=_ROLLOUT + "nnodes", since="0.7.1"),),
    # of the recipes that generate on GPUs of their own (one step off-policy, fully asynchronous)
    "recipe.rollout_gpus_per_node": (Spelling(key="rollout.n_gpus_per_node"),),
    "recipe.rollout_nodes": (Spelling(key="rollout.nnodes"),),
    "recipe.mini_batches": (Spelling(key="async_training.require_batches"),),
    "sync.bucket_megabytes": (
        Spelling(key=_ROLLOUT + "update_weights_bucket_megabytes", since="0.5.0", until="0.7.0"),
        Spelling(key=_ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes", since="0.7.0"),
    ),
}


@lru_cache(maxsize=4096)
def key(meaning: str, version: str) -> str | None:
    """The key that a release reads for a meaning, None where it has no such switch.

    Raises:
        KeyError: the meaning is not in the table.
    """
    return next((spelling.key for spelling in KEYS[meaning] if spelling.holds(version)), None)
