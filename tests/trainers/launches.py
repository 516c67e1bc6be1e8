"""Launches that the tests of verl's reader rest on."""

from collections.abc import Sequence
from typing import TypeVar

from tests.loading import load
from tests.workloads import QWEN25_7B, cluster
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.trainers.verl.read import read
from tuner.trainers.verl.releases import BUNDLED
from tuner.versions import at_least
from tuner.workload import Workload

_T = TypeVar("_T")
VERSIONS = BUNDLED[1:]  # 0.3 runs FSDP1 without adapters alone and has tests of its own
ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"

GRPO = (
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.n=8",
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=512",
    "data.max_prompt_length=1024",
    "data.max_response_length=3072",
    f"{MODEL}.path=Qwen/Qwen2.5-7B-Instruct",
    f"{MODEL}.use_remove_padding=True",
    f"{ACTOR}.use_kl_loss=True",
    f"{ACTOR}.ppo_mini_batch_size=128",
)
DYNAMIC = (*GRPO, f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.strategy=fsdp2")
STATIC = (
    *GRPO,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=4",
    f"{REF}.log_prob_micro_batch_size_per_gpu=4",
)
LORA = (*DYNAMIC, f"{MODEL}.lora_rank=32", f"{ACTOR}.strategy=fsdp", f"{ROLLOUT}.load_format=safetensors")
PPO = (
    *DYNAMIC,
    "algorithm.adv_estimator=gae",
    "critic.strategy=fsdp2",
    "critic.model.path=Qwen/Qwen2.5-7B-Instruct",
    "critic.model.use_remove_padding=True",
)
SGLANG = (*DYNAMIC, f"{ROLLOUT}.name=sglang")
MEGATRON = (
    "--config-name=ppo_megatron_trainer",
    *(override for override in GRPO if "use_remove_padding" not in override),
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.megatron.tensor_model_parallel_size=4",
    f"{REF}.megatron.tensor_model_parallel_size=4",
)
VEOMNI = (
    "model_engine=veomni",
    *GRPO,
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.veomni.expert_parallel_size=4",
    f"{ACTOR}.veomni.ulysses_parallel_size=2",
)
ALL = {
    "dynamic": DYNAMIC,
    "static": STATIC,
    "lora": LORA,
    "ppo": PPO,
    "sglang": SGLANG,
    "megatron": MEGATRON,
}


def since(release: str) -> tuple[str, ...]:
    """The bundled releases from this one on."""
    return tuple(version for version in VERSIONS if at_least(version, release))


def before(release: str) -> tuple[str, ...]:
    """The bundled releases before this one."""
    return tuple(version for version in VERSIONS if not at_least(version, release))


def by_release(first: _T, *changes: tuple[str, _T]) -> list[tuple[str, _T]]:
    """One case per bundled release: the value at first, and from each release on that changes it."""
    value_of = dict.fromkeys(VERSIONS, first)
    for release, value in changes:
        value_of.update(dict.fromkeys(since(release), value))
    return list(value_of.items())


def settings_of(overrides: Sequence[str], version: str) -> Settings:
    """A launch's settings."""
    return load(None, overrides, version=version).settings


def workload_of(
    overrides: Sequence[str], version: str, *, model: ModelShape = QWEN25_7B, gpus: int = 8, nodes: int = 1
) -> Workload:
    """What a release reads from a launch."""
    return read(
        settings_of(overrides, version),
        version=version,
        model=model,
        critic_model=None,
        cluster=cluster(gpus_per_node=gpus, nodes=nodes),
    )
