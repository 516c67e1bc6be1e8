"""rLLM: agents and workflows, of which one backend trains with verl."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork


def computed(settings: Settings) -> Mapping[str, Any]:
    """Its own engine stands in for the agent loop, which has no workers: one process gets all responses."""
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
    tells=("rllm", "rllm/backend"),
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
        "rollout": {"nnodes": 1, "n_gpus_per_node": 8},
        "async_training": {"partial_rollout": False},
        "trainer": {
            "log_episodes": False,
            "episode_log_dir": "logs/${trainer.project_name}/${trainer.experiment_name}",
        },
    },
    computed=computed,
    own={
        "rllm": "accumulate_reasoning backend disable_thinking filter_token_mismatch mask_truncated_samples",
        "rllm.agent": "agent_args engine_args max_steps name overlong_filter trajectory_timeout",
        "rllm.algorithm": (
            "adv_estimator eps_clip eps_clip_high kl_beta loss_agg_mode loss_fn lr_schedule "
            "norm_adv_by_std_in_grpo router_replay use_precomputed_advantage use_rllm warmup_steps "
            "warmup_steps_ratio"
        ),
        "rllm.algorithm.rollout_correction": "bypass_mode tis_cap tis_mode",
        "rllm.async_training": (
            "enable episode_offload_dir fwd_bwd_group_size mini_batch_size partial_rollout "
            "staleness_threshold trajectory_group_offload_dir trigger_parameter_sync_step"
        ),
        "rllm.compact_filtering": (
            "enable mask_env_done mask_error mask_max_prompt_length_exceeded "
            "mask_max_response_length_exceeded mask_max_turns_exceeded mask_timeout mask_unknown"
        ),
        "rllm.data": "max_prompt_length max_response_length seed train_batch_size val_batch_size",
        "rllm.distill": "enable shared_tokenizer",
        "rllm.distill.teacher_rollout_args": "api_key base_url max_prompt_length model",
        "rllm.env": "env_args name",
        "rllm.episode_logging": "episode_log_dir log_episodes",
        "rllm.gateway": "cumulative_token_mode db_path host port renderer_family store tunnel",
        "rllm.rejection_sample": (
            "enable filter_uniform_groups min_partial_solve_tasks min_trajs_per_group multiplier"
        ),
        "rllm.remote_runtime": "backend enabled session_timeout",
        "rllm.remote_runtime.agentcore": "agent_runtime_arn s3_bucket tps_limit",
        "rllm.remote_runtime.harbor": (
            "agent agent_kwargs agent_setup_timeout_multiplier agent_timeout_multiplier "
            "environment_build_timeout_multiplier environment_type verifier_timeout_multiplier"
        ),
        "rllm.rollout": "n n_val",
        "rllm.rollout.train": "max_tokens temperature top_p",
        "rllm.rollout.val": "max_tokens temperature top_p",
        "rllm.sdk.processing": "groupby_key traj_name_key",
        "rllm.sdk.proxy": "admin_token host mode port",
        "rllm.sdk.store": "path",
        "rllm.stepwise_advantage": "enable mode normalize_by_steps",
        "rllm.trainer": (
            "experiment_name logger project_name save_freq test_freq total_batches total_epochs "
            "val_before_train val_only"
        ),
        "rllm.workflow": "n_parallel_tasks name raise_on_error retry_limit use_workflow warm_queue_size",
        "rllm.workflow.workflow_args": (
            "accumulate_response_length agent_args agent_cls env_args env_cls gamma max_prompt_length "
            "max_response_length reward_bonus_coeff timeout"
        ),
    },
    groups={"rllm/backend": "verl"},
    notes=(
        N_(
            "a workflow may make several sequences of a prompt: as many are counted as the rollout's n says, "
            "each of one response"
        ),
    ),
)
