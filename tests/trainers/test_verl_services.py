"""The reward model and the teachers as each release reads them."""

import pytest

from tests.trainers.launches import DYNAMIC, MEGATRON, VERSIONS, settings_of
from tests.workloads import QWEN25_7B, QWEN25_32B, cluster
from tuner.errors import InputError
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.trainers.verl.read import read, service_paths
from tuner.trainers.verl.write import override_writer
from tuner.workload import Backend, RolloutEngine, Service, ServiceRole, Workload

PATH = "judge/RM-32B"
OLD, NEW = "reward_model", "reward.reward_model"
MOVED = tuple(version for version in VERSIONS if version >= "0.7.1")  # to the section that is new there
SERVED = ("0.7.0", *MOVED)
SCORED = tuple(version for version in VERSIONS if version < "0.7.0")


def reward_of(version: str, *more: str) -> tuple[str, ...]:
    """The overrides of a reward model, in the words of a release, and ``more`` below its section."""
    section = NEW if version in MOVED else OLD
    path = "model_path" if version in MOVED else "model.path"
    mine = (f"{section}.enable=True", f"{section}.{path}={PATH}")
    return (*mine, *(f"{section}.{override}" for override in more))


def workload_of(overrides: tuple[str, ...], version: str, model: ModelShape | None = QWEN25_32B) -> Workload:
    settings = settings_of(overrides, version)
    return read(
        settings,
        version=version,
        model=QWEN25_7B,
        critic_model=None,
        cluster=cluster(gpus_per_node=8),
        service_models={} if model is None else {path: model for _, path in paths(settings, version)},
    )


def paths(settings: Settings, version: str) -> tuple[tuple[ServiceRole, str], ...]:
    return service_paths(settings, version=version)


def reward(version: str, *more: str, model: ModelShape | None = QWEN25_32B) -> Service:
    service = workload_of((*DYNAMIC, *reward_of(version, *more)), version, model).reward
    assert service is not None
    return service


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reward_model_that_is_not_enabled_is_none(version: str) -> None:
    overrides = tuple(override for override in reward_of(version) if ".enable=" not in override)
    assert workload_of((*DYNAMIC, *overrides), version).services == ()
    assert paths(settings_of((*DYNAMIC, *overrides), version), version) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_shares_the_trainers_gpus_and_has_one_output(version: str) -> None:
    service = reward(version, *(("rollout.name=vllm",) if version in SERVED else ()))
    assert (service.role, service.name, service.gpus) == (ServiceRole.REWARD, PATH, 8)
    assert service.shares_gpus
    assert not service.left_out
    assert service.model is not None
    assert service.model.value_head
    assert (service.server is not None) == (version in SERVED)
    assert (service.engine is not None) == (version in SCORED)


@pytest.mark.parametrize("version", VERSIONS)
def test_one_whose_model_nobody_knows_is_left_out(version: str) -> None:
    service = reward(version, model=None)
    assert service.left_out
    assert (service.server, service.engine, service.model) == (None, None, None)


# -- on an engine of the trainer ---------------------------------------------------------------


@pytest.mark.parametrize("version", SCORED)
def test_its_weights_wait_on_the_host_whatever_the_switch_says(version: str) -> None:
    for second in (False, True):
        strategy = f"strategy={'fsdp2' if second else 'fsdp'}"
        engine = reward(version, strategy, "model.fsdp_config.param_offload=False").engine
        assert engine is not None
        assert engine.backend is (Backend.FSDP2 if second else Backend.FSDP)
        assert engine.streamed_offload
        assert (engine.stored_dtype.bytes, engine.compute_dtype.bytes) == (2, 2)
        assert engine.frees_root is not second
        assert (engine.parallel.shard, engine.parallel.ulysses, engine.packed) == (8, 1, False)


