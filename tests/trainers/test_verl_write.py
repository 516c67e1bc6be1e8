"""Overrides that a release reads as the change they were written for."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.trainers.changes import CHANGES, Change, actor, batching, critic, head, reference, rollout
from tests.trainers.launches import (
    ACTOR,
    ALL,
    DYNAMIC,
    GRPO,
    LORA,
    MEGATRON,
    MODEL,
    PPO,
    REF,
    ROLLOUT,
    STATIC,
    VERSIONS,
    before,
    settings_of,
    since,
    workload_of,
)
from tuner.inputs.settings import Settings
from tuner.trainers.proposal_writer import NotExpressible, ProposalWriter
from tuner.trainers.verl import write
from tuner.trainers.verl.read import read
from tuner.trainers.verl.source import ReleaseSettings
from tuner.trainers.verl.write import proposal_writer
from tuner.workload import Backend, Checkpointing, HeadKind, Pass, Workload


def written(overrides: Sequence[str], version: str, after: Workload) -> tuple[str, ...]:
    before = workload_of(overrides, version)
    return proposal_writer(before, settings_of(overrides, version), version=version).written(after).overrides


def sized(one_pass: Pass, sequences: int) -> Pass:
    return replace(one_pass, batching=replace(one_pass.batching, micro_batch_sequences=sequences))


def change(overrides: Sequence[str], version: str, name: str) -> tuple[str, ...]:
    return written(overrides, version, CHANGES[name](workload_of(overrides, version)))


# -- the law -------------------------------------------------------------------------------


def check_round_trip(launch: Sequence[str], version: str, names: Sequence[str]) -> bool:
    """Whether the changes could be written; if so, the release must read them back."""
    before = workload_of(launch, version)
    after = before
    for name in names:
        after = CHANGES[name](after)
    original = settings_of(launch, version)
    try:
        writer = proposal_writer(before, original, version=version)
        overrides = writer.written(after).overrides
    except NotExpressible:
        return False
    read = workload_of((*launch, *overrides), version)
    assert read == writer.with_release_facts(after, read), overrides
    return True


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("launch", "version"),
    [
        *[("dynamic", version) for version in VERSIONS],
        *[(launch, version) for launch in ("ppo", "megatron") for version in VERSIONS[::2]],
        *[(launch, "0.9.1") for launch in sorted(ALL) if launch != "dynamic"],
    ],
)
def test_every_change_alone(launch: str, version: str) -> None:
    expressible = [name for name in CHANGES if check_round_trip(ALL[launch], version, [name])]
    assert len(expressible) > len(CHANGES) / 2


@given(
    launch=st.sampled_from(sorted(ALL)),
    version=st.sampled_from(VERSIONS),
    names=st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=5, unique=True),
)
@settings(max_examples=100, deadline=None)
def test_changes_together(launch: str, version: str, names: list[str]) -> None:
    check_round_trip(ALL[launch], version, names)


def outcome(writer: ProposalWriter[ReleaseSettings], after: Workload) -> tuple[str, ...] | str:
    """The overrides, or why there are none."""
    try:
        return writer.written(after).overrides
    except NotExpressible as error:
        return str(error)


@given(
    launch=st.sampled_from(sorted(ALL)),
    version=st.sampled_from(VERSIONS),
    proposals=st.lists(
        st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=4, unique=True),
        min_size=2,
        max_size=5,
    ),
)
@settings(max_examples=60, deadline=None)
def test_what_was_written_before_makes_no_difference(
    launch: str, version: str, proposals: list[list[str]]
) -> None:
    before = workload_of(ALL[launch], version)
    writer = proposal_writer(before, settings_of(ALL[launch], version), version=version)
    for names in proposals:
        after = before
        for name in names:
            after = CHANGES[name](after)
        anew = proposal_writer(before, settings_of(ALL[launch], version), version=version)
        assert outcome(writer, after) == outcome(anew, after), names


def test_overrides_that_begin_alike_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = []

    def counted(found: Settings, **given: Any) -> Workload:
        readings.append(found)
        return read(found, **given)

    monkeypatch.setattr(write, "read", counted)
    before = workload_of(DYNAMIC, "0.9.1")
    writer = proposal_writer(before, settings_of(DYNAMIC, "0.9.1"), version="0.9.1")
    first = CHANGES["all budgets"](before)
    assert len(writer.written(first).overrides) == len(readings) == 1
    assert len(writer.written(CHANGES["fraction"](first)).overrides) == len(readings) == 2
    assert len(writer.written(CHANGES["eager entropy"](first)).overrides) == 2
    assert len(readings) == 3
    assert writer.written(before).overrides == ()
    assert len(readings) == 3


def test_another_value_of_the_same_key_is_read_on_its_own() -> None:
    before = workload_of(DYNAMIC, "0.9.1")
    writer = proposal_writer(before, settings_of(DYNAMIC, "0.9.1"), version="0.9.1")
    for fraction in (0.3, 0.7, 0.3):
        proposal = before.with_rollout(memory_fraction=fraction)
        assert writer.written(proposal).overrides == (f"{ROLLOUT}.gpu_memory_utilization={fraction}",)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("launch", sorted(ALL))
def test_nothing_to_change_is_nothing_to_write(launch: str, version: str) -> None:
    assert written(ALL[launch], version, workload_of(ALL[launch], version)) == ()


# -- spelling ------------------------------------------------------------------------------

LEGACY, ENGINES = before("0.8.0"), since("0.8.0")


@pytest.mark.parametrize(
    ("versions", "launch", "name", "expected"),
    [
        (VERSIONS, DYNAMIC, "fraction", [f"{ROLLOUT}.gpu_memory_utilization=0.73"]),
        (VERSIONS, DYNAMIC, "all budgets", [f"{ACTOR}.ppo_max_token_len_per_gpu=24576"]),
        (VERSIONS, STATIC, "dynamic", [f"{ACTOR}.use_dynamic_bsz=True"]),
        (VERSIONS, STATIC, "actor micro", [f"{ACTOR}.ppo_micro_batch_size_per_gpu=8"]),
        (VERSIONS, DYNAMIC, "ulysses", [f"{ACTOR}.ulysses_sequence_parallel_size=2"]),
        (VERSIONS, DYNAMIC, "padding", [f"{MODEL}.use_remove_padding=False"]),
        (VERSIONS, LORA, "tensor by tensor", [f"{ROLLOUT}.layered_summon=True"]),
        (
            VERSIONS,
            (*LORA, f"{ROLLOUT}.load_format=dummy"),
            "tensor by tensor",
            [f"{ROLLOUT}.layered_summon=True", f"{ROLLOUT}.load_format=safetensors"],
        ),
        (
            since("0.4.1"),
            DYNAMIC,
            "fused triton",
            [f"{MODEL}.use_fused_kernels=True", f"{MODEL}.fused_kernel_options.impl_backend=triton"],
        ),
        (VERSIONS, DYNAMIC, "fp8 cache", [f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype=fp8"]),
        (since("0.6.0"), DYNAMIC, "capture sizes", [f"{ROLLOUT}.cudagraph_capture_sizes=[1,2,4]"]),
        (since("0.6.0"), DYNAMIC, "sequences", [f"{ROLLOUT}.max_num_seqs=400"]),
        (before("0.6.0"), DYNAMIC, "bfloat16 states", [f"+{ACTOR}.fsdp_config.model_dtype=bf16"]),
        (since("0.6.0"), DYNAMIC, "bfloat16 states", [f"{ACTOR}.fsdp_config.model_dtype=bf16"]),
        (
            before("0.5.0"),
            DYNAMIC,
            "graphs on",
            [f"{ROLLOUT}.enforce_eager=False", f"{ROLLOUT}.free_cache_engine=False"],
        ),
        (("0.5.0",), DYNAMIC, "graphs on", [f"{ROLLOUT}.enforce_eager=False"]),
        (LEGACY, DYNAMIC, "eager entropy", [f"{ACTOR}.use_torch_compile=False"]),
        (ENGINES, DYNAMIC, "eager entropy", [f"{ACTOR}.fsdp_config.use_torch_compile=False"]),
        (LEGACY, PPO, "critic budgets", ["critic.ppo_max_token_len_per_gpu=65536"]),
        (
            ("0.8.0",),
            PPO,
            "critic budgets",
            ["critic.ppo_max_token_len_per_gpu=65536", "+critic.ppo_infer_max_token_len_per_gpu=65536"],
        ),
        (since("0.9.0"), PPO, "critic budgets", ["+critic.ppo_infer_max_token_len_per_gpu=65536"]),
        (
            LEGACY,
            PPO,
            "critic offload",
            [
                "critic.model.fsdp_config.param_offload=True",
                "critic.model.fsdp_config.optimizer_offload=True",
            ],
        ),
        (
            ENGINES,
            PPO,
            "critic offload",
            ["critic.fsdp.param_offload=True", "critic.fsdp.optimizer_offload=True"],
        ),
        (
            since("0.5.0"),
            MEGATRON,
            "recomputation",
            [
                f"{ACTOR}.megatron.override_transformer_config.recompute_{leaf}"
                for leaf in ("granularity=full", "method=uniform", "num_layers=1")
            ],
        ),
        (
            since("0.6.0"),
            MEGATRON,
            "host optimizer",
            [
                f"+{ACTOR}.optim.override_optimizer_config.optimizer_{leaf}"
                for leaf in ("cpu_offload=True", "offload_fraction=1.0")
            ],
        ),
    ],
)
def test_spelling(versions: Sequence[str], launch: Sequence[str], name: str, expected: list[str]) -> None:
    for version in versions:
        assert list(change(launch, version, name)) == expected, version


def test_a_budget_of_its_own_is_kept_when_the_actors_changes() -> None:
    assert change(DYNAMIC, "0.9.1", "actor budget") == (
        f"{ACTOR}.ppo_max_token_len_per_gpu=24576",
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu=16384",
        f"{REF}.log_prob_max_token_len_per_gpu=16384",
    )


@pytest.mark.parametrize("version", LEGACY)
def test_a_global_micro_batch_is_taken_back(version: str) -> None:
    launch = (*GRPO, f"{ACTOR}.ppo_micro_batch_size=16")
    assert change(launch, version, "actor micro") == (
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=8",
        f"{ACTOR}.ppo_micro_batch_size=null",
    )


@pytest.mark.parametrize("version", [version for version in VERSIONS if version < "0.5"])
def test_the_critics_forward_pass_keeps_the_global_size_that_its_update_has(version: str) -> None:
    """``forward_micro_batch_size //= ...`` stops on null wherever ``ppo_micro_batch_size`` is set."""
    launch = (*PPO, "critic.use_dynamic_bsz=False", "critic.ppo_micro_batch_size=16")
    before = workload_of(launch, version)
    assert before.critic is not None
    after = before.with_critic(values=sized(before.critic.values, 9))
    assert written(launch, version, after) == (f"critic.forward_micro_batch_size={9 * before.cluster.gpus}",)


