"""Which version of the rollout engine a release runs with, and what follows from it."""

import importlib.metadata
from importlib.machinery import ModuleSpec
from math import ceil

import pytest
from msgspec.structs import replace

from tests.loading import load
from tests.trainers.launches import DYNAMIC, GRPO, LORA, MEGATRON, ROLLOUT, by_release
from tests.workloads import H100, QWEN25_7B, cluster
from tuner import memory, versions
from tuner.errors import InputError, UnsupportedError
from tuner.memory.host.node import host_terms
from tuner.memory.process.overhead import COMMUNICATOR_OVER_LINKS, CONTEXT
from tuner.memory.rollout.capacity import cache_share, rollout_memory
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.serving.vllm import default_sequences
from tuner.trainers.protocol import RolloutEngineChoice
from tuner.trainers.verl.rollout_engine_versions import choose_version
from tuner.units import GIB
from tuner.versions import at_least
from tuner.workload import FractionOf, Phase, RolloutEngine, Workload

CARD = H100.memory_bytes
WEIGHTS = 15_231_233_024  # Qwen2.5-7B: 7,615,616,512 parameters x 2
HIDDEN = 58_720_256  # 8,192 tokens x 3,584 x 2
ALONE = f"{ROLLOUT}.tensor_model_parallel_size=1"


def workload_of(
    version: str,
    release: str = "0.4.1",
    *more: str,
    launch: tuple[str, ...] = DYNAMIC,
    model: ModelShape = QWEN25_7B,
) -> Workload:
    """Qwen2.5-7B, or another model, on eight H100, a replica of one GPU, half of the card."""
    return load(None, (*launch, ALONE, *more), version=release).workload(
        model=model,
        critic_model=None,
        cluster=cluster(gpus_per_node=8),
        rollout_engine_version=version,
    )


def trainer(workload: Workload) -> int:
    return cache_share(workload).trainer


# -- which version -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "version"),
    by_release(
        "0.8.5",
        ("0.6.0", "0.9.1"),
        ("0.6.1", "0.11.0"),
        ("0.7.0", "0.12.0"),
        ("0.9.0", "0.18.0"),  # it names the oldest alone
        ("0.9.1", "0.24.0"),
    ),
)
def test_without_a_version_the_newest_allowed_one_is_taken(release: str, version: str) -> None:
    found = choose_version(RolloutEngine.VLLM, release)
    assert found is not None
    assert (found.name, found.version) == ("vLLM", version)
    assert f"verl {release} allows" in found.reason
    assert workload_of("", release).rollout.engine_version == version


def test_a_version_that_is_named_is_taken_and_a_strange_one_is_noted() -> None:
    assert choose_version(RolloutEngine.VLLM, "0.4.1", requested="0.6.3") == RolloutEngineChoice(
        name="vLLM", version="0.6.3", reason="--engine-version"
    )
    newer = choose_version(RolloutEngine.VLLM, "0.4.1", requested="0.10.2")
    assert newer is not None
    assert newer.reason == "--engine-version; verl 0.4.1 asks for 0.5.4 to 0.8.5"
    other = choose_version(RolloutEngine.SGLANG, "0.9.1", requested="0.5.9")
    assert other is not None
    assert other.reason == "--engine-version; verl 0.9.1 asks for 0.5.12"


