"""rLLM: agents and workflows, of which one backend trains with verl."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# verl's keys that it keeps equal to its own, with its own defaults; None: verl's stands.
_SHARED: tuple[tuple[str, str, Any], ...] = (
    ("data.train_batch_size", "rllm.data.train_batch_size", 64),
    ("data.max_prompt_length", "rllm.data.max_prompt_length", 2048),
    ("data.max_response_length", "rllm.data.max_response_length", 30720),
    (f"{_ROLLOUT}.n", "rllm.rollout.n", 8),
    (f"{_ROLLOUT}.response_length", "rllm.rollout.train.max_tokens", None),
    ("algorithm.adv_estimator", "rllm.algorithm.adv_estimator", "grpo"),
    ("algorithm.rollout_correction.bypass_mode", "rllm.algorithm.rollout_correction.bypass_mode", False),
    ("algorithm.rollout_correction.rollout_is", "rllm.algorithm.rollout_correction.tis_mode", None),
    (f"{_ACTOR}.kl_loss_coef", "rllm.algorithm.kl_beta", 0.0),
    (f"{_ACTOR}.policy_loss.loss_mode", "rllm.algorithm.loss_fn", None),
    (f"{_ACTOR}.loss_agg_mode", "rllm.algorithm.loss_agg_mode", None),
    (f"{_ACTOR}.router_replay.mode", "rllm.algorithm.router_replay", "disabled"),
    ("trainer.save_freq", "rllm.trainer.save_freq", 20),
    ("trainer.test_freq", "rllm.trainer.test_freq", 5),
    ("trainer.total_epochs", "rllm.trainer.total_epochs", 10),
)
# Sections of the unified configuration alone; agent_ppo_trainer has none of them, and mirrors nothing.
_UNIFIED = ("rllm.algorithm.", "rllm.async_training.", "rllm.data.", "rllm.rollout.", "rllm.trainer.")


def computed(settings: Settings) -> Mapping[str, Any]:
    """What its trainer makes of its own keys, which stand above verl's of the same meaning.

    A key of its own that is set wins, then verl's, then its default. Its own engine stands in for the agent
    loop, which has no workers: one process gets all responses.

    Source: ``rllm/trainer/verl/utils.py`` (``sync_config``), ``verl_backend.py``
    (``_pad_dataproto_to_world_size``: as many updates as mini-batches fit into the prompts, at least one).
    """
    values: dict[str, Any] = {f"{_ROLLOUT}.agent.num_workers": 1}
    if any(key.startswith(_UNIFIED) for key in settings.user_keys):
        values |= _mirrored(settings)
        values |= _derived(settings, values)
    return values


def _mirrored(settings: Settings) -> dict[str, Any]:
    """The shared keys, as the trainer has them."""
    values = {}
    for verl, own, default in _SHARED:
        value = settings.get(own) if settings.is_set(own) else None
        if value is None and not settings.is_set(verl):
            value = default
        if value is not None:
            values[verl] = value
    return values


def _derived(settings: Settings, mirrored: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of verl that follow from several."""
    values: dict[str, Any] = {}
    if not settings.is_set(f"{_ACTOR}.use_kl_loss"):
        beta = mirrored.get(f"{_ACTOR}.kl_loss_coef", settings.get(f"{_ACTOR}.kl_loss_coef"))
        values[f"{_ACTOR}.use_kl_loss"] = isinstance(beta, int | float) and beta > 0
    if mirrored.get(f"{_ACTOR}.router_replay.mode") == "R3":
        values[f"{_ROLLOUT}.enable_rollout_routing_replay"] = True
    apart = settings.flag("rllm.async_training.enable")
    values["actor_rollout_ref.hybrid_engine"] = not apart
    prompts = mirrored.get("data.train_batch_size", settings.get("data.train_batch_size"))
    mini = f"{_ACTOR}.ppo_mini_batch_size"
    if apart:
        values[mini] = settings.integer("rllm.async_training.mini_batch_size", default=64, minimum=1)
        values["rollout.nnodes"] = settings.integer("rollout.nnodes", default=1)
        values["rollout.n_gpus_per_node"] = settings.integer("rollout.n_gpus_per_node", default=8)
    else:
        values["rollout.nnodes"] = None  # of the asynchronous training alone
        if isinstance(prompts, int) and settings.integer(mini, default=1) > prompts:
            values[mini] = prompts
    return values


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
        "rollout": "nnodes n_gpus_per_node",  # of its asynchronous training alone
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