@pytest.mark.parametrize("version", SCORED)
def test_its_micro_batches_have_keys_of_their_own(version: str) -> None:
    sizes = ("use_dynamic_bsz=False", "micro_batch_size_per_gpu=3", "ulysses_sequence_parallel_size=2")
    service = reward(version, *sizes, "model.use_remove_padding=True", "model.fsdp_config.fsdp_size=4")
    assert service.engine is not None
    assert service.scoring is not None
    assert not service.scoring.batching.dynamic
    assert service.scoring.batching.micro_batch_sequences == 3
    assert (service.engine.parallel.shard, service.engine.parallel.ulysses) == (4, 2)
    assert service.engine.packed
    filled = reward(version, "use_dynamic_bsz=True", "forward_max_token_len_per_gpu=9000").scoring
    assert filled is not None
    assert (filled.batching.dynamic, filled.batching.token_budget) == (True, 9000)


@pytest.mark.parametrize("version", SCORED)
def test_under_megatron_it_is_divided_and_offloaded_as_its_section_says(version: str) -> None:
    settings = ("megatron.tensor_model_parallel_size=2", "megatron.param_offload=True")
    overrides = (*MEGATRON, *reward_of(version, "strategy=megatron", "micro_batch_size_per_gpu=2", *settings))
    service = workload_of(overrides, version).reward
    assert service is not None
    assert service.engine is not None
    assert service.engine.backend is Backend.MEGATRON
    assert service.engine.parallel.tensor == 2
    assert service.engine.param_offload
    assert not service.engine.streamed_offload


def test_a_pool_of_its_own_needs_no_engine_of_the_trainer() -> None:
    service = reward("0.6.1", "enable_resource_pool=True", "n_gpus_per_node=4", "nnodes=2")
    assert (service.shares_gpus, service.gpus, service.engine) == (False, 8, None)
    assert reward("0.5.0").shares_gpus


def test_one_release_can_be_told_to_score_on_the_trainers_engine() -> None:
    assert reward("0.7.0", "rollout.name=vllm", "use_reward_loop=True").server is not None
    service = reward("0.7.0", "use_reward_loop=False", "strategy=fsdp2")
    assert service.engine is not None
    assert service.engine.backend is Backend.FSDP2
    assert not service.engine.keeps_root


# -- on an inference engine --------------------------------------------------------------------


@pytest.mark.parametrize("version", SERVED)
def test_its_engine_has_settings_of_its_own(version: str) -> None:
    sizes = ("rollout.tensor_model_parallel_size=4", "rollout.max_num_seqs=64")
    shares = ("rollout.gpu_memory_utilization=0.3", "rollout.free_cache_engine=False")
    workload = workload_of((*DYNAMIC, *reward_of(version, "rollout.name=vllm", *sizes, *shares)), version)
    service = workload.reward
    assert service is not None
    server = service.server
    assert server is not None
    assert (server.engine, server.engine_version) == (RolloutEngine.VLLM, workload.rollout.engine_version)
    assert (server.tensor_parallel, server.max_sequences, server.memory_fraction) == (4, 64, 0.3)
    assert (server.frees_memory, server.cuda_graphs, server.own_process) == (False, False, True)
    assert (server.sleep_level, server.sampler_bytes, server.colocated) == (1, 0, True)
    assert workload.rollout.memory_fraction == 0.5
    assert service.starts_first == (version == "0.7.0")


@pytest.mark.parametrize("version", ["0.9.0", "0.9.1"])
def test_nothing_reads_the_old_section_any_more(version: str) -> None:
    old = (f"{OLD}.enable=True", f"{OLD}.model.path={PATH}")
    assert workload_of((*DYNAMIC, *old), version).reward is None


@pytest.mark.parametrize("version", [version for version in MOVED if version < "0.9"])
def test_the_old_section_still_counts(version: str) -> None:
    old = (f"{OLD}.enable=True", f"{OLD}.model.path={PATH}", f"{OLD}.rollout.gpu_memory_utilization=0.2")
    new = (f"{NEW}.rollout.name=sglang", f"{NEW}.rollout.gpu_memory_utilization=0.6")
    service = workload_of((*DYNAMIC, *old, *new), version).reward
    assert service is not None
    assert service.name == PATH
    assert service.server is not None
    assert service.server.engine is RolloutEngine.SGLANG
    assert service.server.memory_fraction == 0.2
    assert service.server.sleep_level == 2


