"""The keys of NeMo-RL by what they mean; behind a key stand the releases that read it.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/algorithms/grpo.py`` (``MasterConfig``), ``models/policy``
(``PolicyConfig``), ``models/generation/vllm/config.py``, ``distributed/virtual_cluster.py``.
"""

from tuner.trainers.key_table import Keys, KeyTable, keys_by_meaning, within

#: Sections of algorithms whose jobs generate, and of those that learn from given sequences.
GENERATING = ("grpo", "ppo", "distillation")
GIVEN = ("dpo", "rm", "sft")

_CLUSTER = keys_by_meaning(
    {
        "gpus_per_node": "cluster.gpus_per_node",
        "nodes": "cluster.num_nodes",
        "kl": "loss_fn.reference_policy_kl_penalty",
        "on_policy": "loss_fn.force_on_policy_ratio",
        "prompt_tokens": "data.max_input_seq_length",
        "saving": "checkpointing.enabled",
        "saving.every": "checkpointing.save_period",
        "saving.optimizer": "checkpointing.save_optimizer >=0.6.0",
        "saving.kept": "checkpointing.keep_top_k",
        "judge": "env.reward_model.enabled",
        "judge.gpus": "env.reward_model.resources.gpus_per_node",
        "judge.nodes": "env.reward_model.resources.num_nodes",
    }
)
_ALGORITHM = {
    "batch.prompts": "num_prompts_per_step",
    "batch.responses": "num_generations_per_prompt",
    "batch.turns": "max_rollout_turns",
    "batch.steps": "max_num_steps",
    "batch.epochs": "max_num_epochs",
    "batch.dynamic_sampling": "use_dynamic_sampling",
    "batch.updates": "ppo_epochs",
    "asynchronous": "async_grpo.enabled",
    "asynchronous.age": "async_grpo.max_trajectory_age_steps",
    "skips_reference": "skip_reference_policy_logprobs_calculation >=0.6.0",
    "log_prob_threshold": "seq_logprob_error_threshold",
}
_MODEL = {
    "model": "model_name",
    "precision": "precision",
    "total_tokens": "max_total_sequence_length",
    "mini_batch": "train_global_batch_size",
    "micro_batch": "train_micro_batch_size",
    "log_prob_micro_batch": "logprob_batch_size",
    "log_prob_chunk": "logprob_chunk_size",
    "packed": "sequence_packing.enabled",
    "packed.budget": "sequence_packing.train_mb_tokens",
    "packed.log_prob_budget": "sequence_packing.logprob_mb_tokens",
    "packed.fused_loss": "sequence_packing.fuse_loss >=0.6.0",
    "dynamic": "dynamic_batching.enabled",
    "dynamic.budget": "dynamic_batching.train_mb_tokens",
    "dynamic.log_prob_budget": "dynamic_batching.logprob_mb_tokens",
    "optimizer_leaves": "offload_optimizer_for_logprob",
    "sync.buffer": "refit_buffer_size_gb",
}
_DTENSOR = {
    "dtensor": "enabled",
    "dtensor.second": "_v2",
    "dtensor.tensor": "tensor_parallel_size",
    "dtensor.context": "context_parallel_size",
    "dtensor.expert": "expert_parallel_size",
    "dtensor.replicas": "dp_replicate_size >=0.7.0",
    "dtensor.offload": "cpu_offload",
    "dtensor.checkpointing": "activation_checkpointing",
    "dtensor.lora": "lora_cfg.enabled",
    "dtensor.lora.rank": "lora_cfg.dim",
    "dtensor.lora.targets": "lora_cfg.target_modules",
    "dtensor.lora.excluded": "lora_cfg.exclude_modules",
    "dtensor.lora.all": "lora_cfg.match_all_linear",
}
_MEGATRON = {
    "megatron": "enabled",
    "megatron.tensor": "tensor_model_parallel_size",
    "megatron.pipeline": "pipeline_model_parallel_size",
    "megatron.context": "context_parallel_size",
    "megatron.expert": "expert_model_parallel_size",
    "megatron.expert_tensor": "expert_tensor_parallel_size",
    "megatron.first_layers": "num_layers_in_first_pipeline_stage",
    "megatron.last_layers": "num_layers_in_last_pipeline_stage",
    "megatron.divides_sequence": "sequence_parallel",
    "megatron.checkpointing": "activation_checkpointing",
    "megatron.granularity": "recompute_granularity >=0.7.0",
    "megatron.recomputed": "recompute_modules >=0.7.0",
    "megatron.fused_rotary": "apply_rope_fusion",
    "megatron.fused_layers": "bias_activation_fusion",
    "megatron.fused_gradients": "gradient_accumulation_fusion >=0.6.0",
    "megatron.dispatcher": "moe_token_dispatcher_type >=0.6.0",
    "megatron.deepep": "moe_enable_deepep >=0.6.0",
    "megatron.defers_float32": "defer_fp32_logits",
    "megatron.fused_head": "use_linear_ce_fusion_loss >=0.6.0",
    "megatron.further_tokens": "mtp_num_layers >=0.6.0",
    "megatron.lora": "peft.enabled",
    "megatron.lora.rank": "peft.dim",
    "megatron.lora.targets": "peft.target_modules",
    "megatron.distributed_optimizer": "optimizer.use_distributed_optimizer",
    "megatron.precise": "optimizer.use_precision_aware_optimizer",
    "megatron.host_optimizer": "optimizer.optimizer_cpu_offload",
    "megatron.host_share": "optimizer.optimizer_offload_fraction",
    "megatron.float32_gradients": "distributed_data_parallel_config.grad_reduce_in_fp32",
    "megatron.fp8": "fp8_cfg.enabled",
    "megatron.fp8_weights": "fp8_cfg.fp8_param",
}
_GENERATION = within(
    "policy.generation",
    {
        "engine": "backend",
        "new_tokens": "max_new_tokens",
        "temperature": "temperature",
        "colocated": "colocated.enabled",
        "own_gpus": "colocated.resources.gpus_per_node",
        "own_nodes": "colocated.resources.num_nodes",
        "rollout.asynchronous": "vllm_cfg.async_engine",
        "rollout.precision": "vllm_cfg.precision",
        "rollout.cache": "vllm_cfg.kv_cache_dtype",
        "rollout.tensor": "vllm_cfg.tensor_parallel_size",
        "rollout.pipeline": "vllm_cfg.pipeline_parallel_size",
        "rollout.expert": "vllm_cfg.expert_parallel_size",
        "rollout.fraction": "vllm_cfg.gpu_memory_utilization",
        "rollout.model_tokens": "vllm_cfg.max_model_len",
        "rollout.eager": "vllm_cfg.enforce_eager",
        "rollout.sequences": "vllm_kwargs.max_num_seqs",
        "rollout.batched_tokens": "vllm_kwargs.max_num_batched_tokens",
        "rollout.prefixes": "vllm_kwargs.enable_prefix_caching",
    },
)


def _of_model(section: str) -> Keys:
    """The keys of a model that a section is about: how it is cut into micro-batches, and by which engine."""
    parts = {"": _MODEL, ".dtensor_cfg": _DTENSOR, ".megatron_cfg": _MEGATRON}
    return {
        meaning: own for name, keys in parts.items() for meaning, own in within(section + name, keys).items()
    }


#: The keys of a job by the section of its algorithm.
TABLES = {
    section: KeyTable(
        {**_CLUSTER, **within(section, _ALGORITHM), **_of_model("policy"), **_GENERATION},
    )
    for section in (*GENERATING, *GIVEN)
}
TABLE = TABLES["grpo"]
#: The keys of models beside the policy: the value model of PPO, and the teacher of distillation.
BESIDE = {
    section: KeyTable({**_CLUSTER, **_of_model(section)}, meanings=TABLE.keys)
    for section in ("value", "teacher")
}

MODEL = "policy.model_name"
