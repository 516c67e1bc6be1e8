"""Keys of the trainer engines, within the section that a role has for its engine.

How the releases behind a key are written says :mod:`tuner.trainers.verl.keys`.
"""

from tuner.trainers.verl.releases import ENGINE_PREVIEW

FSDP = (
    "fsdp_size",
    "param_offload",
    "optimizer_offload",
    "offload_policy >=0.4.0",
    "reshard_after_forward >=0.4.0",
    "forward_prefetch >=0.4.1",
    "model_dtype",
    "mixed_precision.param_dtype",
    "mixed_precision.reduce_dtype",
    "use_no_sync_for_gradient_accumulation >=0.9.1",
    f"use_torch_compile >={ENGINE_PREVIEW}",
    f"entropy_checkpointing >={ENGINE_PREVIEW}",
    f"entropy_from_logits_with_chunking >={ENGINE_PREVIEW}",
    "entropy_from_logits_chunk_size >=0.9.0",
    "pad_to_length >=0.9.0",
    "pad_to_length_bucket >=0.9.0",
    "wrap_policy.min_num_params",
)
MEGATRON = (
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "param_offload",
    "dtype >=0.6.1",
    "override_transformer_config.recompute_granularity",
    "override_transformer_config.recompute_method",
    "override_transformer_config.recompute_num_layers",
    "override_transformer_config.num_layers_in_first_pipeline_stage",
    "override_transformer_config.num_layers_in_last_pipeline_stage",
    "override_transformer_config.account_for_embedding_in_pipeline_split",
    "override_transformer_config.account_for_loss_in_pipeline_split",
    "override_transformer_config.bias_activation_fusion",
    "override_transformer_config.apply_rope_fusion",
    "override_transformer_config.moe_token_dispatcher_type",
    "override_transformer_config.deallocate_pipeline_outputs",
    "virtual_pipeline_model_parallel_size",
    "use_mbridge >=0.5.0",
    "vanilla_mbridge >=0.7.0",
    "sequence_parallel >=0.7.0",
    "pad_bshd_to_minibatch_max >=0.9.0",
    "pad_to_length >=0.9.0",
    "pad_to_length_bucket >=0.9.0",
    "entropy_from_logits_with_chunking >=0.9.0",
    "entropy_from_logits_chunk_size >=0.9.0",
)
TRAINED_MEGATRON = (
    *MEGATRON,
    "optimizer_offload",
    "use_distributed_optimizer",
    "use_dist_checkpointing",
    "dist_ckpt_optim_fully_reshardable >=0.7.1",
    "distrib_optim_fully_reshardable_mem_efficient >=0.7.1",
    "override_ddp_config.grad_reduce_in_fp32 >=0.5.0",
    "override_transformer_config.gradient_accumulation_fusion",
    "override_transformer_config.recompute_modules >=0.5.0",
    "override_transformer_config.moe_z_loss_coeff",
    "override_transformer_config.moe_aux_loss_coeff",
    "override_transformer_config.moe_router_load_balancing_type",
    f"use_remove_padding >=0.7.0 <{ENGINE_PREVIEW}",
)
CRITIC_BATCHES = (  # of the new workers
    f"use_dynamic_bsz >={ENGINE_PREVIEW}",
    f"micro_batch_size_per_gpu >={ENGINE_PREVIEW}",
    f"infer_micro_batch_size_per_gpu >={ENGINE_PREVIEW}",
)