@pytest.mark.parametrize("version", SERVED)
def test_one_that_writes_its_verdict_has_all_logits(version: str) -> None:
    own = (f"{'reward.' if version in MOVED else ''}custom_reward_function.path=judge.py",)
    overrides = (*DYNAMIC, *reward_of(version, "rollout.name=vllm"), *own)
    service = workload_of(overrides, version).reward
    assert service is not None
    assert service.model == QWEN25_32B
    assert not service.model.value_head
    assert service.server is not None
    assert service.server.sampler_bytes > 0


@pytest.mark.parametrize("version", SERVED)
def test_its_pool_can_be_its_own(version: str) -> None:
    service = reward(
        version, "rollout.name=vllm", "enable_resource_pool=True", "n_gpus_per_node=4", "nnodes=3"
    )
    assert (service.shares_gpus, service.gpus) == (False, 12)
    assert service.server is not None
    assert not service.server.colocated


@pytest.mark.parametrize(
    ("setting", "message"),
    [("tensor_model_parallel_size=16", "16"), ("name=hf", "server"), ("gpu_memory_utilization=2", "2")],
)
def test_a_wrong_value_is_named_by_its_own_key(setting: str, message: str) -> None:
    named = () if setting.startswith("name=") else ("rollout.name=vllm",)
    with pytest.raises(InputError, match=message) as raised:
        reward("0.9.1", *named, f"rollout.{setting}")
    assert str(raised.value.key).startswith(f"{NEW}.rollout.{setting.partition('=')[0]}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_proposal_leaves_it_as_it_is(version: str) -> None:
    named = ("rollout.name=vllm",) if version in SERVED else ()
    overrides = (*DYNAMIC, *reward_of(version, *named))
    settings, workload = settings_of(overrides, version), workload_of(overrides, version)
    write = override_writer(workload, settings, version=version)
    assert write(workload.with_rollout(memory_fraction=0.7))


# -- teachers ----------------------------------------------------------------------------------

TEACHERS = "distillation.teacher_models"


@pytest.mark.parametrize("version", ["0.8.0", "0.9.1"])
def test_a_teacher_is_served_on_gpus_of_its_own(version: str) -> None:
    distilled = (
        "distillation.enabled=True",
        "distillation.n_gpus_per_node=4",
        "distillation.nnodes=2",
        f"{TEACHERS}.teacher_model.model_path=teacher",
        f"{TEACHERS}.teacher_model.inference.tensor_model_parallel_size=4",
    )
    (service,) = workload_of((*DYNAMIC, *distilled), version, QWEN25_32B).services
    assert (service.role, service.name, service.gpus) == (ServiceRole.TEACHER, "teacher", 8)
    assert not service.shares_gpus
    assert service.server is not None
    assert (service.server.engine, service.server.tensor_parallel) == (RolloutEngine.VLLM, 4)
    assert workload_of((*DYNAMIC, *distilled[1:]), version, QWEN25_32B).services == ()


def test_several_teachers_have_their_own_replicas() -> None:
    more = tuple(
        override
        for name, replicas in (("one", 1), ("two", 3))
        for override in (
            f"+{TEACHERS}.{name}.key={name}",
            f"+{TEACHERS}.{name}.model_path=teacher-{name}",
            f"+{TEACHERS}.{name}.num_replicas={replicas}",
            f"+{TEACHERS}.{name}.inference.name=vllm",
            f"+{TEACHERS}.{name}.inference.tensor_model_parallel_size=2",
        )
    )
    services = workload_of((*DYNAMIC, "distillation.enabled=True", *more), "0.9.1", QWEN25_32B).services
    assert [(service.name, service.gpus) for service in services] == [("teacher-one", 2), ("teacher-two", 6)]
