"""What each release makes of the same settings."""

import pytest
from msgspec.structs import replace

from tests.trainers.launches import (
    ACTOR,
    DYNAMIC,
    GRPO,
    LORA,
    MEGATRON,
    MODEL,
    PPO,
    REF,
    ROLLOUT,
    SGLANG,
    STATIC,
    VERSIONS,
    before,
    by_release,
    settings_of,
    since,
    workload_of,
)
from tests.workloads import QWEN3_30B_A3B, QWEN25_0_5B, QWEN25_7B
from tuner.dtypes import DType
from tuner.errors import InputError
from tuner.model_shape import LatentAttention, ModelShape
from tuner.models import find_model
from tuner.trainers.verl.read import cluster_size, critic_model_path, model_path
from tuner.units import MIB
from tuner.workload import (
    Backend,
    Checkpointing,
    Dispatcher,
    Engine,
    FractionOf,
    HeadKind,
    HostCopy,
    RolloutEngine,
    Scaling,
)


def engine_of(overrides: tuple[str, ...], version: str) -> Engine:
    return workload_of(overrides, version).actor.engine


# -- batch and passes ----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_sizes(version: str) -> None:
    batch = workload_of(STATIC, version).batch
    assert (batch.prompts, batch.responses_per_prompt, batch.mini_batch_prompts) == (512, 8, 128)
    assert (batch.max_prompt_tokens, batch.max_response_tokens, batch.epochs) == (1024, 3072, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_static_passes(version: str) -> None:
    workload = workload_of(STATIC, version)
    assert workload.actor.log_prob is not None
    assert workload.reference is not None
    passes = (workload.actor.update, workload.actor.log_prob, workload.reference.log_prob)
    assert [one.batching.dynamic for one in passes] == [False] * 3
    assert [one.batching.micro_batch_sequences for one in passes] == [2, 4, 4]


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamic_batching_and_budgets_follow_the_actor(version: str) -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.ppo_max_token_len_per_gpu=20480"), version)
    assert workload.actor.log_prob is not None
    assert workload.reference is not None
    passes = (workload.actor.update, workload.actor.log_prob, workload.reference.log_prob)
    assert all(one.batching.dynamic for one in passes)
    assert [one.batching.token_budget for one in passes] == [20480] * 3


@pytest.mark.parametrize(("version", "expected"), by_release(4, ("0.8.0", 1)))
def test_a_global_micro_batch_is_divided_over_the_ranks_until_it_is_dead(version: str, expected: int) -> None:
    overrides = (*GRPO, f"{ACTOR}.ppo_micro_batch_size=16", f"{ACTOR}.ulysses_sequence_parallel_size=2")
    assert workload_of(overrides, version).actor.update.batching.micro_batch_sequences == expected


def test_a_micro_batch_that_nothing_says_is_one() -> None:
    assert workload_of(GRPO, "0.9.1").actor.update.batching.micro_batch_sequences == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_entropy_is_computed_in_log_probs_and_on_request_in_the_update(version: str) -> None:
    plain = workload_of(DYNAMIC, version)
    regularised = workload_of((*DYNAMIC, f"{ACTOR}.entropy_coeff=0.01"), version)
    assert plain.actor.log_prob is not None
    assert plain.reference is not None
    assert (plain.actor.log_prob.entropy, plain.actor.update.entropy) == (True, False)
    assert plain.reference.log_prob.entropy is False
    assert regularised.actor.update.entropy is True


def test_an_entropy_metric_counts_like_an_entropy_loss() -> None:
    assert workload_of((*DYNAMIC, f"{ACTOR}.calculate_entropy=True"), "0.9.1").actor.update.entropy


@pytest.mark.parametrize("version", since("0.6.1"))
def test_bypass_mode_drops_old_log_probs(version: str) -> None:
    overrides = (*DYNAMIC, "algorithm.rollout_correction.bypass_mode=True")
    assert workload_of(overrides, version).actor.log_prob is None


# -- engines -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_fsdp_defaults(version: str) -> None:
    engine = engine_of(STATIC, version)
    assert engine.backend is Backend.FSDP
    assert (engine.stored_dtype, engine.compute_dtype, engine.reduce_dtype) == (
        DType.FLOAT32,
        DType.BFLOAT16,
        DType.FLOAT32,
    )
    assert engine.checkpointing is Checkpointing.FULL
    assert engine.parallel.shard == engine.parallel.gpus == 8


@pytest.mark.parametrize(("size", "shard"), [(-1, 16), (8, 8), (2, 2), (64, 16)])
def test_shard_group(size: int, shard: int) -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.fsdp_config.fsdp_size={size}"), "0.9.1", nodes=2)
    assert workload.actor.engine.parallel.shard == shard


@pytest.mark.parametrize(("version", "expected"), by_release("bf16", ("0.6.0", "fp32")))
def test_dtype_of_the_reference(version: str, expected: str) -> None:
    reference = workload_of(DYNAMIC, version).reference
    assert reference is not None
    assert reference.engine.stored_dtype is {"bf16": DType.BFLOAT16, "fp32": DType.FLOAT32}[expected]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overrides", [STATIC, DYNAMIC])
def test_a_reference_under_fsdp_is_always_offloaded(version: str, overrides: tuple[str, ...]) -> None:
    reference = workload_of((*overrides, f"{REF}.fsdp_config.param_offload=False"), version).reference
    assert reference is not None
    assert reference.engine.streamed_offload
    assert not reference.engine.param_offload


@pytest.mark.parametrize("version", VERSIONS)
def test_offload_policy_is_for_fsdp2(version: str) -> None:
    policy = (f"{ACTOR}.fsdp_config.offload_policy=True", f"{ACTOR}.fsdp_config.param_offload=True")
    second, first = engine_of((*DYNAMIC, *policy), version), engine_of((*STATIC, *policy), version)
    assert (second.streamed_offload, second.param_offload) == (True, False)
    assert (first.streamed_offload, first.param_offload) == (False, True)


@pytest.mark.parametrize(("version", "expected"), by_release(True, ("0.7.0", False)))
def test_fsdp1_heeds_reshard_after_forward_since_0_7(version: str, expected: bool) -> None:
    assert (
        engine_of(
            (*STATIC, f"{ACTOR}.fsdp_config.reshard_after_forward=False"), version
        ).reshard_after_forward
        is expected
    )


@pytest.mark.parametrize(("version", "legacy"), by_release(True, ("0.8.0", False)))
def test_legacy_workers_free_the_root_of_fsdp1_and_engines_only_with_a_shard_size(
    version: str, legacy: bool
) -> None:
    workload = workload_of(STATIC, version)
    assert workload.reference is not None
    assert (workload.actor.engine.frees_root, workload.reference.engine.frees_root) == (legacy, legacy)
    assert engine_of((*STATIC, f"{ACTOR}.fsdp_config.fsdp_size=8"), version).frees_root
    assert not engine_of((*STATIC, f"{ACTOR}.fsdp_config.fsdp_size=1"), version).frees_root or legacy


@pytest.mark.parametrize(("version", "expected"), by_release(False, ("0.6.0", True), ("0.8.0", False)))
def test_legacy_workers_free_the_root_of_fsdp2s_reference_since_0_6(version: str, expected: bool) -> None:
    workload = workload_of(DYNAMIC, version)
    assert workload.reference is not None
    assert workload.reference.engine.frees_root is expected
    assert not workload.actor.engine.frees_root


@pytest.mark.parametrize("version", VERSIONS)
def test_no_release_frees_the_root_of_a_critic_by_itself(version: str) -> None:
    critic = workload_of((*STATIC, "algorithm.adv_estimator=gae"), version).critic
    assert critic is not None
    assert not critic.engine.frees_root


@pytest.mark.parametrize(("version", "expected"), by_release(True, ("0.6.0", False)))
def test_fsdp2_keeps_its_root_with_the_torch_of_releases_before_0_6(version: str, expected: bool) -> None:
    assert engine_of(DYNAMIC, version).keeps_root is expected
    assert not engine_of(STATIC, version).keeps_root


@pytest.mark.parametrize(("version", "expected"), by_release(False, ("0.8.0", True)))
def test_fsdp2_heeds_forward_prefetch_since_0_8(version: str, expected: bool) -> None:
    prefetch = f"{ACTOR}.fsdp_config.forward_prefetch=True"
    assert engine_of((*DYNAMIC, prefetch), version).prefetch_effective is expected
    assert engine_of((*STATIC, prefetch), version).prefetch_effective


@pytest.mark.parametrize(("version", "expected"), by_release(False, ("0.7.1", True)))
def test_fsdp2_wraps_an_untied_embedding_and_head_since_0_7_1(version: str, expected: bool) -> None:
    assert engine_of(DYNAMIC, version).separate_embedding_units is expected
    assert not workload_of(DYNAMIC, version, model=QWEN25_0_5B).actor.engine.separate_embedding_units
    assert not engine_of(STATIC, version).separate_embedding_units


def test_deferred_gradient_sync_is_asked_for_in_0_9_1() -> None:
    assert not engine_of(DYNAMIC, "0.9.1").deferred_gradient_sync
    switch = f"{ACTOR}.fsdp_config.use_no_sync_for_gradient_accumulation=True"
    assert engine_of((*DYNAMIC, switch), "0.9.1").deferred_gradient_sync


@pytest.mark.parametrize(("version", "expected"), by_release(False, ("0.7.0", True)))
def test_packing_is_the_default_since_0_7(version: str, expected: bool) -> None:
    overrides = tuple(override for override in GRPO if "remove_padding" not in override)
    workload = workload_of(overrides, version)
    assert workload.actor.engine.packed is expected
    assert workload.actor.head.compiled is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_ulysses_of_actor_and_reference(version: str) -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.ulysses_sequence_parallel_size=4"), version)
    assert workload.reference is not None
    assert workload.actor.engine.parallel.ulysses == workload.reference.engine.parallel.ulysses == 4
    assert workload.actor.engine.parallel.data == 2


def test_the_engines_own_ulysses_key_is_the_actors_alone() -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=4"), "0.9.1")
    assert workload.reference is not None
    assert (workload.actor.engine.parallel.ulysses, workload.reference.engine.parallel.ulysses) == (4, 1)


def test_mixed_precision() -> None:
    engine = engine_of(
        (
            *DYNAMIC,
            f"+{ACTOR}.fsdp_config.mixed_precision.param_dtype=fp16",
            f"+{ACTOR}.fsdp_config.mixed_precision.reduce_dtype=bf16",
        ),
        "0.9.1",
    )
    assert (engine.compute_dtype, engine.reduce_dtype) == (DType.FLOAT16, DType.BFLOAT16)


def test_fsdp_turbo_counts_as_fsdp2_and_of_torchtitan_no_more_than_its_name_is_read() -> None:
    assert engine_of((*DYNAMIC, f"{ACTOR}.strategy=fsdp_turbo"), "0.9.1").backend is Backend.FSDP2
    titan = engine_of((*DYNAMIC, f"{ACTOR}.strategy=torchtitan"), "0.9.1")
    assert (titan.backend, titan.library, titan.name) == (Backend.NOT_MODELLED, "TorchTitan", "TorchTitan")


# -- head ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "at_one", "at_other"),
    [
        *[(version, Scaling.IN_PLACE, Scaling.IN_PLACE) for version in before("0.9.0")],
        ("0.9.0", Scaling.COPY, Scaling.COPY),
        ("0.9.1", Scaling.NONE, Scaling.COPY),
    ],
)
def test_temperature(version: str, at_one: Scaling, at_other: Scaling) -> None:
    assert workload_of(DYNAMIC, version).actor.head.scaling is at_one
    assert workload_of((*DYNAMIC, f"{ROLLOUT}.temperature=0.7"), version).actor.head.scaling is at_other


