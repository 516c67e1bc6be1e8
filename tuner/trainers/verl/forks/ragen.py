"""RAGEN: agents in environments of many turns, a whole trajectory being one sequence."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork


def computed(settings: Settings) -> Mapping[str, Any]:
    """Trajectories are groups of environments; their context bounds a sequence, and mini-batches count them.

    Source: ``ragen/llm_agent/es_manager.py``, ``ragen/llm_agent/ctx_manager.py``, ``config/base.yaml``.
    """
    groups = settings.integer("es_manager.train.env_groups", default=8, minimum=1)
    size = settings.integer("es_manager.train.group_size", default=16, minimum=1)
    bound = settings.number(
        "actor_rollout_ref.rollout.rollout_filter_ratio", default=0.25, minimum=0.0, maximum=1.0
    )
    values: dict[str, Any] = {
        "data.train_batch_size": max(int(bound * groups), 1) * size,
        "actor_rollout_ref.rollout.n": 1,
    }
    context = settings.integer("actor_rollout_ref.rollout.max_model_len", minimum=2)
    if context is not None:
        values |= {"data.max_prompt_length": 1, "data.max_response_length": context - 1}
    return values


_PATH = "${model_path}"
_LORA = {
    "path": _PATH,
    "lora_rank": "${lora.rank}",
    "lora_alpha": "${lora.alpha}",
    "target_modules": "${lora.target_modules}",
}
_MINI, _MICRO = "${ppo_mini_batch_size}", "${micro_batch_size_per_gpu}"

FORK = Fork(
    name="RAGEN",
    source=(
        "github.com/RAGEN-AI/RAGEN at commit 5eb79b8 of 2025-09-06 (verl 1e47e41 as its submodule): "
        "config/base.yaml, config/envs.yaml, ragen/trainer/agent_trainer.py"
    ),
    release="0.4.1",
    programs=("ragen.train", "ragen.trainer.main_ppo"),
    configs=(
        "_1_bandit",
        "_2_sokoban",
        "_3_frozen_lake",
        "_4_countdown",
        "_5_metamathqa",
        "_6_webshop",
    ),
    tells=(
        "agent_proxy",
        "es_manager",
        "ctx_manager",
        "custom_envs",
        "model_path",
        "system",
        "actor_rollout_ref.rollout.rollout_filter_ratio",
        "actor_rollout_ref.rollout.rollout_filter_type",
        "algorithm.bi_level_gae",
    ),
    tree={
        "system": {"CUDA_VISIBLE_DEVICES": "0"},
        "seed": {"train": 10000, "val": 123},
        "micro_batch_size_per_gpu": 1,
        "ppo_mini_batch_size": 32,
        "model_path": "Qwen/Qwen2.5-0.5B-Instruct",
        "enable_response_mask": True,
        "grpo_advantage_length_weight": False,
        "lora": {"rank": 0, "alpha": 16, "target_modules": "all-linear"},
        "actor_rollout_ref": {
            "model": _LORA,
            "actor": {
                "ppo_mini_batch_size": _MINI,
                "micro_batch_size_per_gpu": _MICRO,
                "ppo_micro_batch_size_per_gpu": _MICRO,
                "use_ref": True,
                "entropy_coeff": 0.001,
                "use_kl_loss": False,
                "kl_loss_coef": 0.0,
                "kl_loss_type": "kl",
                "clip_ratio_low": 0.2,
                "clip_ratio_high": 0.28,
                "grpo_advantage_length_weight": "${grpo_advantage_length_weight}",
                "optim": {"betas": [0.9, 0.999]},
            },
            "ref": {"log_prob_micro_batch_size_per_gpu": _MICRO},
            "rollout": {
                "log_prob_micro_batch_size_per_gpu": _MICRO,
                "tensor_model_parallel_size": 1,
                "max_model_len": 3600,
                "prompt_length": 1,
                "response_length": 400,
                "gpu_memory_utilization": 0.5,
                "max_num_batched_tokens": 8192,
                "temperature": 1,
                "rollout_filter_ratio": 0.25,
                "rollout_filter_type": "std",
                "enforce_eager": True,
                "free_cache_engine": True,
                "val_kwargs": {"do_sample": True, "temperature": 0.5},
                "tp_size_check": True,
            },
        },
        "critic": {
            "ppo_mini_batch_size": _MINI,
            "ppo_micro_batch_size_per_gpu": _MICRO,
            "model": _LORA,
            "optim": {"betas": [0.9, 0.999]},
        },
        "algorithm": {
            "high_level_gamma": 0.95,
            "adv_estimator": "gae",
            "bi_level_gae": False,
            "kl_ctrl": {"kl_coef": 0.0},
        },
        "trainer": {
            "total_training_steps": 200,
            "validation_steps": 1,
            "n_gpus_per_node": 1,
            "test_freq": 10,
            "generations_to_log_to_wandb": {"train": 128, "val": 20},
        },
        "es_manager": {
            "format_penalty": -0.1,
            "train": {"env_groups": 8, "group_size": 16},
            "val": {"env_groups": 256, "group_size": 1},
        },
        "custom_envs": {},
    },
    own={
        "agent_proxy": (
            "max_context_window max_turn action_sep max_actions_per_turn use_turn_scores enable_think"
        ),
        "agent_proxy.reward_normalization": "grouping method",
        "es_manager.train.env_configs": "tags n_groups",
        "es_manager.val.env_configs": "tags n_groups",
        "ctx_manager.generation.gen_config": "response_length temperature top_p top_k kwargs",
    },
    computed=computed,
    unchecked=("model-length-below-sequence",),
    notes=(
        N_(
            "the trajectories that rollout_filter_ratio keeps are counted, each as long as max_model_len; "
            "that the others are generated too is not in the seconds"
        ),
    ),
)