@pytest.mark.parametrize(
    ("release", "version", "words"),
    [
        ("0.9.1", "0.12.0", "0.18.0 or newer"),
        ("0.5.0", "0.6.3", "0.7.0 or newer"),
        ("0.4.1", "0.6.6", "0.5.4, 0.6.3"),
        ("0.4.1", "0.4.2", "0.5.4, 0.6.3"),
        ("0.4.1", "latest", "not a version of vLLM"),
    ],
)
def test_a_version_that_a_release_refuses_is_an_error(release: str, version: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        choose_version(RolloutEngine.VLLM, release, requested=version)


@pytest.mark.parametrize("version", ["0.6.3", "0.6.3.post1", "0.6.3+rocm614", "0.5.4"])
def test_the_copied_workers_of_verl_0_4_serve_their_versions(version: str) -> None:
    assert choose_version(RolloutEngine.VLLM, "0.4.1", requested=version) is not None


def test_an_installed_engine_counts_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(importlib.metadata, "version", {"vllm": "0.10.2", "sglang": "0.5.5"}.__getitem__)
    found = choose_version(RolloutEngine.VLLM, "0.8.0", look=True)
    assert found == RolloutEngineChoice(name="vLLM", version="0.10.2", reason="installed")
    unfit = choose_version(RolloutEngine.VLLM, "0.9.1", look=True)
    assert unfit is not None and unfit.version == "0.24.0"
    assert "the installed 0.10.2 does not run with it" in unfit.reason
    unasked = choose_version(RolloutEngine.VLLM, "0.8.0")
    assert unasked is not None and unasked.version == "0.12.0"


def test_transformers_has_no_version() -> None:
    assert choose_version(RolloutEngine.TRANSFORMERS, "0.9.1", requested="4.57") is None
    assert workload_of("", "0.9.1", f"{ROLLOUT}.name=hf").rollout.engine_version == ""


def test_overrides_are_read_with_the_same_engine() -> None:
    before = workload_of("0.7.3")
    after = before.with_rollout(memory_fraction=0.4)
    loaded = load(None, (*DYNAMIC, ALONE), version="0.4.1")
    assert loaded.override_writer(before)(after).overrides == (f"{ROLLOUT}.gpu_memory_utilization=0.4",)


# -- what the fraction is one of -----------------------------------------------------------


def test_0_6_3_takes_a_share_of_what_its_profile_run_leaves() -> None:
    """The sampler sorts 256 x 152,064 logits in 32 bytes each: more than the layers need."""
    workload = workload_of("0.6.3")
    needed = WEIGHTS + HIDDEN + 32 * 256 * 152_064
    assert rollout_memory(workload).kv_bytes == ceil((CARD - trainer(workload) - needed) / 2)


def test_0_7_takes_a_share_of_the_card_for_itself() -> None:
    workload = workload_of("0.7.3")
    assert rollout_memory(workload).kv_bytes == ceil(CARD / 2) - WEIGHTS - HIDDEN - 32 * 256 * 152_064


def test_0_8_counts_the_trainer_and_samples_for_1024() -> None:
    workload = workload_of("0.8.5")
    own = ceil(CARD / 2) - WEIGHTS - HIDDEN - 28 * 1024 * 152_064
    assert rollout_memory(workload).kv_bytes == own - trainer(workload)
    assert trainer(workload) > 4 * 7_615_616_512 // 8


def test_0_10_creates_its_communicator_within_its_share() -> None:
    """A replica of two GPUs, whose workers are the trainer's processes in verl 0.6."""
    two = f"{ROLLOUT}.tensor_model_parallel_size=2"
    early, late = (rollout_memory(workload_of(version, "0.6.1", two)) for version in ("0.10.2", "0.11.0"))
    assert late.kv_bytes - early.kv_bytes == COMMUNICATOR_OVER_LINKS.typical
    own = cache_share(workload_of("0.10.2", "0.7.1"))
    assert (own.process, own.added) == (CONTEXT.typical, 0)


@pytest.mark.parametrize(
    ("version", "fraction_of", "checks", "staged", "older", "graphs"),
    [
        ("0.6.3", FractionOf.FREE_AFTER_WEIGHTS, False, True, False, False),
        ("0.7.3", FractionOf.OWN, False, False, False, False),
        ("0.8.2", FractionOf.TOTAL_OF_ALL, False, False, True, False),
        ("0.8.5", FractionOf.TOTAL_OF_ALL, False, True, True, False),
        ("0.9.0", FractionOf.TOTAL_OF_ALL, False, True, True, False),
        ("0.9.1", FractionOf.OWN, True, True, False, False),
        ("0.11.0", FractionOf.TOTAL, True, True, False, False),
        ("0.18.0", FractionOf.TOTAL, True, True, False, False),
        ("0.20.0", FractionOf.TOTAL, True, True, False, True),
    ],
)
def test_the_facts_of_each_version(
    version: str, fraction_of: FractionOf, checks: bool, staged: bool, older: bool, graphs: bool
) -> None:
    rollout = workload_of(version).rollout
    assert (rollout.fraction_of, rollout.checks_free) == (fraction_of, checks)
    assert (rollout.staged_wake_up, rollout.counts_graphs) == (staged, graphs)
    assert (rollout.older_core is not None) is older
    assert rollout.frees_windows is at_least(version, "0.9.1")


@pytest.mark.parametrize(
    ("version", "architecture", "counts"),
    [
        ("0.21.0", "qwen3", True),
        ("0.22.0", "qwen3", False),
        ("0.22.0", "llama", True),
        ("0.23.0", "llama", False),
        ("0.23.0", "qwen2_moe", True),
        ("0.24.0", "qwen2_moe", False),
        ("0.24.0", "qwen2", True),
        ("0.24.0", "qwen3_moe", True),
        ("0.24.0", "deepseek_v3", True),
    ],
)
def test_the_second_runner_takes_no_graphs_from_the_cache(
    version: str, architecture: str, counts: bool
) -> None:
    rollout = workload_of(version, model=replace(QWEN25_7B, architecture=architecture)).rollout
    assert rollout.counts_graphs is counts


@pytest.mark.parametrize(("version", "overlaps"), [("0.12.0", False), ("0.14.0", True), ("0.24.0", True)])
def test_the_host_schedules_beside_the_gpu_by_default_since_0_14(version: str, overlaps: bool) -> None:
    assert workload_of(version).rollout.overlaps_scheduling is overlaps


@pytest.mark.parametrize(
    ("version", "h100", "a100", "a10g"),
    [
        ("0.6.3", 256, 256, 256),
        ("0.7.3", 256, 256, 256),
        ("0.8.3", 1024, 1024, 1024),
        ("0.8.4", 1024, 256, 256),
        ("0.8.5", 1024, 1024, 256),
        ("0.9.0", 1024, 256, 256),
    ],
)
def test_how_many_sequences_run_where_verl_passes_no_limit(
    version: str, h100: int, a100: int, a10g: int
) -> None:
    from tuner.gpus import find_gpu

    cards = (find_gpu(name) for name in ("h100-sxm", "a100-sxm-80g", "a10g"))
    assert [default_sequences(version, card) for card in cards] == [h100, a100, a10g]


def test_a_cache_that_only_the_older_core_has_room_for_is_doubted() -> None:
    """0.22 of the card is 17.5 GiB: beside weights of 14.2, V0's sampler takes 1.2 and V1's 4.1."""
    workload = workload_of("0.8.5", "0.4.1", f"{ROLLOUT}.gpu_memory_utilization=0.22")
    estimate = memory.estimate(workload)
    assert rollout_memory(workload).kv_bytes < 0
    assert not estimate.problems
    assert "VLLM_USE_V1=0" in estimate.doubts[0]
    assert estimate.fits() and not estimate.fits_for_certain()
    less = workload.with_rollout(memory_fraction=0.19)  # 15.1 GiB
    assert memory.estimate(less).problems and not memory.estimate(less).doubts
    more = memory.estimate(workload.with_rollout(memory_fraction=0.5))
    assert not more.problems and not more.doubts


# -- sleep and weight sync of the copied workers -------------------------------------------


def _moments(workload: Workload, phase: Phase) -> dict[str, set[str]]:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    return {moment.name: {term.name for term in moment.terms} for moment in found.moments}


def test_0_6_3_loads_on_the_host_and_moves_its_weights_at_the_end() -> None:
    sync = _moments(workload_of("0.6.3"), Phase.UPDATE_WEIGHTS)
    assert "engine_weights" not in sync["transfer"] and "sync_tensor" in sync["transfer"]
    assert "engine_weights" in sync["weights_moved"] and "sync_tensor" not in sync["weights_moved"]
    current = _moments(workload_of("0.8.5"), Phase.UPDATE_WEIGHTS)
    assert {"engine_weights", "sync_tensor"} <= current["transfer"]
    assert "weights_moved" not in current


def test_0_6_3_casts_each_tensor_that_fsdp_gathers() -> None:
    """The embedding in float32 and in bfloat16: 152,064 x 3,584 x (4 + 2)."""
    phase = memory.estimate(workload_of("0.6.3")).phase(Phase.UPDATE_WEIGHTS)
    assert phase is not None
    transfer = next(moment for moment in phase.moments if moment.name == "transfer")
    sizes = {term.name: term.bytes for term in transfer.terms}
    assert sizes["sync_tensor"] == 152_064 * 3_584 * 6


def test_0_6_3_leaves_fsdps_weights_on_the_card() -> None:
    offload = "actor_rollout_ref.actor.fsdp_config.param_offload=True"
    for version, stays in (("0.6.3", True), ("0.8.5", False)):
        woken = _moments(workload_of(version, "0.4.1", offload), Phase.WAKE_UP)["cache_mapped"]
        assert ("actor_parameters" in woken) is stays
    megatron = tuple(one for one in MEGATRON if "tensor_model" not in one)
    offload = "actor_rollout_ref.actor.megatron.param_offload=True"
    assert not workload_of("0.6.3", "0.4.1", offload, launch=megatron).sync.keeps_loaded


def test_up_to_0_4_only_the_cache_of_0_6_3_stays_when_it_is_told_to() -> None:
    stays = f"{ROLLOUT}.free_cache_engine=False"
    old = workload_of("0.6.3", "0.4.1", stays)
    assert old.rollout.frees_memory and old.rollout.sleeps_with_cache
    found = rollout_memory(old)
    assert found.asleep_bytes == found.kv_bytes
    assert "kv_cache" in _moments(old, Phase.UPDATE_ACTOR)["optimizer_step"]
    new = workload_of("0.8.5", "0.4.1", stays).rollout
    assert new.frees_memory and not new.sleeps_with_cache


def test_v0_swaps_to_the_host_and_0_6_3_keeps_a_plain_copy_there() -> None:
    """Eight GPUs: 4 GiB of cache blocks each, and a copy of the weights each, which is not pinned."""
    found = {term.name: term for term in host_terms(workload_of("0.6.3"))}
    assert found["rollout_swap"].bytes == 8 * 4 * GIB
    assert found["rollout_weights"].low == found["rollout_weights"].high == 8 * WEIGHTS
    newer = {term.name: term for term in host_terms(workload_of("0.8.5"))}
    assert "rollout_swap" not in newer
    assert newer["rollout_weights"].high == 2 * 8 * WEIGHTS


def test_v0_captures_35_batch_sizes() -> None:
    eager = f"{ROLLOUT}.enforce_eager=False"
    sizes = workload_of("0.7.3", "0.4.1", eager).rollout.capture_sizes
    assert sizes is not None and len(sizes) == 35 and sizes[-1] == 256
    assert workload_of("0.8.5", "0.4.1", eager).rollout.capture_sizes is None


def test_what_old_versions_cannot_serve_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="latent attention"):
        load(None, GRPO, version="0.4.1").workload(
            model=find_model("DeepSeek-V3"),
            critic_model=None,
            cluster=cluster(gpus_per_node=8),
            rollout_engine_version="0.6.3",
        )
    with pytest.raises(UnsupportedError, match="adapters"):
        workload_of("0.7.2", launch=LORA)
    assert workload_of("0.7.3", launch=LORA).actor.engine.lora is not None


