"""How verl's VeOmni engine is read: FSDP2 with experts apart, under keys of its own."""

import pytest

from tests.loading import load
from tests.trainers.launches import ACTOR, GRPO, MODEL, REF, VEOMNI, workload_of
from tuner.dtypes import DType
from tuner.errors import InputError, UnsupportedError
from tuner.memory.estimate import estimate
from tuner.models import find_model
from tuner.timing.estimate import step_time
from tuner.trainers.verl.releases import BUNDLED
from tuner.versions import at_least
from tuner.workload import Backend, Engine, HostCopy, Phase

RELEASES = tuple(version for version in BUNDLED if at_least(version, "0.8.0"))
SPARSE = find_model("Qwen3-30B-A3B")
OWN = f"{ACTOR}.veomni"
DENSE = (*GRPO, "model_engine=veomni", f"{ACTOR}.use_dynamic_bsz=True")


NEWER_WORKERS = "+trainer.use_legacy_worker_impl=disable"


def engine(*overrides: str, version: str = "0.9.1") -> Engine:
    return workload_of((*VEOMNI, *overrides), version, model=SPARSE, gpus=16).actor.engine


@pytest.mark.parametrize("version", RELEASES)
def test_the_engine_is_fsdp2_with_a_root_that_stays_whole(version: str) -> None:
    read = engine(version=version)
    assert (read.backend, read.whole_root, read.keeps_root, read.host_copy) == (
        Backend.FSDP2,
        True,
        True,
        HostCopy.PAGEABLE,
    )
    assert (read.parallel.shard, read.parallel.ulysses, read.parallel.expert) == (16, 2, 4)
    assert (read.stored_dtype, read.reduce_dtype) == (DType.FLOAT32, DType.FLOAT32)


def test_ranks_that_share_a_sequence_shard_the_weights_as_well() -> None:
    assert engine(f"{OWN}.fsdp_size=4").parallel.shard == 8  # of two ranks each
    assert engine(f"{OWN}.fsdp_size=8").parallel.shard == 16
    with pytest.raises(InputError, match="3 does not divide 8 ranks that see different sequences"):
        engine(f"{OWN}.fsdp_size=3")
    with pytest.raises(InputError, match="3 ranks that share the experts do not divide 16"):
        engine(f"{OWN}.expert_parallel_size=3")


def test_without_mixed_precision_weights_are_stored_and_reduced_in_bfloat16() -> None:
    read = engine(f"{OWN}.mixed_precision=False")
    assert (read.stored_dtype, read.compute_dtype, read.reduce_dtype) == (DType.BFLOAT16,) * 3


def test_liger_is_what_all_three_kernels_are_of() -> None:
    kernels = [f"{OWN}.{name}_implementation=liger_kernel" for name in ("rms_norm", "swiglu_mlp")]
    assert not engine(*kernels).fused_layers
    assert engine(*kernels, f"{OWN}.rotary_pos_emb_implementation=liger_kernel").fused_layers
    assert not engine(f"{MODEL}.use_liger=True").fused_layers  # which verl does not hand on


def test_a_reference_is_offloaded_by_its_own_key_alone() -> None:
    def reference(*overrides: str) -> Engine:
        return workload_of((*VEOMNI, *overrides), "0.9.1", model=SPARSE, gpus=16).reference.engine

    assert not reference().param_offload
    assert reference(f"{OWN}.param_offload=True").param_offload  # whose key it follows
    assert not reference(f"{OWN}.param_offload=True", f"{REF}.veomni.param_offload=False").param_offload


def test_activations_go_to_the_host_by_veomni_s_own_key_since_0_9_1() -> None:
    ours, old = f"{OWN}.enable_async_activation_offload=True", f"{MODEL}.enable_activation_offload=True"
    assert engine(ours).activation_offload
    assert engine(old, version="0.9.0").activation_offload


def test_adapters_and_releases_before_0_7_1_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"VeOmni engine of verl 0\.9\.1 trains no adapters"):
        engine(f"{MODEL}.lora_rank=8")
    with pytest.raises(UnsupportedError, match=r"modelled from verl 0\.7\.1 on, not in 0\.7\.0"):
        load(None, DENSE, version="0.7.0")


def update_bytes(*overrides: str) -> dict[str, int]:
    """The largest of each term of the update, on 16 GPUs."""
    workload = workload_of((*DENSE, *overrides), "0.9.1", model=SPARSE, gpus=16)
    update = next(phase for phase in estimate(workload).phases if phase.phase is Phase.UPDATE_ACTOR)
    moments = update.moments
    terms: dict[str, int] = {}
    for moment in moments:
        for term in moment.terms:
            terms[term.name] = max(terms.get(term.name, 0), term.bytes)
    return terms


def test_a_layer_is_gathered_with_the_experts_of_its_rank_and_stored_as_before() -> None:
    """Qwen3-30B-A3B: 623,120,640 parameters of a layer in bfloat16, 603,979,776 of them of 128 experts."""
    whole, apart = update_bytes(), update_bytes(f"{OWN}.expert_parallel_size=16")
    assert whole["layer_unit"] == 1_246_241_280
    assert apart["layer_unit"] == 113_779_200  # 8 experts
    for name in ("actor_parameters", "actor_optimizer", "gradients"):
        assert apart[name] == whole[name]


def test_the_root_has_the_embedding_and_the_head() -> None:
    """2 x 151,936 x 2,048 parameters and the last norm, in bfloat16; FSDP2's root has neither of them."""
    assert update_bytes()["root_unit"] == 1_244_663_808


def update_seconds(*overrides: str) -> float:
    workload = workload_of((*DENSE, *overrides), "0.9.1", model=SPARSE, gpus=8, nodes=2)
    update = step_time(workload, concurrent_sequences=64).phase(Phase.UPDATE_ACTOR)
    return 0.0 if update is None else update.seconds


def test_fewer_experts_are_gathered_in_less_time() -> None:
    """A layer of 56,889,600 parameters in place of 623,120,640, beside the same products and root."""
    assert update_seconds(f"{OWN}.expert_parallel_size=16") < 0.9 * update_seconds()


def test_0_7_1_runs_it_by_its_newer_workers_alone() -> None:
    """verl 0.7.1 ``trainer/main_ppo.py:165-171`` raises NotImplementedError for the older ones."""
    read = engine(NEWER_WORKERS, version="0.7.1")
    assert (read.backend, read.whole_root, read.parallel.shard, read.parallel.expert) == (
        Backend.FSDP2,
        True,
        16,
        4,
    )
    assert not read.fused_layers  # no key of 0.7.1 names a kernel
    with pytest.raises(UnsupportedError, match=r"verl 0\.7\.1 runs VeOmni by its newer workers alone"):
        engine(version="0.7.1")


def test_0_7_1_has_no_critic_for_it() -> None:
    """``VeOmniEngineWithValueHead`` came with 0.8.0 ``workers/engine/veomni/transformer_impl.py:1034``."""
    with_critic = (*DENSE, "algorithm.adv_estimator=gae", NEWER_WORKERS)
    with pytest.raises(UnsupportedError, match=r"verl 0\.7\.1 has no critic for VeOmni"):
        workload_of(with_critic, "0.7.1")
