"""Keys of the rollout by meaning, and of recipes that generate on GPUs of their own.

How the releases behind a key are written says :mod:`tuner.trainers.verl.keys`.
"""

from collections.abc import Mapping

from tuner.trainers.verl.releases import ENGINE_PREVIEW

#: Within ``actor_rollout_ref.rollout``.
ROLLOUT: Mapping[str, str | tuple[str, ...]] = {
    "rollout.engine": "name",
    "rollout.mode": "mode >=0.4.0",
    "rollout.agent_workers": "agent.num_workers >=0.5.0",
    "conversation.enable": "multi_turn.enable >=0.4.0",
    "conversation.assistant_turns": (
        "multi_turn.max_turns >=0.4.0 <0.4.1",
        "multi_turn.max_assistant_turns >=0.4.1",
    ),
    "conversation.user_turns": "multi_turn.max_user_turns >=0.4.1",
    "conversation.tool_characters": "multi_turn.max_tool_response_length >=0.5.0",
    "conversation.tools": "multi_turn.tool_config_path >=0.4.0",
    "conversation.functions": "multi_turn.function_tool_path >=0.8.0",
    "conversation.interactions": "multi_turn.interaction_config_path >=0.4.1 <0.8.0",
    "conversation.loop": "agent.default_agent_loop >=0.6.0",
    "batch.responses_per_prompt": "n",
    "log_prob.dynamic": "log_prob_use_dynamic_bsz",
    "log_prob.token_budget": "log_prob_max_token_len_per_gpu",
    "log_prob.micro_batch": "log_prob_micro_batch_size_per_gpu",
    "log_prob.global_micro_batch": f"log_prob_micro_batch_size <{ENGINE_PREVIEW}",
    "rollout.gpus_per_node": "n_gpus_per_node >=0.7.1",
    "rollout.nodes": "nnodes >=0.7.1",
    "rollout.temperature": "temperature",
    "rollout.memory_fraction": "gpu_memory_utilization",
    "rollout.standalone_fraction": "standalone_gpu_memory_utilization >=0.9.0",
    "rollout.tensor_parallel": "tensor_model_parallel_size",
    "rollout.data_parallel": "data_parallel_size >=0.6.0",
    "rollout.pipeline_parallel": "pipeline_model_parallel_size >=0.6.0",
    "rollout.expert_parallel": "expert_parallel_size >=0.6.0",
    "rollout.dtype": "dtype",
    "rollout.quantization": "quantization >=0.7.0",
    "rollout.vllm_kv_dtype": "engine_kwargs.vllm.kv_cache_dtype >=0.4.0",
    "rollout.sglang_kv_dtype": "engine_kwargs.sglang.kv_cache_dtype >=0.6.1",
    "rollout.vllm_quantization": "engine_kwargs.vllm.quantization >=0.4.0",
    "rollout.sglang_quantization": "engine_kwargs.sglang.quantization >=0.6.1",
    "rollout.sglang_fraction": "engine_kwargs.sglang.mem_fraction_static >=0.6.1",
    "rollout.sglang_sequences": "engine_kwargs.sglang.max_running_requests >=0.6.1",
    "rollout.sglang_chunk": "engine_kwargs.sglang.chunked_prefill_size >=0.6.1",
    "rollout.sglang_largest_graph": "engine_kwargs.sglang.cuda_graph_max_bs >=0.6.1",
    "rollout.sglang_no_prefixes": "engine_kwargs.sglang.disable_radix_cache >=0.6.1",
    "rollout.max_sequences": "max_num_seqs >=0.6.0",
    "rollout.max_batched_tokens": "max_num_batched_tokens",
    "rollout.limit_images": "limit_images >=0.6.0",
    "rollout.image_cache_gib": "engine_kwargs.vllm.mm_processor_cache_gb >=0.4.0",
    "rollout.no_image_cache": "engine_kwargs.vllm.disable_mm_preprocessor_cache >=0.4.0",
    "rollout.prompt_length": "prompt_length",
    "rollout.response_length": "response_length",
    # the servers of 0.7.0 are built for all positions of the model, whatever it says
    "rollout.max_model_tokens": ("max_model_len <0.7.0", "max_model_len >=0.7.1"),
    "rollout.enforce_eager": "enforce_eager",
    "rollout.capture_sizes": "cudagraph_capture_sizes >=0.6.0",
    "rollout.vllm_compilation": "engine_kwargs.vllm.compilation_config >=0.4.0",
    "rollout.vllm_capture_sizes": "engine_kwargs.vllm.compilation_config.cudagraph_capture_sizes >=0.4.0",
    "rollout.chunked_prefill": "enable_chunked_prefill",
    "rollout.prefix_caching": "enable_prefix_caching >=0.6.0",
    "rollout.disable_log_stats": "disable_log_stats",
    "rollout.calculate_log_probs": "calculate_log_probs >=0.4.1",
    "rollout.load_format": "load_format",
    "rollout.layered_summon": "layered_summon >=0.4.0",
    "rollout.free_cache": "free_cache_engine >=0.5.0",
    # up to 0.4 verl only asserts that it is off together with enforce_eager; vLLM sleeps all the same
    "rollout.unused_free_cache": "free_cache_engine <0.5.0",
    "rollout.multi_stage_wake_up": "multi_stage_wake_up >=0.4.1 <0.6.0",
    "rollout.sleep_mode": "enable_sleep_mode >=0.7.0",
    "sync.bucket_megabytes": (
        "update_weights_bucket_megabytes >=0.5.0 <0.7.1",
        "checkpoint_engine.update_weights_bucket_megabytes >=0.7.1",
    ),
    "sync.carrier": "checkpoint_engine.backend >=0.7.1",
    "sync.carrier_device": "checkpoint_engine.engine_kwargs.nixl.device >=0.7.1",
}
#: At the root: one step off-policy, fully asynchronous, ``async_flow`` of verl's repository of recipes.
RECIPES = {
    "recipe.trainer_gpus_per_node": "async_resources.actor_train.n_gpus_per_node",
    "recipe.trainer_nodes": "async_resources.actor_train.nnodes",
    "recipe.rollout_gpus_per_node": "rollout.n_gpus_per_node",
    "recipe.rollout_nodes": "rollout.nnodes",
    "recipe.mini_batches": "async_training.require_batches",
    "recipe.prompts_per_replica": "async_training.concurrent_samples_per_replica >=0.9.0",
    "recipe.takes_log_probs": "async_training.use_rollout_log_probs >=0.6.0 <0.7.1",
    "recipe.recomputes_log_probs": "async_training.compute_prox_log_prob >=0.6.0 <0.7.1",
}