@pytest.mark.parametrize(("version", "clones"), by_release(False, ("0.6.0", True)))
def test_megatrons_cross_entropy_works_on_a_clone_since_0_6(version: str, clones: bool) -> None:
    assert workload_of(MEGATRON, version).actor.head.clones_logits is clones
    assert not workload_of(DYNAMIC, version).actor.head.clones_logits


@pytest.mark.parametrize(
    ("version", "key"),
    by_release("actor.use_torch_compile", ("0.8.0", "actor.fsdp_config.use_torch_compile")),
)
def test_the_live_compile_key(version: str, key: str) -> None:
    assert workload_of(DYNAMIC, version).actor.head.compiled
    assert not workload_of((*DYNAMIC, f"actor_rollout_ref.{key}=False"), version).actor.head.compiled


def test_the_dead_compile_key_does_nothing() -> None:
    assert workload_of((*DYNAMIC, f"{ACTOR}.use_torch_compile=False"), "0.9.1").actor.head.compiled


@pytest.mark.parametrize(
    ("version", "expected"), by_release(None, ("0.4.1", 2048), ("0.8.0", None), ("0.9.0", 2048))
)
def test_the_actors_chunking_key_comes_with_0_4_1_and_is_dead_in_0_8(
    version: str, expected: int | None
) -> None:
    overrides = (*DYNAMIC, f"{ACTOR}.entropy_from_logits_with_chunking=True")
    assert workload_of(overrides, version).actor.head.chunk_tokens == expected


