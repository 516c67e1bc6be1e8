"""The oldest bundled release: FSDP1 alone, a reference in every job, entropy in every pass."""

import pytest
from msgspec.structs import replace

from tests.loading import load
from tests.trainers.launches import ACTOR, DYNAMIC, GRPO, MEGATRON, MODEL, ROLLOUT, settings_of, workload_of
from tuner.errors import UnsupportedError
from tuner.trainers.proposal_writer import NotExpressible
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.rollout_engine_versions import choose_version
from tuner.trainers.verl.write import proposal_writer
from tuner.workload import Backend, RolloutEngine, Workload

OLD = "0.3.0.post1"
FSDP = (*GRPO, f"{ACTOR}.use_dynamic_bsz=True")
WITHOUT_KL = tuple(override for override in FSDP if "use_kl_loss" not in override)


def old(*overrides: str) -> Workload:
    return workload_of((*FSDP, *overrides), OLD)


def test_every_pass_computes_entropy() -> None:
    workload = old(f"{ACTOR}.entropy_coeff=0", f"{ACTOR}.use_torch_compile=False")
    assert workload.reference is not None and workload.actor.log_prob is not None
    assert workload.actor.update.entropy and workload.actor.log_prob.entropy
    assert workload.reference.log_prob.entropy
    assert not workload.actor.head.compiled
    assert workload.reference.head.compiled  # its configuration has no such switch


def test_there_is_a_reference_whether_or_not_there_is_a_kl_loss() -> None:
    workload = workload_of(WITHOUT_KL, OLD)
    assert workload.reference is not None
    assert workload.reference.separate
    assert workload_of(WITHOUT_KL, "0.4.0").reference is None


def test_it_shards_with_fsdp1_and_in_full() -> None:
    engine = old().actor.engine
    assert engine.backend is Backend.FSDP
    assert engine.reshard_after_forward and engine.frees_root
    assert (engine.lora, engine.forward_prefetch, engine.activation_offload) == (None, False, False)


@pytest.mark.parametrize(
    ("launch", "words"), [(DYNAMIC, "has no fsdp2"), (MEGATRON, "Megatron workers of verl 0.3.0.post1")]
)
def test_what_it_does_not_have_is_refused(launch: tuple[str, ...], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        workload_of(launch, OLD)
    assert caught.value.hint is not None and "0.4.0" in caught.value.hint


def test_it_wakes_weights_and_cache_of_vllm_together() -> None:
    found = choose_version(RolloutEngine.VLLM, OLD)
    assert found is not None and found.version == "0.8.2"
    newer = ("0.8.5", True), ("0.6.3", True)
    for release in (OLD, "0.4.0"):
        for version, staged in newer:
            rollout = _with_engine(release, version).rollout
            assert rollout.staged_wake_up is (staged and (release != OLD or version == "0.6.3"))


def test_it_offloads_the_actor_whatever_the_engine() -> None:
    """0.4 forgets to beside vLLM 0.6.3."""
    assert not _with_engine(OLD, "0.6.3").sync.keeps_loaded
    assert _with_engine("0.4.0", "0.6.3").sync.keeps_loaded


@pytest.mark.parametrize("version", ["0.3.1", "0.4.2", "0.5.4", "0.6.3", "0.7.3", "0.8.2"])
def test_the_engines_it_runs_with(version: str) -> None:
    assert choose_version(RolloutEngine.VLLM, OLD, requested=version) is not None


def test_what_later_releases_read_has_no_key() -> None:
    meanings = {meaning for meaning in KEYS if key(meaning, OLD) is not None}
    assert not any("megatron" in meaning or "lora" in meaning for meaning in meanings)
    assert {"model.liger", "actor.fsdp.model_dtype", "actor.micro_batch"} <= meanings


@pytest.mark.parametrize(
    ("change", "written"),
    [
        ({"packed": False}, f"{MODEL}.use_remove_padding=False"),
        ({"param_offload": True}, f"{ACTOR}.fsdp_config.param_offload=True"),
        ({"fused_layers": True}, f"+{MODEL}.use_liger=True"),
    ],
)
def test_what_is_written_is_read_back(change: dict[str, bool], written: str) -> None:
    before, settings = old(), settings_of(FSDP, OLD)
    after = before.with_actor_engine(**change)
    if "param_offload" not in change:  # the reference is built with the model's switches
        assert after.reference is not None
        after = after.with_reference(engine=replace(after.reference.engine, **change))
    writer = proposal_writer(before, settings, version=OLD)
    overrides = writer.written(after).overrides
    assert overrides == (written,)
    read = old(*overrides)
    assert read == writer.with_release_facts(after, read)


@pytest.mark.parametrize("change", [{"activation_offload": True}, {"reshard_after_forward": False}])
def test_what_it_has_no_key_for_cannot_be_written(change: dict[str, bool]) -> None:
    before = old()
    with pytest.raises(NotExpressible, match="verl"):
        proposal_writer(before, settings_of(FSDP, OLD), version=OLD).written(
            before.with_actor_engine(**change)
        )


def _with_engine(release: str, version: str) -> Workload:
    from tests.workloads import QWEN25_7B, cluster

    return load(None, (*FSDP, f"{ROLLOUT}.tensor_model_parallel_size=1"), version=release).workload(
        model=QWEN25_7B,
        critic_model=None,
        cluster=cluster(gpus_per_node=8),
        rollout_engine_version=version,
    )
