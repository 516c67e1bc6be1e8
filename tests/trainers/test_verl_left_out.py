"""What a job has and its estimate does not count is said; a job on the defaults has nothing of the kind."""

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.loading import launches_with_config, load
from tests.trainers.launches import ACTOR, ALL, DYNAMIC, MEGATRON, MODEL, PPO, ROLLOUT, VERSIONS
from tests.workloads import QWEN25_7B, cluster
from tuner.errors import TunerError
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut
from tuner.trainers.verl.defaults import CONFIGS

pytestmark = pytest.mark.sampled(6)

ROOT = "actor_rollout_ref"
KL_OFF = (f"{ACTOR}.use_kl_loss=False", "algorithm.use_kl_in_reward=False")
_ATTENTION = f"{MODEL}.override_config.attn_implementation"


def parts(
    *overrides: str,
    version: str = "0.9.1",
    model: str = "qwen2.5-7b",
    judges: Mapping[str, ModelShape] | None = None,
) -> dict[str, LeftOut]:
    loaded = load(None, overrides, version=version)
    gpus, nodes = loaded.cluster_size()
    workload = loaded.workload(
        model=find_model(model),
        critic_model=None,
        cluster=cluster(gpus_per_node=gpus, nodes=nodes),
        service_models=judges or {},
    )
    return {part.name: part for part in loaded.left_out(workload)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("launch", ALL)
def test_what_is_read_leaves_nothing_out(launch: str, version: str) -> None:
    assert not parts(*ALL[launch], version=version)


def test_overrides_of_the_model_are_named_beside_what_is_told_apart() -> None:
    section = f"{MODEL}.override_config"
    assert not parts(f"+{_ATTENTION}=flash_attention_3", f"+{section}.max_position_embeddings=65536")
    assert not parts(f"+{_ATTENTION}=eager")  # counted
    told = parts(f"+{_ATTENTION}=flex_attention", f"+{section}.num_hidden_layers=4")
    assert {part.key for part in told.values()} == {_ATTENTION, f"{section}.num_hidden_layers"}


def test_another_reference_model_is_one_that_runs_and_lies_elsewhere() -> None:
    other = f"+{ROOT}.ref.model.path=Qwen/Qwen2.5-14B"
    own = (f"{MODEL}.path=Qwen/Qwen2.5-7B", f"+{ROOT}.ref.model.path=Qwen/Qwen2.5-7B")
    for version in ("0.6.0", "0.9.1"):
        for switch in (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward"):
            named = parts(*DYNAMIC, *KL_OFF, f"{switch}=True", other, version=version)
            assert [part.key for part in named.values()] == [f"{ROOT}.ref.model.path"]
            assert not parts(*DYNAMIC, *KL_OFF, f"{switch}=True", *own, version=version)
        assert not parts(*DYNAMIC, *KL_OFF, other, version=version)


def test_attention_of_pytorch_is_counted_but_for_what_shares_sequences() -> None:
    asked = f"+{_ATTENTION}=sdpa"
    for version in ("0.6.1", "0.9.1"):
        assert not parts(*DYNAMIC, asked, version=version)
        shared = parts(*DYNAMIC, asked, f"{ACTOR}.ulysses_sequence_parallel_size=2", version=version)
        assert {part.key for part in shared.values()} == {_ATTENTION}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("config", CONFIGS)
def test_the_defaults_leave_nothing_out(config: str, version: str) -> None:
    assert not parts(f"--config-name={config}", f"{ROLLOUT}.name=vllm", version=version)


@pytest.mark.parametrize(
    ("overrides", "version", "name", "key"),
    [
        (["reward_model.enable=True"], "0.6.1", "the reward model", "reward_model.enable"),
        (
            ["reward.reward_model.enable=True"],
            "0.9.1",
            "the reward model",
            "reward.reward_model.enable",
        ),
        (["distillation.enabled=True"], "0.9.1", "the distillation teacher", "distillation.enabled"),
        (
            [f"{MODEL}.mtp.enable=True", f"{MODEL}.mtp.enable_train=True"],
            "0.9.1",
            "the MTP head",
            f"{MODEL}.mtp.enable",
        ),
        (
            [f"{ACTOR}.optim.optimizer=AdamW8bit"],
            "0.9.1",
            "the states of another optimizer",
            f"{ACTOR}.optim.optimizer",
        ),
        (
            [f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_memory_bytes=1000000000"],
            "0.9.1",
            "arguments of the engine",
            f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_memory_bytes",
        ),
        *(
            ([f"+{_ATTENTION}={name}"], version, told, _ATTENTION)
            for name, version, told in (
                ("flex_attention", "0.6.1", "attention other than FlashAttention"),
                ("flex_attention", "0.9.1", "attention other than FlashAttention"),
                ("sdpa", "0.6.0", "overrides of the model's configuration"),
            )
        ),
        ([f"{MODEL}.use_shm=True"], "0.5.0", "the copy of the model in shared memory", f"{MODEL}.use_shm"),
    ],
)
def test_a_part_is_named_with_the_setting_that_asks_for_it(
    overrides: list[str], version: str, name: str, key: str
) -> None:
    named = parts(*DYNAMIC, *overrides, version=version)
    assert set(named) == {name}
    part = named[name]
    assert (part.key, str(part.value)) == (key, overrides[0].partition("=")[2])
    assert part.origin is not None
    assert str(part.origin) == overrides[0]
    assert part.reason


def test_what_belongs_to_a_part_is_silent_while_the_part_is_off() -> None:
    assert not parts(*DYNAMIC, "reward.reward_model.rollout.gpu_memory_utilization=0.3")
    assert not parts(*DYNAMIC, "global_profiler.tool=nsys")
    assert not parts(*DYNAMIC, "critic.ppo_mini_batch_size=64")
    assert not parts(*DYNAMIC, f"{MODEL}.lora.dropout=0.1")


def test_a_value_that_is_the_default_is_silent() -> None:
    assert not parts(*DYNAMIC, "trainer.device=cuda", f"{ROLLOUT}.checkpoint_engine.backend=naive")
    assert not parts(*DYNAMIC, f"{ROLLOUT}.quantization_config_file=null")


def test_what_has_gpus_of_its_own_costs_seconds_alone() -> None:
    shared = parts(*DYNAMIC, "reward.reward_model.enable=True")
    apart = parts(
        *DYNAMIC, "reward.reward_model.enable=True", "reward.reward_model.enable_resource_pool=True"
    )
    assert shared["the reward model"].affects is Affects.GPU
    assert apart["the reward model"].affects is Affects.SECONDS


def test_a_reward_model_of_known_size_is_counted() -> None:
    path = "Qwen/Qwen2.5-7B-Instruct"
    named = (f"reward.reward_model.model_path={path}", "reward.reward_model.rollout.name=vllm")
    shared = (*DYNAMIC, "reward.reward_model.enable=True", *named)
    known = {path: QWEN25_7B}
    assert not parts(*shared, judges=known)
    options = "reward.reward_model.rollout.mtp={enable: true}"
    assert "the reward model's other options" in parts(*shared, options, judges=known)


def test_a_loss_over_top_tokens_is_named() -> None:
    mode = "distillation.distillation_loss.loss_mode=forward_kl_topk"
    assert not parts(*DYNAMIC, mode)
    named = parts(*DYNAMIC, mode, "distillation.enabled=True")
    assert named["the distillation loss"].affects is Affects.GPU
    assert named["the distillation teacher"].affects is Affects.SECONDS


def test_a_key_that_is_read_for_something_else_can_leave_something_out() -> None:
    shared = f"{ACTOR}.use_prefix_grouper=True"
    assert "the sharing of prompts" in parts(*DYNAMIC, shared, version="0.7.1")
    assert not parts(*DYNAMIC, shared, version="0.9.1")


def test_images_are_named_where_the_model_sees_them() -> None:
    images = "data.image_key=images"
    assert "the images" in parts(*DYNAMIC, images, model="GLM-4.1V-9B-Thinking")
    assert "the images" in parts(*DYNAMIC, model="GLM-4.1V-9B-Thinking")  # their column has a name by default
    assert not parts(*DYNAMIC, images)


def test_what_is_not_counted_of_images_is_named() -> None:
    seen = (*DYNAMIC, "data.image_key=images")
    work = "the vision tower in generation"
    assert set(parts(*seen, model="Qwen2-VL-7B")) == {work}
    assert set(parts(*seen, f"{ROLLOUT}.name=sglang", model="Qwen3-VL-8B-Instruct")) == {
        work,
        "the rollout engine's images",
    }
    stages = (*MEGATRON, "data.image_key=images")
    assert set(parts(*stages, model="Qwen2.5-VL-7B-Instruct")) == {work, "the vision tower's activations"}
    assert parts(*seen, model="Qwen2-VL-7B")[work].affects is Affects.SECONDS
    assert "the videos and sounds" in parts(*DYNAMIC, "data.video_key=videos", model="Qwen2-VL-7B")


def test_a_critic_that_steps_as_often_as_it_likes_is_counted() -> None:
    assert not parts(*PPO, "critic.ppo_mini_batch_size=128")
    assert not parts(*PPO, "critic.ppo_mini_batch_size=64", "critic.ppo_epochs=2")


def test_a_key_that_a_release_does_not_read_leaves_nothing_out() -> None:
    assert "tiled MLPs" in parts(*DYNAMIC, f"{MODEL}.tiled_mlp.enabled=True", version="0.7.1")
    preview = "trainer.use_legacy_worker_impl=disable"
    assert not parts(*DYNAMIC, f"{MODEL}.tiled_mlp.enabled=True", preview, version="0.7.1")
    assert not parts(*DYNAMIC, f"{MODEL}.tiled_mlp.enabled=True", version="0.9.1")


@pytest.mark.slow
def test_parts_of_real_launches() -> None:
    names: Counter[str] = Counter()
    read = 0
    for version, overrides in launches_with_config():
        try:
            loaded = load(None, overrides, version=version)
            gpus, nodes = loaded.cluster_size()
            machines = cluster(gpus_per_node=gpus, nodes=nodes)
            workload = loaded.workload(model=QWEN25_7B, critic_model=None, cluster=machines)
        except TunerError:
            continue
        read += 1
        names.update(part.name for part in loaded.left_out(workload))
    assert read > 250
    assert names["the reward model"] >= 20
    assert names["what is peculiar to an Ascend card"] >= 20
    assert names.total() < 1.5 * read


def test_groups_that_a_trainer_of_ones_own_drops_are_named_where_they_are() -> None:
    named = parts(*DYNAMIC, "+trainer.rejection_sample=True", version="0.4.0")
    assert {name: part.affects for name, part in named.items()} == {
        "groups that a trainer of one's own drops": Affects.SECONDS
    }
    assert not parts(*DYNAMIC, "+trainer.rejection_sample=False", version="0.4.0")