def test_chunk_size() -> None:
    chunked = (
        *DYNAMIC,
        f"{ACTOR}.entropy_from_logits_with_chunking=True",
        f"{ACTOR}.entropy_from_logits_chunk_size=512",
    )
    assert workload_of(chunked, "0.9.1").actor.head.chunk_tokens == 512
    checkpointed = (*chunked, f"{ACTOR}.entropy_checkpointing=True")
    assert workload_of(checkpointed, "0.9.1").actor.head.chunk_tokens == 2048


def test_without_packing_entropy_is_eager_and_whole() -> None:
    overrides = (
        *DYNAMIC,
        f"{MODEL}.use_remove_padding=False",
        f"{ACTOR}.entropy_from_logits_with_chunking=True",
    )
    head = workload_of(overrides, "0.9.1").actor.head
    assert (head.compiled, head.chunk_tokens, head.fusable) == (False, None, ())


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        ("torch", HeadKind.FUSED_TORCH),
        ("triton", HeadKind.FUSED_TRITON),
        ("liger", HeadKind.FUSED_LIGER),
        ("unheard-of", HeadKind.FUSED_TORCH),
    ],
)
def test_fused_heads(backend: str, kind: HeadKind) -> None:
    fused = (
        *DYNAMIC,
        f"{MODEL}.use_fused_kernels=True",
        f"{MODEL}.fused_kernel_options.impl_backend={backend}",
    )
    workload = workload_of(fused, "0.9.1")
    assert workload.actor.head.kind is kind
    assert workload.reference is not None
    assert workload.reference.head.kind is kind


@pytest.mark.parametrize("library", ["tuner.inside_verl", "[mine,tuner.inside_verl]"])
@pytest.mark.parametrize("job", [STATIC, MEGATRON])
def test_our_head_is_in_the_place_of_every_fused_one(job: tuple[str, ...], library: str) -> None:
    asked = (*job, f"+{MODEL}.external_lib={library}")
    assert workload_of(asked, "0.9.1").actor.head.kind is HeadKind.LOGITS
    assert workload_of(asked, "0.9.1").actor.head.fusable == (HeadKind.FUSED_TUNER,)
    for backend in ("torch", "triton"):
        options = (f"{MODEL}.use_fused_kernels=True", f"+{MODEL}.fused_kernel_options.impl_backend={backend}")
        assert workload_of((*asked, *options), "0.9.1").actor.head.kind is HeadKind.FUSED_TUNER
        if job is STATIC:
            assert workload_of((*asked, *options), "0.4.1").actor.head.kind is not HeadKind.FUSED_TUNER


@pytest.mark.parametrize(("architecture", "fused"), [("qwen2", True), ("seed_oss", False), ("gpt2", False)])
def test_liger_fuses_the_layers_of_types_that_it_knows(architecture: str, fused: bool) -> None:
    model = replace(QWEN25_7B, architecture=architecture)
    workload = workload_of((*STATIC, f"{MODEL}.use_liger=True"), "0.9.1", model=model)
    assert workload.reference is not None
    assert (workload.actor.engine.fused_layers, workload.reference.engine.fused_layers) == (fused, fused)


def test_fusable_heads() -> None:
    torch, triton = HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON
    assert workload_of(STATIC, "0.9.1").actor.head.fusable == (torch, triton)
    assert workload_of(DYNAMIC, "0.9.1").actor.head.fusable == ()  # untied head, a unit of its own
    assert workload_of(STATIC, "0.6.1").actor.head.fusable == (torch,)  # vocabulary is no multiple of 1024
    assert workload_of((*STATIC, f"{MODEL}.use_liger=True"), "0.8.0").actor.head.fusable == ()
    assert workload_of(MEGATRON, "0.9.1").actor.head.fusable == (triton,)
    capped = replace(QWEN25_7B, architecture="gemma2")
    assert workload_of(STATIC, "0.9.1", model=capped).actor.head.fusable == ()


# -- adapters ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_adapters_need_no_reference_of_their_own(version: str) -> None:
    workload = workload_of(LORA, version)
    assert workload.actor.engine.lora is not None
    assert workload.actor.engine.lora.rank == 32
    assert workload.reference is not None
    assert not workload.reference.separate
    assert workload.reference.engine == workload.actor.engine


@pytest.mark.parametrize(("version", "expected"), by_release(True, ("0.7.0", False)))
def test_a_reference_within_the_actor_computes_entropy_until_0_7(version: str, expected: bool) -> None:
    reference = workload_of(LORA, version).reference
    assert reference is not None
    assert reference.log_prob.entropy is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_fsdp1_gathers_the_model_for_its_adapters_unless_told_otherwise(version: str) -> None:
    assert workload_of(LORA, version).sync.gathers_whole_model
    assert not workload_of((*LORA, f"{ROLLOUT}.layered_summon=True"), version).sync.gathers_whole_model
    assert not workload_of((*LORA, f"{ACTOR}.strategy=fsdp2"), version).sync.gathers_whole_model


@pytest.mark.parametrize(("version", "expected"), by_release(DType.FLOAT32, ("0.9.0", DType.BFLOAT16)))
def test_moments_of_adapters_on_a_bfloat16_base(version: str, expected: DType) -> None:
    engine = engine_of((*LORA, f"++{ACTOR}.fsdp_config.model_dtype=bf16"), version)
    assert (engine.stored_dtype, engine.optimizer_dtype) == (DType.BFLOAT16, expected)


def test_an_adapter_of_unknown_rank_is_asked_about() -> None:
    with pytest.raises(InputError, match="rank") as caught:
        workload_of((*DYNAMIC, f"{MODEL}.lora_adapter_path=/adapters/one"), "0.7.1")
    assert caught.value.key == f"{MODEL}.lora_adapter_path"


