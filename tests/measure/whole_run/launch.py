"""The command that starts verl's trainer, and its environment.

What is added to a plan's settings names files and the machine, and chooses no more than where verl logs: the
job stays the one that the plan describes. Ray and vLLM are told to stay on this machine and to send nothing.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from measure.whole_run.plan import Plan

CPUS = 32

_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "HYDRA_FULL_ERROR": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_enable_metrics_collection": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    # Multicast over NVLink is not for machines whose GPUs others share.
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "GLOO_SOCKET_IFNAME": "lo",
    "WANDB_MODE": "disabled",
    # Records and changes nothing.
    "TUNER_HEAD": "off",
    "VERL_USE_EXTERNAL_MODULES": "tuner.inside_verl",
}


def environment(output: Path, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of the run.

    Args:
        output: folder of the run, which gets its record.
        given: those that it is started with.
    """
    folders = {"TUNER_RECORD": str(output / "record"), "HF_HOME": str(output / "hf")}
    return {**given, **_ENVIRONMENT, **folders}


def overrides(plan: Plan, materials: Path, output: Path) -> tuple[str, ...]:
    """The overrides of the run: those of the plan behind those that name files and the machine.

    Args:
        plan: of the run.
        materials: folder that :func:`write_materials` filled, with weights in it.
        output: folder of the run.
    """
    rollout = "actor_rollout_ref.rollout"
    model = f"{materials}/{plan.config.name}"
    return (
        f"data.train_files={materials}/prompts.parquet",
        f"data.val_files={materials}/prompts.parquet",
        "data.dataloader_num_workers=0",
        "data.shuffle=False",
        "data.filter_overlong_prompts=False",
        "data.truncation=error",
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.model.external_lib=tuner.inside_verl",
        f"{rollout}.ignore_eos=True",
        f"{rollout}.agent.agent_loop_config_path={materials}/agent_loops.yaml",
        f"{rollout}.agent.default_agent_loop=drawn_lengths",
        f"{rollout}.agent.num_workers=4",
        "reward.num_workers=2",
        f"reward.custom_reward_function.path={materials}/reward.py",
        "reward.custom_reward_function.name=compute_score",
        f"trainer.n_gpus_per_node={plan.gpus}",
        "trainer.nnodes=1",
        f"trainer.total_training_steps={plan.steps}",
        "trainer.total_epochs=10",
        "trainer.logger=[console]",
        "trainer.val_before_train=False",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        "trainer.resume_mode=disable",
        f"trainer.default_local_dir={output}/checkpoints",
        "trainer.project_name=whole_run",
        f"trainer.experiment_name={plan.name}",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=2",
        f"ray_kwargs.ray_init.num_cpus={CPUS}",
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init.object_store_memory=4000000000",
        "+ray_kwargs.ray_init._node_ip_address=127.0.0.1",
        *_critic(plan, model),
        *plan.job,
    )


def _critic(plan: Plan, model: str) -> tuple[str, ...]:
    """A critic starts from the same weights; its last layer, which those do not have, is made by verl."""
    return (f"critic.model.path={model}",) if plan.setting("algorithm.adv_estimator") == "gae" else ()


def command(plan: Plan, materials: Path, output: Path) -> tuple[str, ...]:
    """The words that start the run."""
    return (sys.executable, "-m", "verl.trainer.main_ppo", *overrides(plan, materials, output))
