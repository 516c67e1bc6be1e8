"""Keys of the reward model and of distillation by meaning.

How the releases behind a key are written says :mod:`tuner.trainers.verl.keys`. Until 0.7.0 the section is
``reward_model``. Later releases have ``reward.reward_model``, and up to 0.8.0 take what the old section sets
all the same: ``experimental/reward_loop/reward_loop.py`` (``migrate_legacy_reward_impl``). Later only the
fully asynchronous trainer moves them: ``main_ppo`` takes the new section, and nothing reads the old ones.
"""

from collections.abc import Iterable, Mapping

from tuner.inputs.tree import Path
from tuner.trainers.verl.engine_keys import MEGATRON
from tuner.versions import at_least

#: Meanings behind ``reward.`` that moved, with the leaf before and since, and the release of the first.
_MOVED = {
    "enable": ("enable", "enable", ""),
    "path": ("model.path", "model_path", ""),
    "own_pool": ("enable_resource_pool", "enable_resource_pool", " >=0.6.0"),
    "gpus_per_node": ("n_gpus_per_node", "n_gpus_per_node", " >=0.6.0"),
    "nodes": ("nnodes", "nnodes", " >=0.6.0"),
}
#: Moved keys, and the old ones where a later release still takes them, behind ``old_reward.``.
REWARD: Mapping[str, str | tuple[str, ...]] = {
    **{
        f"reward.{meaning}": (f"reward_model.{old}{since} <0.7.1", f"reward.reward_model.{new} >=0.7.1")
        for meaning, (old, new, since) in _MOVED.items()
    },
    **{f"old_reward.{meaning}": f"reward_model.{old} >=0.7.1" for meaning, (old, _, _) in _MOVED.items()},
    "reward.function": (
        "custom_reward_function.path >=0.7.0 <0.7.1",
        "reward.custom_reward_function.path >=0.7.1",
    ),
    "old_reward.function": "custom_reward_function.path >=0.7.1",
    "reward.served": "reward_model.use_reward_loop >=0.7.0 <0.7.1",
    "distillation": "distillation.enabled >=0.8.0",
    "distillation.gpus_per_node": "distillation.n_gpus_per_node >=0.8.0",
    "distillation.nodes": "distillation.nnodes >=0.8.0",
}
#: Of the worker that runs a reward model on an engine of the trainer.
REWARD_WORKER: Mapping[str, str | tuple[str, ...]] = {
    "reward.strategy": "reward_model.strategy <0.7.1",
    "reward.packed": "reward_model.model.use_remove_padding <0.7.1",
    "reward.ulysses": "reward_model.ulysses_sequence_parallel_size <0.7.1",
    "reward.dynamic": "reward_model.use_dynamic_bsz <0.7.1",
    "reward.token_budget": "reward_model.forward_max_token_len_per_gpu <0.7.1",
    "reward.micro_batch": "reward_model.micro_batch_size_per_gpu <0.7.1",
    "reward.global_micro_batch": "reward_model.micro_batch_size <0.7.1",
    "reward.fsdp.forward_prefetch": "reward_model.model.fsdp_config.forward_prefetch >=0.4.1 <0.7.1",
    "reward.fsdp.fsdp_size": "reward_model.model.fsdp_config.fsdp_size <0.7.1",
    "reward.fsdp.reshard_after_forward": (
        "reward_model.model.fsdp_config.reshard_after_forward >=0.4.0 <0.7.1"
    ),
}
#: Of its engine under Megatron. Which bridge builds it matters once there is more than one.
REWARD_MEGATRON = (
    *(leaf for leaf in MEGATRON if not leaf.startswith(("use_mbridge", "sequence_parallel"))),
    "use_mbridge >=0.7.0",
)
#: The sections of an inference engine's settings, the one that wins first.
REWARD_SECTIONS = ("reward_model.rollout", "reward.reward_model.rollout")
TEACHERS = "distillation.teacher_models"
ONLY_TEACHER = "teacher_model"  # its entry; dropped where others are added
SERVER_SECTIONS = (*REWARD_SECTIONS, f"{TEACHERS}.{ONLY_TEACHER}.inference")
#: What counts of such a section: meanings of the rollout's keys.
SERVED = tuple(
    f"rollout.{name}"
    for name in (
        "engine",
        "memory_fraction",
        "tensor_parallel",
        "data_parallel",
        "pipeline_parallel",
        "expert_parallel",
        "dtype",
        "quantization",
        "vllm_quantization",
        "sglang_quantization",
        "vllm_kv_dtype",
        "vllm_compilation",
        "vllm_capture_sizes",
        "sglang_kv_dtype",
        "max_sequences",
        "max_batched_tokens",
        "max_model_tokens",
        "enforce_eager",
        "capture_sizes",
        "chunked_prefill",
        "prefix_caching",
        "free_cache",
        "sleep_mode",
    )
)
POLICY_SECTION = "actor_rollout_ref.rollout"
_SECTIONS = ("reward_model.", "reward.reward_model.", "distillation.")
#: Old keys of rewards that releases from here on have in their configuration and no longer read.
#: Source: verl 0.7.1 ``trainer/main_ppo.py:44`` and 0.8.0 there ``:47`` (``migrate_legacy_reward_impl``);
#: 0.9.0, 0.9.1 ``experimental/fully_async_policy/fully_async_main.py:237``, ``trainer/ppo/reward.py:70``.
_UNREAD_SINCE = "0.9.0"
FUNCTION: Path = ("custom_reward_function", "path")
_OLD_SECTIONS = ("custom_reward_function.", "reward_model.", "sandbox_fusion.")
_STILL_READS = "fully_async"


def is_of_service(key: str) -> bool:
    """Whether a key is of a reward model or of teachers, whether or not the job has any."""
    return key.startswith(_SECTIONS)


def is_unread(key: str, version: str, program: str) -> bool:
    """Whether a key is an old one of rewards that nothing reads.

    Args:
        key: with dots.
        version: the release.
        program: the module that the launch starts; empty where nobody says.
    """
    return at_least(version, _UNREAD_SINCE) and not _reads(program) and key.startswith(_OLD_SECTIONS)


def reading(versions: Iterable[str], key: Path, program: str) -> frozenset[str]:
    """The releases with a key that read it as well, where it names a launch's own reward.

    Args:
        versions: that have it.
        key: of the launch.
        program: the module that the launch starts; empty where nobody says.
    """
    if key != FUNCTION or _reads(program):
        return frozenset(versions)
    return frozenset(version for version in versions if not at_least(version, _UNREAD_SINCE))


def _reads(program: str) -> bool:
    """Whether a program may read them: one of the project's own does what it likes."""
    return _STILL_READS in program or (bool(program) and not program.startswith("verl."))