# -- critic --------------------------------------------------------------------------------


def test_there_is_a_critic_for_gae_or_on_request() -> None:
    assert workload_of(PPO, "0.9.1").critic is not None
    assert workload_of(DYNAMIC, "0.9.1").critic is None
    assert workload_of((*DYNAMIC, "critic.enable=True"), "0.9.1").critic is not None
    assert workload_of((*PPO, "critic.enable=False"), "0.9.1").critic is None
    assert workload_of((*PPO, "algorithm.adv_estimator=null"), "0.9.1").critic is None


@pytest.mark.parametrize(("version", "tensor"), by_release(4, ("0.8.0", 1)))
def test_actor_and_critic_share_the_grid_of_the_one_that_is_built_first(version: str, tensor: int) -> None:
    overrides = (*MEGATRON, "algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B-Instruct")
    job = workload_of(overrides, version)
    assert job.critic is not None
    assert job.actor.engine.parallel.tensor == job.critic.engine.parallel.tensor == tensor


def test_a_critic_under_fsdp_leaves_the_actor_its_grid() -> None:
    overrides = (*MEGATRON, "algorithm.adv_estimator=gae", "critic.strategy=fsdp")
    job = workload_of((*overrides, f"{REF}.megatron.tensor_model_parallel_size=2"), "0.9.1")
    assert job.critic is not None and job.critic.engine.backend is Backend.FSDP
    assert job.actor.engine.parallel.tensor == 2  # the reference's


@pytest.mark.parametrize(
    ("version", "update", "values"),
    [(version, 40000, 40000) for version in before("0.8.0")]
    + [("0.8.0", 40000, 32768), ("0.9.0", 32768, 32768), ("0.9.1", 32768, 32768)],
)
def test_critic_budgets_reach_less_and_less(version: str, update: int, values: int) -> None:
    critic = workload_of((*PPO, "critic.ppo_max_token_len_per_gpu=40000"), version).critic
    assert critic is not None
    assert (critic.update.batching.token_budget, critic.values.batching.token_budget) == (update, values)


def test_the_critics_inference_budget_is_both_under_the_v1_trainer() -> None:
    overrides = (*PPO, "+critic.ppo_infer_max_token_len_per_gpu=65536")
    for extra, update in (((), 65536), (("trainer.use_v1=False",), 32768)):
        critic = workload_of((*overrides, *extra), "0.9.1").critic
        assert critic is not None
        assert (critic.update.batching.token_budget, critic.values.batching.token_budget) == (update, 65536)


@pytest.mark.parametrize(("version", "dynamic"), by_release(False, ("0.8.0", True)))
def test_a_critic_of_the_model_engines_is_always_dynamic(version: str, dynamic: bool) -> None:
    critic = workload_of(
        (*PPO, "critic.use_dynamic_bsz=False", "critic.ppo_micro_batch_size_per_gpu=8"), version
    ).critic
    assert critic is not None
    assert critic.update.batching.dynamic is dynamic
    assert dynamic or critic.update.batching.micro_batch_sequences == 8


@pytest.mark.parametrize("version", VERSIONS)
def test_a_critic_has_one_column_in_the_output_projections_place(version: str) -> None:
    workload = workload_of(PPO, version)
    assert workload.critic is not None
    model = workload.critic.model
    assert model.value_head
    assert model.head_parameters == model.hidden + 1
    assert workload.model.parameters - model.parameters == model.vocab * model.hidden - model.hidden - 1


@pytest.mark.parametrize(
    ("overrides", "value_head"), [(PPO, False), ((*MEGATRON, "algorithm.adv_estimator=gae"), True)]
)
def test_trl_wraps_what_transformers_cannot_build_with_a_value_head(
    overrides: tuple[str, ...], value_head: bool
) -> None:
    critic = workload_of(overrides, "0.9.1", model=find_model("OLMo-2-1124-7B")).critic
    assert critic is not None
    assert critic.model.value_head is value_head


@pytest.mark.parametrize(
    ("version", "section"), by_release("critic.model.fsdp_config", ("0.8.0", "critic.fsdp"))
)
def test_the_critics_fsdp_section(version: str, section: str) -> None:
    critic = workload_of((*PPO, f"{section}.param_offload=True"), version).critic
    assert critic is not None
    assert critic.engine.param_offload


# -- Megatron ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_megatron(version: str) -> None:
    workload = workload_of(MEGATRON, version)
    engine = workload.actor.engine
    assert engine.backend is Backend.MEGATRON
    assert (engine.parallel.tensor, engine.parallel.data, engine.parallel.shard) == (4, 2, 1)
    # as the tensor size where nothing says; the YAML of 0.6.0 says 1
    assert engine.parallel.expert_tensor == (1 if version == "0.6.0" else 4)
    assert engine.checkpointing is Checkpointing.NONE
    assert engine.stored_dtype is DType.BFLOAT16
    assert (workload.actor.head.logits_dtype, workload.actor.head.compiled) == (DType.FLOAT32, False)
    assert engine.packed
    assert workload.reference is not None
    assert not workload.reference.engine.streamed_offload


@pytest.mark.parametrize(("version", "tensor"), by_release(4, ("0.8.0", 2)))
def test_actor_and_reference_share_the_grid_of_the_one_that_is_built_first(version: str, tensor: int) -> None:
    job = workload_of((*MEGATRON, f"{REF}.megatron.tensor_model_parallel_size=2"), version)
    assert job.reference is not None
    assert job.actor.engine.parallel.tensor == job.reference.engine.parallel.tensor == tensor


def test_megatron_recomputation_and_host_optimizer() -> None:
    engine = engine_of(
        (
            *MEGATRON,
            f"{ACTOR}.megatron.override_transformer_config.recompute_granularity=full",
            f"+{ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload=True",
            f"+{ACTOR}.optim.override_optimizer_config.optimizer_offload_fraction=0.5",
        ),
        "0.9.1",
    )
    assert engine.checkpointing is Checkpointing.FULL
    assert engine.optimizer_offload_fraction == 0.5