@pytest.mark.parametrize("version", LEGACY)
def test_a_forward_pass_of_the_critic_has_no_global_size_beside_one_of_a_rank(version: str) -> None:
    """FSDP's critic reads it below ``if ppo_micro_batch_size is not None`` alone."""
    launch = (
        *PPO,
        "critic.use_dynamic_bsz=False",
        "critic.ppo_micro_batch_size_per_gpu=2",
        "critic.forward_micro_batch_size=64",
    )
    before = workload_of(launch, version)
    assert before.critic is not None
    assert before.critic.values.batching.micro_batch_sequences == 2
    after = before.with_critic(values=sized(before.critic.values, 9))
    assert "critic.forward_micro_batch_size_per_gpu=9" in written(launch, version, after)


@pytest.mark.parametrize("version", ENGINES)
def test_the_log_prob_switch_must_equal_the_actors(version: str) -> None:
    launch = (*STATIC, f"{ROLLOUT}.log_prob_use_dynamic_bsz=False")
    assert f"{ROLLOUT}.log_prob_use_dynamic_bsz=True" in change(launch, version, "dynamic")


def test_static_batching_comes_with_the_sizes_that_verl_demands() -> None:
    assert change(DYNAMIC, "0.9.1", "static") == (
        f"{ACTOR}.use_dynamic_bsz=False",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=2",
        f"{REF}.log_prob_micro_batch_size_per_gpu=2",
    )


