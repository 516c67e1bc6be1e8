"""Trainers that generate on GPUs of their own: one step off policy, and fully asynchronous.

Source: verl v0.5.0 to v0.7.0 ``recipe/one_step_off_policy/config``, v0.6.1 and v0.7.0
``recipe/fully_async_policy/config``, v0.7.1 to v0.9.1 ``verl/experimental/<name>/config``; each has a
configuration for Megatron with the same keys.
"""

from typing import Any

from tuner.inputs.tree import Tree, merged
from tuner.trainers.verl.recipe import Recipe

_NODES: dict[str, Any] = {"nnodes": 1, "n_gpus_per_node": 8}
_STEPS: dict[str, Any] = {**_NODES, "n": 4, "total_rollout_steps": 100}
_NEW_WORKERS: Tree = {"trainer": {"use_legacy_worker_impl": "disable"}}
_BYPASS: dict[str, Any] = {"rollout_correction": {"bypass_mode": True}}
_NCCL: dict[str, Any] = {"calculate_log_probs": True, "checkpoint_engine": {"backend": "nccl"}}


def _one_step(since: str, until: str | None, tree: Tree, *, packaged: bool = True) -> Recipe:
    module = "verl.experimental" if packaged else "recipe"
    return Recipe(
        modules=(f"{module}.one_step_off_policy.main_ppo",),
        configs=("one_step_off_ppo_trainer",),
        megatron_config="one_step_off_ppo_megatron_trainer",
        since=since,
        until=until,
        tree={"rollout": _NODES, **tree},
    )


def _fully(since: str, until: str | None, tree: Tree, *, packaged: bool = True) -> Recipe:
    module = "verl.experimental" if packaged else "recipe"
    return Recipe(
        modules=(f"{module}.fully_async_policy.fully_async_main",),
        configs=("fully_async_ppo_trainer",),
        megatron_config="fully_async_ppo_megatron_trainer",
        since=since,
        until=until,
        tree={"data": {"gen_batch_size": 1}, **tree},
    )


_ONE_STEP_OF_08: Tree = {
    "actor_rollout_ref": {"rollout": {"free_cache_engine": False, **_NCCL}},
    "algorithm": _BYPASS,
}
_ASYNC: dict[str, Any] = {
    "staleness_threshold": 0.1,
    "trigger_parameter_sync_step": 4,
    "require_batches": 1,
    "partial_rollout": True,
}
_FULLY_OF_06: Tree = {
    "async_training": {**_ASYNC, "use_rollout_log_probs": True, "compute_prox_log_prob": False},
    "rollout": {**_STEPS, "total_epochs": 10, "test_freq": 1},
    "actor_rollout_ref": {
        "actor": {"use_rollout_log_probs": "${oc.select:async_training.use_rollout_log_probs, True}"}
    },
}
_FULLY_OF_07: Tree = {
    "async_training": {
        "checkpoint_engine": {
            "enable": True,
            "device_buffer_size_M": 4096,
            "overlap_broadcast_and_consume": False,
        }
    },
    "actor_rollout_ref": {"checkpoint_engine": "${oc.select:async_training.checkpoint_engine, null}"},
}
_FULLY_OF_08: Tree = {
    "async_training": {**_ASYNC, "use_trainer_do_validate": False},
    "rollout": _STEPS,
    "actor_rollout_ref": {
        "rollout": _NCCL,
        "actor": {"use_rollout_log_probs": True},
        "model": {"use_remove_padding": True},
    },
    "algorithm": _BYPASS,
}
_FULLY_OF_09: Tree = {
    "async_training": {
        "use_dynamic_resource_scheduling": False,
        "dynamic_schedule_policy": "default",
        "dynamic_schedule_deactivate_ratio": 0.3,
        "dynamic_schedule_enable_rebalance": True,
        "concurrent_samples_per_replica": 16,
    },
    "actor_rollout_ref": {"rollout": {"standalone_gpu_memory_utilization": None}},
}

FULLY_ASYNC = (
    _fully("0.6.1", "0.7.0", _FULLY_OF_06, packaged=False),
    _fully("0.7.0", "0.7.1", merged(_FULLY_OF_06, _FULLY_OF_07), packaged=False),
    _fully("0.7.1", "0.8.0", merged(_FULLY_OF_08, _NEW_WORKERS)),
    _fully("0.8.0", "0.9.0", _FULLY_OF_08),
    _fully("0.9.0", None, merged(_FULLY_OF_08, _FULLY_OF_09)),
)
ONE_STEP_OFF = (
    _one_step("0.5.0", "0.7.0", {}, packaged=False),
    _one_step(
        "0.7.0",
        "0.7.1",
        {
            "actor_rollout_ref": {"rollout": {"free_cache_engine": False, "calculate_log_probs": True}},
            "algorithm": _BYPASS,
        },
        packaged=False,
    ),
    _one_step("0.7.1", "0.8.0", merged(_ONE_STEP_OF_08, _NEW_WORKERS)),
    _one_step("0.8.0", None, _ONE_STEP_OF_08),
)
#: The fully asynchronous ones first: what they set holds all that the others set.
APART = (*FULLY_ASYNC, *ONE_STEP_OFF)