def test_0_4_1_has_switches_of_its_own_for_recomputation() -> None:
    asked = (*MEGATRON, f"{MODEL}.enable_gradient_checkpointing=True")
    assert engine_of(asked, "0.4.1").checkpointing is Checkpointing.NONE  # the granularity stays null
    granularity = f"{MODEL}.gradient_checkpointing_kwargs.activations_checkpoint_granularity=full"
    assert engine_of((*asked, granularity), "0.4.1").checkpointing is Checkpointing.FULL


def test_low_precision_moments_of_megatron() -> None:
    overrides = (
        *MEGATRON,
        f"{ACTOR}.optim.use_precision_aware_optimizer=True",
        f"{ACTOR}.optim.exp_avg_dtype=bf16",
    )
    assert engine_of(overrides, "0.9.1").optimizer_dtype is DType.BFLOAT16


BF16_GRADIENTS = f"+{ACTOR}.megatron.override_ddp_config.grad_reduce_in_fp32=False"


@pytest.mark.parametrize(
    ("version", "overrides", "gradients", "fused"),
    [
        ("0.6.1", (), DType.FLOAT32, False),
        ("0.7.1", (), DType.FLOAT32, False),
        ("0.7.1", (f"{ACTOR}.megatron.vanilla_mbridge=False",), DType.BFLOAT16, True),
        ("0.8.0", (f"{ACTOR}.megatron.vanilla_mbridge=False",), DType.BFLOAT16, True),
        ("0.9.1", (), DType.FLOAT32, True),  # builds through Megatron-Bridge by default
        (
            "0.9.1",
            (BF16_GRADIENTS,),
            DType.BFLOAT16,
            True,
        ),
        (
            "0.6.1",
            (BF16_GRADIENTS,),
            DType.BFLOAT16,
            False,
        ),
        (
            "0.9.1",
            (f"{ACTOR}.optim.use_precision_aware_optimizer=True", f"{ACTOR}.optim.main_grads_dtype=bf16"),
            DType.BFLOAT16,
            True,
        ),
    ],
)
def test_megatrons_gradient_buffer(
    version: str, overrides: tuple[str, ...], gradients: DType, fused: bool
) -> None:
    engine = engine_of((*MEGATRON, *overrides), version)
    assert (engine.reduce_dtype, engine.fused_weight_gradients) == (gradients, fused)


@pytest.mark.parametrize(
    ("overrides", "main_bytes", "offloaded"),
    [
        ((), 4, False),
        ((f"{ACTOR}.optim.use_precision_aware_optimizer=True",), 2, True),
        (
            (
                f"+{ACTOR}.optim.override_optimizer_config.use_precision_aware_optimizer=True",
                f"+{ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload=True",
            ),
            4,
            True,
        ),
    ],
)
def test_megatrons_main_weights(overrides: tuple[str, ...], main_bytes: int, offloaded: bool) -> None:
    engine = engine_of((*MEGATRON, *overrides), "0.9.1")
    assert (engine.main_weight_bytes, engine.main_weights_offloaded) == (main_bytes, offloaded)


def test_megatron_recomputes_in_groups_or_the_first_layers() -> None:
    recompute = f"{ACTOR}.megatron.override_transformer_config.recompute"
    asked = (*MEGATRON, f"{recompute}_granularity=full", f"{recompute}_num_layers=4")
    uniform = engine_of((*asked, f"{recompute}_method=uniform"), "0.9.1")
    block = engine_of((*asked, f"{recompute}_method=block"), "0.9.1")
    assert (uniform.recompute_layers, uniform.recompute_first_layers) == (4, None)
    assert (block.recompute_layers, block.recompute_first_layers) == (1, 4)


def test_pipeline_stages_of_their_own_size() -> None:
    config = f"+{ACTOR}.megatron.override_transformer_config"
    two = (*MEGATRON, f"{ACTOR}.megatron.pipeline_model_parallel_size=2")
    plain = engine_of(two, "0.7.1").parallel
    last = engine_of((*two, f"{config}.num_layers_in_last_pipeline_stage=12"), "0.7.1").parallel
    counted = (f"account_for_{what}_in_pipeline_split=True" for what in ("embedding", "loss"))
    both = engine_of((*two, *(f"{config}.{key}" for key in counted)), "0.7.1").parallel
    assert (plain.first_stage_layers, plain.last_stage_layers) == (None, None)
    assert (last.first_stage_layers, last.last_stage_layers) == (None, 12)
    assert (both.first_stage_layers, both.last_stage_layers) == (14, 14)  # 28 layers, two counted more
    virtual = (*two, f"{ACTOR}.megatron.virtual_pipeline_model_parallel_size=2")
    assert engine_of(virtual, "0.7.1").parallel.virtual_pipeline == 2


@pytest.mark.parametrize(
    ("version", "model", "fused"),
    [
        ("0.7.1", QWEN25_7B, False),
        ("0.7.1", QWEN3_30B_A3B, True),
        ("0.9.1", QWEN3_30B_A3B, False),  # Megatron-Bridge's converter does not ask for it
        ("0.9.1", replace(QWEN25_7B, architecture="llama"), True),
        ("0.9.1", replace(QWEN25_7B, architecture="qwen3_vl"), True),
        ("0.9.1", replace(QWEN3_30B_A3B, architecture="qwen3_5_moe"), True),
        ("0.7.1", replace(QWEN25_7B, architecture="qwen3_vl"), False),
    ],
)
def test_where_swiglu_is_one_kernel(version: str, model: ModelShape, fused: bool) -> None:
    assert workload_of(MEGATRON, version, model=model).actor.engine.fused_layers is fused
    asked = f"+{ACTOR}.megatron.override_transformer_config.bias_activation_fusion={not fused}"
    assert workload_of((*MEGATRON, asked), version, model=model).actor.engine.fused_layers is not fused


@pytest.mark.parametrize(
    ("version", "model", "rotary", "outputs"),
    [
        ("0.7.1", QWEN25_7B, False, False),
        ("0.9.1", QWEN25_7B, False, True),
        ("0.9.1", replace(QWEN25_7B, architecture="llama"), True, True),
    ],
)
def test_what_the_bridge_turns_on(version: str, model: ModelShape, rotary: bool, outputs: bool) -> None:
    engine = workload_of(MEGATRON, version, model=model).actor.engine
    assert (engine.fused_rotary, engine.frees_stage_outputs) == (rotary, outputs)