def test_packing_brings_compiled_entropy_back_by_itself() -> None:
    launch = (*STATIC, f"{MODEL}.use_remove_padding=False")
    before = workload_of(launch, "0.9.1")
    assert not before.actor.head.compiled
    packed = CHANGES["padding"](before).with_actor_engine(packed=True)
    assert packed.reference is not None
    packed = packed.with_reference(engine=replace(packed.reference.engine, packed=True))
    assert written(launch, "0.9.1", packed) == (f"{MODEL}.use_remove_padding=True",)


def test_a_key_that_the_user_added_is_written_plainly() -> None:
    launch = (*DYNAMIC, f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype=auto")
    assert change(launch, "0.9.1", "fp8 cache") == (f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype=fp8",)


def test_moving_to_fsdp2_takes_the_reference_along() -> None:
    before = workload_of(STATIC, "0.9.1")
    assert before.reference is not None
    moved = before.with_actor_engine(backend=Backend.FSDP2).with_reference(
        engine=replace(before.reference.engine, backend=Backend.FSDP2)
    )
    assert written(STATIC, "0.9.1", moved) == (f"{ACTOR}.strategy=fsdp2",)


# -- what cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "launch", "after"),
    [
        ("0.5.0", DYNAMIC, rollout(max_sequences=512)),
        ("0.4.1", DYNAMIC, rollout(frees_memory=False)),
        ("0.9.1", ALL["sglang"], rollout(max_batched_tokens=16384)),
        ("0.6.1", STATIC, actor(reshard_after_forward=False)),
        ("0.9.1", STATIC, actor(streamed_offload=True)),
        ("0.8.0", DYNAMIC, actor(deferred_gradient_sync=True)),
        ("0.8.0", DYNAMIC, head(chunk_tokens=512)),
        ("0.9.1", DYNAMIC, head(kind=HeadKind.VALUE)),
        ("0.9.1", MEGATRON, head(compiled=True)),
        ("0.9.1", MEGATRON, actor(activation_offload=True)),
        ("0.9.1", PPO, batching("critic", token_budget=65536)),
        ("0.7.1", PPO, critic(fused_layers=True)),
        ("0.9.1", DYNAMIC, reference(streamed_offload=False)),
        ("0.9.1", MEGATRON, reference(optimizer_offload_fraction=1.0)),
        ("0.9.1", DYNAMIC, reference(checkpointing=Checkpointing.FULL)),
        ("0.9.1", DYNAMIC, batching("log_prob", dynamic=False)),
        ("0.9.1", DYNAMIC, rollout(tensor_parallel=16)),
        ("0.9.1", DYNAMIC, lambda workload: replace(workload, reference=None)),
    ],
)
def test_not_expressible(version: str, launch: Sequence[str], after: Change) -> None:
    before = workload_of(launch, version)
    with pytest.raises(NotExpressible, match=r"verl|replica"):
        written(launch, version, after(before))
