"""Where a job of verl was when it stopped: functions of its stack, and the phase and the work each tells.

Of phases the first row counts that any call of the stack fits, since the calls of a phase stand around
those that other phases share: ``compute_ref_log_prob`` calls ``compute_log_prob``. Of work the innermost
call counts.

Sources: verl 0.3.0.post1 to 0.9.1, ``workers/fsdp_workers.py``, ``workers/megatron_workers.py``,
``workers/engine_workers.py``, ``workers/actor/``, ``workers/critic/``, ``workers/engine/``,
``workers/sharding_manager/``, ``workers/rollout/``, ``trainer/ppo/ray_trainer.py``, ``utils/fsdp_utils.py``,
``utils/megatron_utils.py``, ``utils/torch_functional.py``; torch ``optim/adamw.py``, ``distributed/fsdp``;
vLLM ``v1/worker``; SGLang ``srt/model_executor``.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from tuner.out_of_memory.stack import Call
from tuner.workload import Phase
from tuner.workload.place import FailedWork, FailurePlace


class _Calls(Struct, frozen=True, kw_only=True):
    """Calls that tell the same: by the function, which may be the one that a line calls, or by that line."""

    functions: str = ""  # names, parted by blanks
    code: str = ""  # an expression for the line of the program
    file: str = ""  # an expression for the file
    of_task: bool = False  # the functions are endings of the names of Ray's tasks

    def fits(self, call: Call) -> bool:
        if self.file and not re.search(self.file, call.file):
            return False
        if self.of_task and call.file:
            return False
        if self.functions:
            name = call.function.rpartition(".")[2]
            names = self.functions.split()
            if name in names or (not call.file and name.endswith(tuple(f"_{own}" for own in names))):
                return True
            if call.code and re.search(rf"\b(?:{'|'.join(map(re.escape, names))})\(", call.code):
                return True
        return bool(self.code) and re.search(self.code, call.code) is not None


_STARTING: tuple[Phase, ...] = ()
_SYNC = (Phase.UPDATE_WEIGHTS,)

# The phases that a row tells, one of which it was; none is the start of the job.
_PHASES: tuple[tuple[_Calls, tuple[Phase, ...]], ...] = (
    (
        _Calls(
            functions="init_workers init_model _build_rollout _build_model_optimizer _build_model "
            "_build_critic_model_optimizer _build_rm_model launch_server load_model capture_model "
            "capture_cuda_graph init_device_graphs _capture_cudagraphs determine_num_available_blocks "
            "determine_available_memory profile_run _dummy_run _dummy_sampler_run initialize_cache "
            "_initialize_kv_caches initialize_from_config initialize_kv_cache init_memory_pool "
            "profile_max_num_token check_enough_kv_cache_memory _check_enough_kv_cache_memory "
            "get_kv_cache_configs _load_checkpoint load_checkpoint"
        ),
        _STARTING,
    ),
    (
        _Calls(functions="save_checkpoint _save_checkpoint _fit_save_checkpoint"),
        (Phase.SAVE_CHECKPOINT,),
    ),
    (_Calls(code=r"(?:wake_up|resume\w*)\(.*kv_cache", functions="resume_kv_cache"), (Phase.WAKE_UP,)),
    (_Calls(code=r"(?:wake_up|resume\w*)\(.*weights"), _SYNC),
    (
        _Calls(
            functions="update_params update_weights update_weights_from_ipc update_weights_from_tensor "
            "_update_weights _fit_update_weights sync_weights sync_rollout_weights sync_hybrid_weights "
            "receive_weights send_weights load_weights per_tensor_generator layered_summon_lora_params "
            "collect_lora_params"
        ),
        _SYNC,
    ),
    (
        _Calls(functions="wake_up resume resume_memory_occupation"),
        (Phase.UPDATE_WEIGHTS, Phase.WAKE_UP),
    ),
    (_Calls(functions="__enter__ rollout_mode", file="sharding_manager|workers"), _SYNC),
    (
        _Calls(functions="compute_ref_log_prob _compute_ref_log_prob _fit_compute_ref_log_prob"),
        (Phase.REF_LOG_PROB,),
    ),
    (_Calls(functions="compute_rm_score"), (Phase.REWARD,)),
    (
        _Calls(functions="compute_values _compute_values _fit_compute_critic critic_infer_batch"),
        (Phase.VALUES,),
    ),
    (
        _Calls(
            functions="update_critic _update_critic _fit_update_critic critic_train_mini_batch "
            "critic_train_batch"
        ),
        (Phase.UPDATE_CRITIC,),
    ),
    (
        _Calls(functions="compute_log_prob _compute_old_log_prob _fit_compute_log_prob"),
        (Phase.OLD_LOG_PROB,),
    ),
    (
        _Calls(functions="update_actor _update_actor _fit_update_actor update_policy"),
        (Phase.UPDATE_ACTOR,),
    ),
    (
        _Calls(functions="_optimizer_step _forward_micro_batch", file="dp_critic"),
        (Phase.UPDATE_CRITIC, Phase.VALUES),
    ),
    (_Calls(functions="_optimizer_step", file="dp_actor"), (Phase.UPDATE_ACTOR,)),
    (
        _Calls(functions="fit training_step _compute_loss_and_backward", file="sft_trainer"),
        (Phase.TRAIN,),
    ),
    (
        _Calls(functions="train_mini_batch train_batch optimizer_step backward"),
        (Phase.UPDATE_ACTOR, Phase.UPDATE_CRITIC),
    ),
    (_Calls(functions="infer_batch"), (Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES)),
    (
        _Calls(functions="_forward_micro_batch", file="dp_actor"),
        (Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.UPDATE_ACTOR),
    ),
    (
        _Calls(
            functions="generate_sequences generate_sequences_with_tools _fit_generate execute_model "
            "forward_batch_generation run_batch sample_tokens"
        ),
        (Phase.ROLLOUT,),
    ),
)

_WORK: tuple[tuple[_Calls, FailedWork], ...] = (
    (
        _Calls(functions="capture_model capture_cuda_graph init_device_graphs _capture_cudagraphs"),
        FailedWork.GRAPHS,
    ),
    (
        _Calls(
            functions="determine_num_available_blocks determine_available_memory profile_run _dummy_run "
            "_dummy_sampler_run profile_max_num_token"
        ),
        FailedWork.TRIAL_RUN,
    ),
    (
        _Calls(
            functions="initialize_cache _initialize_kv_caches initialize_kv_cache init_memory_pool "
            "_allocate_kv_cache_tensors _allocate_kv_cache _create_buffers check_enough_kv_cache_memory "
            "_check_enough_kv_cache_memory get_kv_cache_configs resume_kv_cache",
            code=r"(?:wake_up|resume\w*)\(.*kv_cache",
        ),
        FailedWork.CACHE,
    ),
    (
        _Calls(functions="load_model", code=r"(?:wake_up|resume\w*)\(.*weights", file="vllm|sglang|verl"),
        FailedWork.ENGINE_WEIGHTS,
    ),
    (
        _Calls(
            functions="load_fsdp_model_to_gpu load_fsdp2_model_to_gpu load_fsdp_optimizer "
            "load_megatron_model_to_gpu load_megatron_optimizer load_megatron_copy_params "
            "load_megatron_param_and_grad load_tensor_to_gpu load_group_to_gpu"
        ),
        FailedWork.LOADING,
    ),
    (
        _Calls(
            functions="_optimizer_step optimizer_step _init_group adam adamw _multi_tensor_adam "
            "_multi_tensor_adamw _fused_adam _fused_adamw _single_tensor_adamw step_with_ready_grads"
        ),
        FailedWork.OPTIMIZER,
    ),
    (_Calls(functions="step", file=r"torch/optim|megatron/core/optimizer"), FailedWork.OPTIMIZER),
    (
        _Calls(
            functions="clip_grad_norm_ clip_grad_norm fsdp2_clip_grad_norm_ foreach_reduce _reduce_grad "
            "reduce_scatter_tensor _post_backward_hook finish_grad_sync"
        ),
        FailedWork.GRADIENTS,
    ),
    (
        _Calls(
            functions="entropy_from_logits entropy_from_logits_with_chunking vocab_parallel_entropy "
            "compute_entropy_from_logits "
            "vocab_parallel_entropy_with_chunking vocab_parallel_sum_pi_squared cross_entropy "
            "calculate_sum_pi_squared_from_logits cross_entropy_loss vocab_parallel_cross_entropy "
            "vocab_parallel_log_softmax log_softmax _compute_distributed_log_softmax",
            code=r"log_softmax\(|logsumexp\(|softmax\(\w*logits",
        ),
        FailedWork.ENTROPY,
    ),
    (
        _Calls(
            functions="logprobs_from_logits logprobs_from_logits_flash_attn logprobs_from_logits_naive "
            "logprobs_from_logits_v2 log_probs_from_logits_response_rmpad linear_cross_entropy "
            "vocab_parallel_log_probs_from_logits compute_logits logits_processor _get_token_logprobs",
            code=r"lm_head\(|output_layer\(|\blogits(?:_rmpad)?\b.*[=(.]",
        ),
        FailedWork.LOGITS,
    ),
    (
        _Calls(
            functions="scaled_dot_product_attention eager_attention_forward sdpa_attention_forward "
            "flash_attention_forward _flash_attention_forward flash_attn_varlen_func flash_attn_func "
            "attention_interface",
            code=r"matmul\(query|UnfusedDotProductAttention|unfused_attention|attn_weights",
        ),
        FailedWork.ATTENTION,
    ),
    (
        _Calls(functions="forward", file=r"UnfusedDotProductAttention|dot_product_attention"),
        FailedWork.ATTENTION,
    ),
    (
        _Calls(
            functions="_unshard unshard _pre_forward_unshard _pre_backward_unshard foreach_all_gather "
            "all_gather_into_tensor _all_gather_base _alloc_storage _use_unsharded_flat_param full_tensor "
            "summon_full_params"
        ),
        FailedWork.GATHERING,
    ),
    (
        _Calls(code=r"down_proj\(|gate_proj\(|act_fn\(|self_attn\(|\bself\.mlp\(|experts\("),
        FailedWork.LAYER,
    ),
    (_Calls(functions="forward", file=r"transformers/models/|megatron/core/transformer"), FailedWork.LAYER),
    (
        _Calls(functions="save_checkpoint _save_checkpoint dist_checkpointing save_dist_checkpointing"),
        FailedWork.SAVING,
    ),
    (_Calls(functions="_engine_run_backward run_backward backward"), FailedWork.BACKWARD),
    (
        _Calls(
            functions="update_params update_weights update_weights_from_ipc update_weights_from_tensor "
            "_update_weights sync_weights sync_rollout_weights receive_weights send_weights load_weights "
            "per_tensor_generator layered_summon_lora_params collect_lora_params"
        ),
        FailedWork.SYNC,
    ),
    (
        _Calls(
            functions="_build_model_optimizer _build_model _build_critic_model_optimizer _build_fsdp_module "
            "_build_module parallel_load_safetensors fsdp2_load_full_state_dict from_pretrained"
        ),
        FailedWork.BUILDING,
    ),
)


def place_of(calls: Sequence[Call]) -> FailurePlace:
    """Where a job was, as far as the calls of its stack tell."""
    phases: tuple[Phase, ...] = ()
    phase_call = work = work_call = None
    for row, phase in _PHASES:
        phase_call = next((call for call in reversed(calls) if row.fits(call)), None)
        if phase_call is not None:
            phases = phase
            break
    for call in reversed(calls):
        work = next((phase for row, phase in _WORK if row.fits(call)), None)
        if work is not None:
            work_call = call
            break
    return FailurePlace(
        phases=phases,
        before_steps=phase_call is not None and not phases,
        phase_call=phase_call,
        work=work,
        work_call=work_call,
    )
