"""Decisive settings that nobody set are named with the default that is used."""

from pathlib import Path

from tests import workloads
from tests.loading import load
from tests.trainers.launches import ACTOR, GRPO, MEGATRON, MODEL, ROLLOUT
from tuner.trainers.verl.unset_defaults import resting_on_defaults
from tuner.workload import Backend


def resting(
    *overrides: str,
    dynamic: bool = False,
    path: Path | None = None,
    gpus_per_node: int = 8,
    version: str = "0.9.1",
) -> dict[str, object]:
    settings = load(path, overrides, version=version).settings
    update = workloads.dynamic(1024) if dynamic else workloads.static(1)
    job = workloads.grpo_7b(gpus_per_node=gpus_per_node).with_actor(update=update)
    if f"{ACTOR}.strategy" in settings and settings.get(f"{ACTOR}.strategy") == "megatron":
        job = job.with_actor_engine(backend=Backend.MEGATRON)
    return dict(resting_on_defaults(settings, job, version=version))


def test_what_is_set_is_not_named() -> None:
    found = resting(*GRPO)
    assert "data.max_response_length" not in found
    assert f"{ROLLOUT}.n" not in found
    assert found[f"{ROLLOUT}.gpu_memory_utilization"] == 0.5
    assert found[f"{ACTOR}.fsdp_config.param_offload"] is False


def test_without_any_setting_the_lengths_are_named() -> None:
    found = resting()
    assert found["data.max_prompt_length"] == 512
    assert found["data.max_response_length"] == 512


def test_a_value_in_a_file_counts_as_set(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("data:\n  max_response_length: 512\n")  # the default's own value
    found = resting(path=config)
    assert "data.max_response_length" not in found
    assert "data.max_prompt_length" in found


def test_only_the_size_that_the_batching_uses_is_named() -> None:
    budget, micro = f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    assert resting(*GRPO, dynamic=True)[budget] == 16384
    static = resting(*GRPO)
    assert budget not in static
    assert micro not in static  # it has no default: a check says so


def test_a_cluster_that_the_command_names_does_not_rest_on_a_default() -> None:
    assert resting(*GRPO)["trainer.n_gpus_per_node"] == 8
    named = resting(*GRPO, gpus_per_node=16)
    assert "trainer.n_gpus_per_node" not in named
    assert named["trainer.nnodes"] == 1


def test_the_advantage_estimator_decides_whether_there_is_a_critic() -> None:
    assert resting()["algorithm.adv_estimator"] == "gae"
    assert "algorithm.adv_estimator" not in resting("algorithm.adv_estimator=grpo")


def test_switches_that_megatron_does_not_read_are_not_named() -> None:
    recomputes, packs = f"{MODEL}.enable_gradient_checkpointing", f"{MODEL}.use_remove_padding"
    assert {recomputes, packs}.isdisjoint(resting(*MEGATRON, version="0.7.1"))
    assert recomputes in resting(*MEGATRON, version="0.4.1")
    assert packs in resting(*MEGATRON, version="0.8.0")