@pytest.mark.parametrize(("mbridge", "rotary"), [(False, True), (True, False)])
def test_verls_own_converter_of_mixtral_rotates_by_one_kernel(mbridge: bool, rotary: bool) -> None:
    mixtral = replace(QWEN25_7B, architecture="mixtral")
    asked = (*MEGATRON, *(f"{role}.megatron.use_mbridge={mbridge}" for role in (ACTOR, REF)))
    assert workload_of(asked, "0.7.1", model=mixtral).actor.engine.fused_rotary is rotary


@pytest.mark.parametrize(("version", "each"), [("0.5.0", True), ("0.6.1", True), ("0.7.1", False)])
def test_before_megatron_core_0_15_sequences_are_rotated_one_by_one_and_no_gate_is_offset(
    version: str, each: bool
) -> None:
    engine = workload_of(MEGATRON, version).actor.engine
    assert (engine.rotates_each, engine.offsets_gated) == (each, not each)


@pytest.mark.parametrize("version", ["0.4.1", "0.7.1", "0.9.1"])
@pytest.mark.parametrize("dispatcher", list(Dispatcher))
def test_tokens_get_to_experts_as_the_override_says(version: str, dispatcher: Dispatcher) -> None:
    assert (
        workload_of(MEGATRON, version, model=QWEN3_30B_A3B).actor.engine.dispatcher is Dispatcher.ALL_TO_ALL
    )
    section = f"+{ACTOR}.megatron.override_transformer_config"
    asked = (*MEGATRON, f"{section}.moe_token_dispatcher_type={dispatcher.value}")
    assert workload_of(asked, version, model=QWEN3_30B_A3B).actor.engine.dispatcher is dispatcher


@pytest.mark.parametrize(
    ("version", "architecture", "stacked"),
    [("0.7.1", "gpt_oss", False), ("0.9.1", "gpt_oss", True), ("0.9.1", "qwen3_moe", False)],
)
def test_megatron_bridge_puts_experts_together_that_the_checkpoint_has_in_one_tensor(
    version: str, architecture: str, stacked: bool
) -> None:
    """0.7.1 goes through mbridge, which hands on one expert after the other."""
    model = replace(QWEN3_30B_A3B, architecture=architecture)
    assert workload_of(MEGATRON, version, model=model).actor.engine.stacks_experts is stacked


def test_a_grid_larger_than_the_job_is_read_and_one_larger_than_the_named_gpus_is_refused() -> None:
    larger = workload_of((*MEGATRON, f"{ACTOR}.megatron.pipeline_model_parallel_size=4"), "0.9.1")
    assert (larger.actor.engine.parallel.pipeline, larger.actor.engine.parallel.data) == (4, 1)
    with pytest.raises(InputError, match="2 GPUs that are named; the configuration has 8") as caught:
        workload_of(MEGATRON, "0.9.1", gpus=2)
    assert caught.value.key == f"{REF}.megatron.tensor_model_parallel_size"


def test_experts() -> None:
    overrides = (
        *MEGATRON,
        f"{ACTOR}.megatron.tensor_model_parallel_size=2",
        f"{REF}.megatron.tensor_model_parallel_size=2",
        f"{ACTOR}.megatron.expert_model_parallel_size=8",
        f"{ACTOR}.megatron.expert_tensor_parallel_size=1",
    )
    parallel = workload_of(overrides, "0.9.1", model=QWEN3_30B_A3B).actor.engine.parallel
    assert (parallel.tensor, parallel.expert, parallel.expert_tensor) == (2, 8, 1)


# -- rollout -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "sequences", "model_tokens", "graphs", "level", "bucket"),
    [
        ("0.4.1", 1024, 4096, False, 1, 0),  # vLLM 0.8.5 takes 1024 on cards from 70 GiB
        ("0.5.0", 1024, 4096, False, 1, 0),
        ("0.6.1", 1024, 4096, True, 2, 0),
        ("0.7.1", 1024, None, True, 2, 2048),
        ("0.8.0", 1024, None, True, 2, 2048),
        ("0.9.1", 256, None, True, 2, 2048),
    ],
)
def test_vllm(
    version: str, sequences: int, model_tokens: int | None, graphs: bool, level: int, bucket: int
) -> None:
    workload = workload_of(DYNAMIC, version)
    rollout = workload.rollout
    assert rollout.engine is RolloutEngine.VLLM
    assert (rollout.memory_fraction, rollout.tensor_parallel, rollout.replicas) == (0.5, 2, 4)
    assert rollout.max_sequences == sequences
    assert rollout.max_model_tokens == model_tokens
    assert rollout.cuda_graphs is graphs
    assert rollout.sleep_level == level
    assert workload.sync.bucket_bytes == bucket * MIB


@pytest.mark.parametrize(
    ("version", "fraction_of", "own_process", "graphs", "sampler", "windows"),
    [
        ("0.4.1", FractionOf.TOTAL_OF_ALL, False, False, 28, False),  # vLLM 0.8.5
        ("0.5.0", FractionOf.TOTAL_OF_ALL, False, False, 28, False),
        ("0.6.1", FractionOf.TOTAL, False, False, 28, True),  # 0.11.0
        ("0.7.1", FractionOf.TOTAL, True, False, 28, True),  # 0.12.0, a server
        ("0.8.0", FractionOf.TOTAL, True, False, 28, True),
        ("0.9.1", FractionOf.TOTAL, True, True, 18, True),  # 0.24.0
    ],
)
def test_the_vllm_of_a_release(
    version: str, fraction_of: FractionOf, own_process: bool, graphs: bool, sampler: int, windows: bool
) -> None:
    rollout = workload_of(DYNAMIC, version).rollout
    assert rollout.fraction_of is fraction_of
    assert (rollout.own_process, rollout.counts_graphs) == (own_process, graphs)
    assert (rollout.sampler_bytes, rollout.frees_windows) == (sampler, windows)
    assert (rollout.block_tokens, rollout.staged_wake_up) == (16, True)


def test_latent_attention_takes_longer_blocks() -> None:
    latent = replace(
        QWEN25_7B,
        latent=LatentAttention(
            q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
        ),
    )
    assert workload_of(DYNAMIC, "0.9.1", model=latent).rollout.block_tokens == 64


