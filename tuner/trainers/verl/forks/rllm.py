"""rLLM: agents and workflows, of which one backend trains with verl."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork


def computed(settings: Settings) -> Mapping[str, Any]:
    """Its own engine takes the place of the agent loop, which has no workers: one process gets all responses."""
    return {"actor_rollout_ref.rollout.agent.num_workers": 1}


FORK = Fork(
    name="rLLM",
    source=(
        "github.com/rllm-org/rllm at commit 9beb6e0 of 2026-08-15 (pyproject.toml: verl==0.8.0): "
        "rllm/trainer/config/agent_ppo_trainer.yaml, unified.yaml, rllm/base.yaml, rllm/backend/verl.yaml"
    ),
    release="0.8.0",
    programs=("rllm.trainer.verl.train_agent_ppo", "rllm.cli.train"),
    configs=("agent_ppo_trainer", "agent_ppo_trainer_megatron", "unified", "fully_async_ppo_trainer"),
    tells=("rllm", "rllm/backend", "agent", "async_training"),
    tree={
        "actor_rollout_ref": {
            "actor": {"use_rollout_log_probs": True},
            "rollout": {
                "mode": "async",
                "agent": {"num_workers": 0},
                "calculate_log_probs": True,
                "val_kwargs": {"do_sample": True},
            },
        },
        "data": {"gen_batch_size": "${data.train_batch_size}", "return_multi_modal_inputs": False},
        "rllm": {},
        "model": {},
        "rollout": {"nnodes": 1, "n_gpus_per_node": 8},
        "async_training": {"partial_rollout": False},
        "trainer": {
            "log_episodes": False,
            "episode_log_dir": "logs/${trainer.project_name}/${trainer.experiment_name}",
        },
    },
    computed=computed,
    groups={"rllm/backend": "verl"},
    notes=(
        N_(
            "a workflow may make several sequences of a prompt: as many are counted as the rollout's n says, "
            "each of one response"
        ),
    ),
)