@pytest.mark.parametrize(
    ("version", "release", "model", "tunes"),
    [
        ("0.24.0", "0.9.1", "qwen2.5-7b", True),
        ("0.24.0", "0.9.1", "Qwen2.5-VL-7B-Instruct", False),  # gets its embeddings, so they are not compiled
        ("0.12.0", "0.8.0", "qwen2.5-7b", False),
    ],
)
def test_kernels_are_timed_on_a_copy_of_the_embedding(
    version: str, release: str, model: str, tunes: bool
) -> None:
    assert workload_of(version, release, model=find_model(model)).rollout.tunes_at_start is tunes


def test_the_second_runners_sampler_copies_once() -> None:
    second, first = (
        workload_of("0.24.0", "0.9.1", model=find_model(model)).rollout
        for model in ("qwen3-4b", "qwen2.5-1.5b")
    )
    assert (second.sampler_bytes, first.sampler_bytes) == (6, 18)
    assert first.counts_graphs and not second.counts_graphs


# -- switches ------------------------------------------------------------------------------

OFF = (f"{ROLLOUT}.enable_chunked_prefill=False", f"{ROLLOUT}.enable_prefix_caching=False")


@pytest.mark.parametrize(
    ("release", "version", "switches", "chunked", "cached"),
    [
        ("0.5.0", "0.7.3", OFF[:1], False, True),  # has no key for prefixes
        ("0.5.0", "0.8.0", OFF[:1], True, True),
        ("0.6.1", "0.11.0", OFF, True, False),
        ("0.6.1", "0.11.1", OFF, False, False),
        ("0.6.1", "0.11.1", (*OFF, f"{ROLLOUT}.mode=async"), True, True),  # the server is not told
        ("0.7.1", "0.12.0", OFF, True, True),
        ("0.9.0", "0.18.0", OFF, True, True),
        ("0.9.1", "0.24.0", OFF, False, False),
    ],
)
def test_what_vllm_makes_of_switches_that_are_off(
    release: str, version: str, switches: tuple[str, ...], chunked: bool, cached: bool
) -> None:
    rollout = workload_of(version, release, *switches).generator
    assert (rollout.chunked_prefill, rollout.prefix_caching) == (chunked, cached)


def test_a_server_that_is_told_nothing_keeps_no_prefixes_of_a_model_with_states() -> None:
    assert not workload_of(
        "0.18.0", "0.9.0", OFF[1], model=find_model("Qwen3-Next-80B-A3B-Instruct")
    ).generator.prefix_caching