@pytest.mark.parametrize(
    ("version", "sent", "theirs", "offloads_first", "resumes_first"),
    [
        ("0.4.1", None, 0, False, False),
        ("0.5.0", None, 0, False, False),
        ("0.6.1", None, 0, True, False),
        ("0.7.1", None, 1, True, False),  # its receiver clones every tensor of a bucket
        ("0.8.0", DType.BFLOAT16, 0, True, True),
        ("0.9.1", None, 0, True, True),
    ],
)
def test_how_weights_travel_to_vllm(
    version: str, sent: DType | None, theirs: int, offloads_first: bool, resumes_first: bool
) -> None:
    sync = workload_of(DYNAMIC, version).sync
    assert (sync.sent_dtype, sync.buckets) == (sent, 1)
    assert (sync.offloads_first, sync.resumes_first) == (offloads_first, resumes_first)
    assert sync.engine_buckets == theirs


@pytest.mark.parametrize(("version", "pages"), by_release(False, ("0.6.0", True)))
def test_since_when_freed_memory_is_given_back_in_pages(version: str, pages: bool) -> None:
    assert workload_of(DYNAMIC, version).sync.maps_pages is pages


@pytest.mark.parametrize(("version", "cut"), by_release(False, ("0.9.0", True)))
def test_since_when_experts_are_cut_out_of_one_tensor(version: str, cut: bool) -> None:
    sync = workload_of(DYNAMIC, version).sync
    assert (sync.cuts_experts, sync.experts_apart) == (cut, not cut)


_NEW_WORKERS = "trainer.use_legacy_worker_impl=disable"


@pytest.mark.parametrize(
    ("version", "launch", "collections", "again", "beside"),
    [
        ("0.5.0", DYNAMIC, 0, False, False),
        ("0.6.1", DYNAMIC, 3, True, False),  # before, after, behind the rollout
        ("0.7.0", DYNAMIC, 3, True, False),
        ("0.7.1", DYNAMIC, 2, True, True),
        ("0.7.1", (*DYNAMIC, _NEW_WORKERS), 1, False, True),
        ("0.8.0", DYNAMIC, 1, False, True),
        ("0.8.0", SGLANG, 1, True, False),
        ("0.9.0", DYNAMIC, 2, True, True),
        ("0.9.1", DYNAMIC, 0, False, False),
    ],
)
def test_how_often_a_release_collects_garbage_around_new_weights(
    version: str, launch: tuple[str, ...], collections: int, again: bool, beside: bool
) -> None:
    sync = workload_of(launch, version).sync
    assert (sync.collections, sync.collects_again, sync.receiver_collects) == (collections, again, beside)


@pytest.mark.parametrize(("version", "collects"), by_release(True, ("0.9.1", False)))
def test_whether_megatron_collects_garbage_as_states_move(version: str, collects: bool) -> None:
    engine = workload_of(MEGATRON, version).actor.engine
    assert engine.collects_garbage is collects


@pytest.mark.parametrize(("version", "fused"), by_release(False, ("0.7.1", True)))
def test_one_kernel_makes_weights_8_bit_since_0_7_1(version: str, fused: bool) -> None:
    assert workload_of(DYNAMIC, version).sync.quantizes_in_one_kernel is fused


def test_the_new_workers_of_0_7_1_cast_and_wake_the_engine_first() -> None:
    sync = workload_of((*DYNAMIC, "trainer.use_legacy_worker_impl=disable"), "0.7.1").sync
    assert (sync.sent_dtype, sync.resumes_first, sync.engine_buckets) == (DType.BFLOAT16, True, 1)


def test_only_0_9_leaves_offloaded_shards_of_fsdp2_on_the_host() -> None:
    fsdp2 = (*DYNAMIC, f"{ACTOR}.strategy=fsdp2", f"{ACTOR}.fsdp_config.param_offload=True")
    assert workload_of(fsdp2, "0.8.0").sync.stages_weights
    assert not workload_of(fsdp2, "0.9.1").sync.stages_weights
    fsdp1 = (*DYNAMIC, f"{ACTOR}.fsdp_config.param_offload=True", f"{ACTOR}.strategy=fsdp")
    assert workload_of(fsdp1, "0.9.1").sync.stages_weights


def test_the_first_sharding_managers_wake_sglang_whole_unless_told_otherwise() -> None:
    assert not workload_of(SGLANG, "0.5.0").rollout.staged_wake_up
    staged = (*SGLANG, f"{ROLLOUT}.multi_stage_wake_up=True")
    assert workload_of(staged, "0.5.0").rollout.staged_wake_up
    assert workload_of(SGLANG, "0.6.1").rollout.staged_wake_up


@pytest.mark.parametrize(("version", "stays"), [("0.7.1", False), ("0.8.0", True), ("0.9.1", True)])
def test_sglang_keeps_its_weights_where_it_serves_adapters(version: str, stays: bool) -> None:
    adapters = (*LORA, f"{ROLLOUT}.name=sglang")  # not merged
    assert workload_of(adapters, version).rollout.sleeps_with_weights is stays
    assert not workload_of(LORA, version).rollout.sleeps_with_weights


def test_dead_rollout_keys() -> None:
    assert workload_of((*DYNAMIC, f"{ROLLOUT}.max_num_seqs=64"), "0.5.0").rollout.max_sequences == 1024
    assert workload_of((*DYNAMIC, f"{ROLLOUT}.free_cache_engine=False"), "0.4.1").rollout.frees_memory
    assert not workload_of((*DYNAMIC, f"{ROLLOUT}.free_cache_engine=False"), "0.5.0").rollout.frees_memory


def test_the_server_of_0_6_1_takes_no_model_length() -> None:
    given = (*DYNAMIC, f"{ROLLOUT}.max_model_len=8192")
    assert workload_of(given, "0.6.1").rollout.max_model_tokens == 8192
    assert workload_of((*given, f"{ROLLOUT}.mode=async"), "0.6.1").rollout.max_model_tokens == 4096


@pytest.mark.parametrize(
    ("version", "sequences", "level", "bucket"),
    [
        ("0.4.1", 2048, 2, 0),
        ("0.5.0", 2048, 2, 512),
        ("0.6.1", 1024, 2, 512),
        ("0.7.1", 1024, 2, 2048),
        ("0.8.0", 1024, 2, 2048),
        ("0.9.1", 256, 1, 2048),  # the first that backs its weights up where it trains
    ],
)
def test_sglang(version: str, sequences: int, level: int, bucket: int) -> None:
    workload = workload_of((*SGLANG, f"{ROLLOUT}.max_num_batched_tokens=20000"), version)
    rollout = workload.rollout
    assert rollout.fraction_of is FractionOf.STATIC_POOL
    assert (rollout.block_tokens, rollout.own_process, rollout.frees_windows) == (1, True, False)
    assert rollout.max_batched_tokens == 8192  # verl passes none
    assert (rollout.max_sequences, rollout.sleep_level, rollout.cuda_graphs) == (sequences, level, True)
    assert workload.sync.bucket_bytes == bucket * MIB


