"""Wrong values in keys that memory depends on: one message that names place, key and value."""

import pytest

from tests.trainers.launches import ACTOR, DYNAMIC, MODEL, PPO, REF, ROLLOUT, workload_of
from tuner.errors import InputError

WRONG = (
    "data.train_batch_size=many",
    "data.train_batch_size=0",
    "data.max_prompt_length=1024.5",
    "data.max_response_length=[1,2]",
    "data.gen_batch_size=no",
    f"{ACTOR}.ppo_mini_batch_size=-8",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=two",
    f"{ACTOR}.ppo_epochs=0",
    f"{ACTOR}.use_dynamic_bsz=sometimes",
    f"{ACTOR}.ppo_max_token_len_per_gpu=16k",
    f"{ACTOR}.entropy_coeff=high",
    f"{ACTOR}.use_kl_loss=maybe",
    f"{ACTOR}.ulysses_sequence_parallel_size=two",
    f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=0",
    f"{ACTOR}.fsdp_config.fsdp_size=0",
    f"{ACTOR}.fsdp_config.fsdp_size=-2",
    f"{ACTOR}.fsdp_config.model_dtype=bf17",
    f"{ACTOR}.fsdp_config.param_offload=1.5",
    f"{ACTOR}.fsdp_config.offload_policy=cpu",
    f"{ACTOR}.fsdp_config.use_torch_compile=inductor",
    f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking=2048",
    f"{MODEL}.use_remove_padding=none",
    f"{MODEL}.enable_gradient_checkpointing=full",
    f"{MODEL}.use_fused_kernels=triton",
    f"{MODEL}.lora_rank=-1",
    f"{REF}.log_prob_max_token_len_per_gpu=0",
    f"{REF}.fsdp_config.model_dtype=half precision",
    f"{ROLLOUT}.name=tgi",
    f"{ROLLOUT}.n=0",
    f"{ROLLOUT}.temperature=warm",
    f"{ROLLOUT}.gpu_memory_utilization=1.2",
    f"{ROLLOUT}.gpu_memory_utilization=80%",
    f"{ROLLOUT}.tensor_model_parallel_size=0",
    f"{ROLLOUT}.dtype=int4",
    f"{ROLLOUT}.max_num_seqs=unlimited",
    f"{ROLLOUT}.max_num_batched_tokens=8k",
    f"{ROLLOUT}.max_model_len=long",
    f"{ROLLOUT}.enforce_eager=auto",
    f"{ROLLOUT}.cudagraph_capture_sizes=[1,two]",
    f"{ROLLOUT}.free_cache_engine=soon",
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes=2G",
    "critic.fsdp.fsdp_size=all",
    "critic.strategy=fsdp3",
)


@pytest.mark.parametrize("override", WRONG)
def test_a_wrong_value_is_named_with_its_key_and_place(override: str) -> None:
    overrides = (*PPO, f"{MODEL}.lora_rank=0", override)
    with pytest.raises(InputError) as caught:
        workload_of(overrides, "0.9.1")
    assert caught.value.key == override.partition("=")[0]
    assert caught.value.location is not None
    assert caught.value.location.line == len(overrides)


def test_an_interpolated_value_is_blamed_on_where_it_was_set() -> None:
    overrides = (*DYNAMIC, f"{ACTOR}.ppo_max_token_len_per_gpu=lots")
    with pytest.raises(InputError, match="lots") as caught:
        workload_of(overrides, "0.5.0")
    assert caught.value.location is not None
    assert caught.value.location.line == len(overrides)


@pytest.mark.parametrize(
    "override",
    [
        f"{ACTOR}.ppo_micro_batch_size=8",  # dead, asserted against by verl
        f"{ACTOR}.ppo_mini_batch_size=100000",
        f"{ROLLOUT}.mode=sync",
        f"{ROLLOUT}.load_format=unheard_of",
        f"{ROLLOUT}.tensor_model_parallel_size=3",
        f"{MODEL}.fused_kernel_options.impl_backend=unheard_of",
    ],
)
def test_what_a_check_reports_can_be_read(override: str) -> None:
    workload_of((*DYNAMIC, override), "0.9.1")
