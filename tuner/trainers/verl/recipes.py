"""Recipes: trainers beside verl's own, whose configuration lays keys of its own on the PPO trainer's.

A launch does not say which program it is for. Hydra refuses a key that its configuration lacks, so a key that
only a recipe's configuration has tells that the job is started by that recipe.

Source: verl v0.4.1, v0.5.0, v0.6.1 and v0.7.0, ``recipe/<name>/config/<name>_trainer.yaml``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tuner.inputs.tree import Path, Tree, contains
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipe_repository import RECIPES_OF_REPOSITORY
from tuner.trainers.verl.recipes_apart import APART, FULLY_ASYNC
from tuner.versions import at_least

_OVERLONG = {"enable": False, "len": 0, "penalty_factor": 0.0, "log": False}
_FILTERED: dict[str, Any] = {
    "data": {"gen_batch_size": "${data.train_batch_size}"},
    "algorithm": {"filter_groups": {"enable": False, "metric": None, "max_num_gen_batches": 0}},
}
_TRAINED_REWARD: dict[str, Any] = {
    "enable": True,
    "strategy": "fsdp",
    "model": {
        "ref_path": "${reward_model.model.path}",
        "use_remove_padding": True,
        "use_fused_kernels": "${actor_rollout_ref.model.use_fused_kernels}",
        "fused_kernel_options": {"impl_backend": "torch"},
        "tokenizer_path": "${actor_rollout_ref.model.path}",
        "enable_gradient_checkpointing": "${actor_rollout_ref.model.enable_gradient_checkpointing}",
        "ref_type": "freeze",
        "fsdp_config": {
            "min_num_params": 0,
            "param_offload": "${actor_rollout_ref.actor.fsdp_config.param_offload}",
            "optimizer_offload": "${actor_rollout_ref.actor.fsdp_config.optimizer_offload}",
        },
        "update": "before",
        "optim": {
            "lr": 1e-6,
            "lr_warmup_steps": -1,
            "lr_warmup_steps_ratio": 0.0,
            "min_lr_ratio": None,
            "warmup_style": "constant",
            "lr_scheduler_type": "constant",
            "total_training_steps": -1,
            "weight_decay": 0.0,
            "grad_clip": 10.0,
        },
        "beta_train": 0.05,
        "loss_type": "ce",
    },
    "prime_granularity": "token",
    "prime_norm": "batch_norm",
    "mini_batch_size": "${actor_rollout_ref.actor.ppo_mini_batch_size}",
    "reward_manager": "prime",
}


def _preferring(actor: dict[str, Any], algorithm: dict[str, Any]) -> Tree:
    """What the two recipes that learn from preferences share: SGLang, and no critic."""
    rollout = {
        "name": "sglang",
        "tensor_model_parallel_size": 2,
        "gpu_memory_utilization": 0.5,
        "val_kwargs": {"n": 2},
    }
    return {
        "actor_rollout_ref": {"actor": {**actor, "optim": {"lr_warmup_steps": 15}}, "rollout": rollout},
        "algorithm": {"adv_estimator": None, **algorithm},
    }


_FILTERING = (
    ("recipe.dapo.main_dapo", "recipe.entropy.main_entropy"),  # the second has no key that verl lacks beyond
    ("dapo_trainer", "entropy_trainer"),
)
DAPO = Recipe(
    modules=_FILTERING[0],
    configs=_FILTERING[1],
    since="0.4.0",
    until="0.7.1",
    tree={**_FILTERED, "reward_model": {"reward_manager": "dapo", "overlong_buffer": _OVERLONG}},
)
DAPO_OF_071 = Recipe(  # as tests/special_e2e/run_dapo.sh of that release has it
    modules=_FILTERING[0],
    configs=_FILTERING[1],
    since="0.7.1",
    tree={**_FILTERED, "reward": {"overlong_buffer": _OVERLONG}},
)
PRIME = Recipe(
    modules=("recipe.prime.main_prime",),
    configs=("prime_trainer",),
    since="0.3.0",
    tree={
        "data": {
            "filter_accuracy": True,
            "accuracy_lower_bound": 0.2,
            "accuracy_upper_bound": 0.8,
            "oversample_factor": 4.0,
            "filter_truncate": True,
            "truncation": "right",
        },
        "actor_rollout_ref": {
            "model": {"use_remove_padding": True},
            "rollout": {"n": 4},
            "actor": {"entropy_coeff": 0.001},
        },
        "reward_model": _TRAINED_REWARD,
        "algorithm": {
            "adv_estimator": "rloo",
            "kl_ctrl": {"type": "fixed", "kl_coef": 0.0},
            "reward_gt_coef": 5,
            "reward_dpo_coef": 5,
        },
        "trainer": {"balance_batch": False},
    },
)
SPIN = Recipe(
    modules=("recipe.spin.main_spin",),
    configs=("spin_trainer",),
    since="0.4.1",
    tree={**_preferring({"dpo_beta": 0.1}, {}), "trainer": {"ref_update_freq": 1}},
)
SPPO = Recipe(
    modules=("recipe.sppo.main_sppo",),
    configs=("sppo_trainer",),
    since="0.4.1",
    tree=_preferring({"sppo_eta": 1.0}, {"sppo_eta": 1.0}),
)
RECIPES = (DAPO, DAPO_OF_071, PRIME, SPIN, SPPO, *APART, *RECIPES_OF_REPOSITORY)


def recognise(
    keys: Collection[Path], known: Tree, version: str, *, known_elsewhere: Callable[[Path], object]
) -> Recipe | None:
    """The recipe whose configuration has most of the keys that the PPO trainer's lacks.

    Args:
        keys: those that the user sets without marking them as new.
        known: the PPO trainer's configuration of the release.
        version: the release.
        known_elsewhere: whether another release's PPO trainer has a key, which tells no recipe by itself.
    """
    strange = [path for path in keys if not contains(known, path)]
    fewest_first = sorted(_there(version), key=lambda recipe: len(recipe.keys))
    best = max(fewest_first, key=lambda recipe: len(_known_to(recipe, strange)), default=None)
    if best is None or all(map(known_elsewhere, _known_to(best, strange))):
        return None
    return best


def named(config: str, version: str | None = None) -> Recipe | None:
    """The recipe with a configuration of this name, of a release or of any."""
    recipes = RECIPES if version is None else _there(version)
    return next((it for it in recipes if config in (*it.configs, it.megatron_config)), None)


def started_as(program: str, version: str | None = None) -> Recipe | None:
    """The recipe that a program belongs to, of a release or of any; a copy may have moved it."""
    recipes = RECIPES if version is None else _there(version)
    name = program.removesuffix(".py").replace("/", ".").lstrip(".")
    if not name:
        return None
    as_released = next((recipe for recipe in recipes if name.endswith(recipe.modules)), None)
    return as_released or next((recipe for recipe in recipes if _is_moved(recipe, name)), None)


def _is_moved(recipe: Recipe, program: str) -> bool:
    """Whether a program of a recipe's name lies somewhere below a folder of the recipe's name."""
    *folders, name = program.split(".")
    return any(
        module.split(".")[-1] == name and module.split(".")[-2] in folders for module in recipe.modules
    )


def ahead_of(version: str, config: str, program: str) -> Recipe | None:
    """The first form of a recipe that a launch names and that came after the release.

    A tree between two releases may have it, and yet be most like the older one.

    Args:
        version: the release.
        config: the name of a configuration; empty where there is none.
        program: that is started; empty where nobody says.
    """
    recipe = (named(config) if config else None) or started_as(program)
    return recipe if recipe in FULLY_ASYNC and not at_least(version, recipe.since) else None


def without_estimator(version: str) -> tuple[Recipe, ...]:
    """The recipes of a release whose configuration names no estimator: they have no critic."""
    algorithms = ((recipe, recipe.tree.get("algorithm")) for recipe in _there(version))
    return tuple(
        recipe
        for recipe, algorithm in algorithms
        if isinstance(algorithm, dict) and algorithm.get("adv_estimator", "") is None
    )


def started_by(defaults: Tree, known: Tree, version: str) -> tuple[Recipe, tuple[Path, ...]] | None:
    """The recipe on whose configuration settings rest, and the keys that the PPO trainer's lacks.

    Args:
        defaults: what the settings rest on.
        known: the PPO trainer's configuration of the release.
        version: the release.
    """
    for recipe in dict.fromkeys((*FULLY_ASYNC, *_there(version))):  # the first may be ahead of the release
        if all(contains(defaults, path) for path in recipe.keys):
            own = tuple(path for path in recipe.keys if not contains(known, path))
            if own:
                return recipe, own
    return None


def _there(version: str) -> Sequence[Recipe]:
    return [
        recipe
        for recipe in RECIPES
        if at_least(version, recipe.since) and not (recipe.until and at_least(version, recipe.until))
    ]


def _known_to(recipe: Recipe, strange: Collection[Path]) -> list[Path]:
    return [path for path in strange if contains(recipe.tree, path)]
