"""Recipes in a repository of their own, each for the release that its ``REQUIRED_VERL.txt`` names.

Source: github.com/verl-project/verl-recipe at commit 48ea0a7 of 2026-08-05, in the folder of each recipe
``config/<name>_trainer.yaml`` and ``REQUIRED_VERL.txt``.
"""

from typing import Any

from tuner.trainers.verl.recipe import Recipe

_OVERLONG = {"enable": False, "len": 0, "penalty_factor": 0.0, "log": False}
_GROUPS = {"enable": False, "metric": None, "max_num_gen_batches": 0}
_GENERATED: dict[str, Any] = {"gen_batch_size": "${data.train_batch_size}"}

DAPO = Recipe(
    modules=("recipe.dapo.main_dapo", "recipe.dapo.dapo_transfer_queue.main_dapo"),
    configs=("dapo_trainer", "dapo_transfer_queue_trainer"),
    megatron_config="dapo_megatron_trainer",
    since="0.8.0",
    until=None,
    tree={
        "data": _GENERATED,
        "reward": {
            "reward_manager": {"name": "dapo"},
            "reward_kwargs": {"overlong_buffer_cfg": _OVERLONG, "max_resp_len": None},
        },
        "algorithm": {"filter_groups": _GROUPS},
    },
)
ATROPOS = Recipe(
    modules=("recipe.atropos.main_atropos",),
    configs=("atropos_trainer",),
    since="0.8.0",
    until=None,
    tree={
        "atropos": {
            "api_url": "http://localhost:8000",
            "poll_timeout": 300,
            "ready_file": None,
            "proxy_url": None,
            "proxy_drain_timeout": 300,
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {"val_before_train": False, "total_training_steps": 50},
    },
)
FLOWRL = Recipe(
    modules=("recipe.flowrl.main_flowrl",),
    configs=("flowrl_trainer",),
    since="0.4.0",
    release="0.4.0",
    tree={
        "data": _GENERATED,
        "reward_model": {"reward_manager": "dapo", "overlong_buffer": _OVERLONG},
        "algorithm": {"filter_groups": _GROUPS},
    },
)
GVPO = Recipe(
    modules=("recipe.gvpo.gvpo_main_ppo",),
    configs=("gvpo_trainer",),
    since="0.6.0",
    release="0.6.0",
    tree={"actor_rollout_ref": {"actor": {"gvpo_beta": 0.1}}},
)
SPO = Recipe(
    modules=("recipe.spo.spo_main_ppo",),
    configs=("spo_trainer",),
    since="0.6.1",
    release="0.7.0",  # of its commit d7944c0, a 0.7.0.dev0
    tree={
        "trainer": {
            "debug": False,
            "spo": {
                "enable": False,
                "offline_values": None,
                "offline_N": 8,
                "rho": {"type": "kl", "value": 0.875, "clip_lower": 0.875},
            },
        }
    },
)
RECIPES_OF_REPOSITORY = (DAPO, ATROPOS, FLOWRL, GVPO, SPO)