def test_sleep_keeps_the_base_of_adapters() -> None:
    assert workload_of(LORA, "0.9.1").rollout.sleep_level == 1
    merged = workload_of((*LORA, f"{MODEL}.lora.merge=True"), "0.9.1")
    assert merged.rollout.sleep_level == 2
    assert merged.actor.engine.lora is not None
    assert merged.actor.engine.lora.merged_for_rollout


def test_quantised_rollout() -> None:
    quantised = workload_of(
        (*DYNAMIC, f"{ROLLOUT}.quantization=fp8", f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype=fp8_e4m3"),
        "0.9.1",
    ).rollout
    assert (quantised.weight_dtype, quantised.kv_dtype) == (DType.FLOAT8, DType.FLOAT8)


@pytest.mark.parametrize(
    ("version", "fsdp2", "megatron"),
    [
        ("0.4.1", HostCopy.PINNED, HostCopy.REPINNED),
        ("0.5.0", HostCopy.PINNED, HostCopy.REPINNED),
        ("0.6.0", HostCopy.PAGEABLE, HostCopy.REPINNED),
        ("0.8.0", HostCopy.PAGEABLE, HostCopy.REPINNED),
        ("0.9.0", HostCopy.PAGEABLE, HostCopy.PINNED),
        ("0.9.1", HostCopy.PINNED, HostCopy.PINNED),
    ],
)
def test_how_offloaded_weights_leave(version: str, fsdp2: HostCopy, megatron: HostCopy) -> None:
    first = engine_of(STATIC, version)
    assert (first.host_copy, first.second and first.second.host_copy) == (HostCopy.PINNED, fsdp2)
    assert engine_of((*STATIC, f"{ACTOR}.strategy=fsdp2"), version).host_copy is fsdp2
    assert engine_of(MEGATRON, version).host_copy is megatron


def test_which_trainers_sort_what_a_rank_gets() -> None:
    of_release = {version: workload_of(STATIC, version).batch.sorted_ranks for version in VERSIONS}
    assert [version for version, is_sorted in of_release.items() if is_sorted] == [
        version for version in VERSIONS if version in ("0.6.1", "0.7.0", "0.7.1", "0.8.0")
    ]
    assert workload_of((*STATIC, "trainer.use_v1=False"), "0.9.1").batch.sorted_ranks


def test_which_trainer_leaves_sequences_as_their_responses_ended() -> None:
    arriving = {version for version in VERSIONS if workload_of(STATIC, version).batch.ordered_by_arrival}
    assert {"0.9.0", "0.9.1"} >= arriving >= {"0.9.1"}
    assert not workload_of((*STATIC, "trainer.use_v1=False"), "0.9.1").batch.ordered_by_arrival


def test_the_bucket_of_0_7_1_must_hold_the_largest_tensor() -> None:
    assert workload_of(STATIC, "0.7.1").sync.smallest_bucket_bytes == QWEN25_7B.embedding_parameters * 4
    assert workload_of(STATIC, "0.8.0").sync.smallest_bucket_bytes == 0


def test_gpus_of_their_own_for_generation() -> None:
    separate = (
        *DYNAMIC,
        "actor_rollout_ref.hybrid_engine=False",
        "trainer.v1.trainer_mode=separate_async",
        f"{ROLLOUT}.nnodes=2",
        f"{ROLLOUT}.n_gpus_per_node=4",
        f"+{ROLLOUT}.standalone_gpu_memory_utilization=0.8",
    )
    rollout = workload_of(separate, "0.9.1").rollout
    assert (rollout.colocated, rollout.gpus, rollout.memory_fraction) == (False, 8, 0.8)
    recipe = (
        *DYNAMIC,
        "actor_rollout_ref.hybrid_engine=False",
        "+rollout.nnodes=1",
        "+rollout.n_gpus_per_node=2",
    )
    assert workload_of(recipe, "0.5.0").rollout.gpus == 2


def test_a_rollout_that_no_engine_is_named_for_reads_as_vllm() -> None:
    overrides = tuple(override for override in DYNAMIC if "rollout.name" not in override)
    assert workload_of(overrides, "0.9.1").rollout.engine is RolloutEngine.VLLM


def test_a_replica_larger_than_the_rollout() -> None:
    with pytest.raises(InputError, match=r"needs 16 GPUs .* has 8 GPUs") as caught:
        workload_of((*DYNAMIC, f"{ROLLOUT}.tensor_model_parallel_size=16"), "0.9.1")
    assert caught.value.key == f"{ROLLOUT}.tensor_model_parallel_size"


# -- 0.7.1 with its new workers ------------------------------------------------------------


def test_0_7_1_with_the_new_workers_reads_the_later_keys() -> None:
    overrides = (
        *DYNAMIC,
        "trainer.use_legacy_worker_impl=disable",
        f"{ACTOR}.use_torch_compile=False",
        f"{ACTOR}.ppo_micro_batch_size=16",
    )
    workload = workload_of(overrides, "0.7.1")
    assert workload.actor.head.compiled
    assert workload.actor.update.batching.micro_batch_sequences == 1
    assert workload.release.version == "0.7.1"


# -- paths and sizes -----------------------------------------------------------------------


def test_paths_and_cluster() -> None:
    settings = settings_of((*PPO, "trainer.nnodes=4", "trainer.n_gpus_per_node=4"), "0.9.1")
    assert model_path(settings) == critic_model_path(settings) == "Qwen/Qwen2.5-7B-Instruct"
    assert cluster_size(settings) == (4, 4)


def test_placeholders_are_no_paths() -> None:
    settings = settings_of([f"{ROLLOUT}.name=vllm"], "0.9.1")
    assert model_path(settings) is None
    assert critic_model_path(settings) is None


def test_a_critic_path_without_a_critic_is_not_asked_for() -> None:
    settings = settings_of((*DYNAMIC, "critic.model.path=some/model"), "0.9.1")
    assert critic_model_path(settings) is None
