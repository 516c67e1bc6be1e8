"""verl-agent: agents in environments of many turns, each turn a sequence of its own."""

from collections.abc import Mapping
from typing import Any

from tuner.inputs.settings import Settings
from tuner.language import N_
from tuner.trainers.verl.forks.fork import Fork

_TURNS = "env.max_steps"


def computed(settings: Settings) -> Mapping[str, Any]:
    """Every prompt is played by a group of environments; mini-batches count their turns, not prompts.

    A step has a sequence for every turn of every episode, so that all are counted that there can be.
    ``rollout.n`` stays as it is set: the program asserts that it is 1.

    Source: ``agent_system/multi_turn_rollout/rollout_loop.py`` (``vanilla_multi_turn_loop``: a call of the
    engine for each of ``env.max_steps`` turns; ``gather_rollout_data``: a row for each turn of an episode
    that has not ended), ``utils.py`` (``adjust_batch``: rows are filled up to a multiple).
    """
    prompts = settings.integer("data.train_batch_size", default=1024, minimum=1)
    group = settings.integer("env.rollout.n", default=1, minimum=1)
    turns = settings.integer(_TURNS, default=1, minimum=1)
    return {"data.train_batch_size": prompts * group * turns}


FORK = Fork(
    name="verl-agent",
    source=(
        "github.com/langfengQ/verl-agent as of 2026-04-17 (commit 8ca3a46 of its copy xlan156/verl-agent): "
        "verl/trainer/config/ppo_trainer.yaml, verl/trainer/ppo/ray_trainer.py"
    ),
    release="0.4.0",
    tells=(
        "algorithm.hgpo",
        "env",
        "algorithm.gigpo",
        "actor_rollout_ref.actor.use_invalid_action_penalty",
        "actor_rollout_ref.actor.invalid_action_penalty_coef",
    ),
    tree={
        "data": {"apply_chat_template_kwargs": {}},
        "actor_rollout_ref": {
            "actor": {
                "use_invalid_action_penalty": True,
                "invalid_action_penalty_coef": 0.1,
                "policy_loss": {"loss_mode": "vanilla"},
                "entropy_coeff": 0.001,
            }
        },
        "algorithm": {
            "gigpo": {
                "step_advantage_w": 1.0,
                "mode": "mean_norm",
                "enable_similarity": False,
                "similarity_thresh": 0.95,
            },
            "filter_groups": {"enable": False, "max_num_gen_batches": 10},
        },
        "reward_model": {"reward_manager": "episode"},
        "trainer": {
            "val_only": False,
            "log_eval_steps": False,
            "log_llm_steps": False,
            "log_llm_steps_max_chars": 8000,
        },
        "env": {
            "env_name": "alfworld/AlfredTWEnv",
            "seed": 0,
            "max_steps": 50,
            "history_length": 2,
            "resources_per_worker": {"num_cpus": 0.1, "num_gpus": 0},
            "rollout": {"n": 1},
            "alfworld": {"eval_dataset": "eval_in_distribution"},
            "search": {
                "log_requests": False,
                "search_url": "http://127.0.0.1:8000/retrieve",
                "topk": 3,
                "timeout": 60,
            },
            "sokoban": {
                "dim_room": [6, 6],
                "num_boxes": 1,
                "search_depth": 30,
                "mode": "tiny_rgb_array",
            },
            "webshop": {"use_small": True, "human_goals": False},
        },
    },
    own={"algorithm.hgpo": "weight_type mode length_weight_alpha base_group"},
    computed=computed,
    rounds_key=_TURNS,
    unchecked=("mini-exceeds-train", "value-unknown", "batch-indivisible"),
    notes=(
        N_(
            "every turn of an episode is a sequence of its own: as many are counted as there are where all "
            "episodes last env.max_steps turns"
        ),
    ),
)
