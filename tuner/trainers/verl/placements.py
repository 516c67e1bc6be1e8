"""How a release of verl is told to generate on GPUs of its own: the program, and the keys that it wants.

The asynchronous trainers have programs and configurations of their own; since 0.9 verl's trainer itself has
a mode for it, whose engines lie on the trainer's GPUs as well until 0.9.1 can do without these.

Source: verl 0.8.0 to 0.9.1 ``experimental/one_step_off_policy/{main_ppo,ray_trainer}.py``,
``experimental/fully_async_policy/{fully_async_main,fully_async_rollouter,fully_async_trainer}.py``, 0.9.1
``trainer/ppo/v1/trainer_separate_async.py``; what they assert stands in the checks CFG145, CFG153 and CFG172.
"""

from collections.abc import Iterator, Sequence

from tuner.errors import UnsupportedError
from tuner.inputs.override_syntax import override
from tuner.inputs.tree import Path, dotted, leaves
from tuner.language import N_, _
from tuner.other_base import OtherBase
from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl.defaults import CONFIGS
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes_apart import FULLY_ASYNC, ONE_STEP_OFF
from tuner.trainers.verl.source import source_of
from tuner.trainers.verl.strategies import packages_of_megatron
from tuner.versions import at_least
from tuner.workload import RolloutEngine, Workload

_PROGRAM = "verl.trainer.main_ppo"
_ROLLOUT = "actor_rollout_ref.rollout"
_PACKAGED = "0.8.0"  # the first release whose package holds the programs, and not the repository alone
_ALONE = "0.9.1"  # the first one whose separate mode does without engines on the trainer's GPUs
_QUEUED = "0.9.0"  # the first one that is told how many prompts an engine is given at a time
_ASYNC_MODE = "0.7.0"  # the first one whose asynchronous trainers assert the rollout's mode
_WANTED = ("actor_rollout_ref.rollout", "algorithm")  # sections of a recipe that it works with alone

_EFFECTS = {
    Placement.ONE_STEP_OFF: N_(
        "every batch comes from the policy before the last update, and its log-probabilities from the engine"
    ),
    Placement.FULLY_ASYNC: N_(
        "responses are up to one step old, their log-probabilities come from the engine, and one that new "
        "weights interrupt is begun by one policy and ended by the next"
    ),
    Placement.SEPARATE: N_(
        "responses are up to one step old, and one that new weights interrupt is begun by one policy and "
        "ended by the next"
    ),
}


def other_base(before: Loaded, after: Loaded, program: str) -> OtherBase | None:
    """The configuration of another engine, see :meth:`tuner.trainers.protocol.Trainer.other_base`.

    The keys of an engine stand in its own configuration alone: ``actor.strategy`` by itself starts none.

    Source: verl 0.4.0 to 0.9.1 ``trainer/config/{ppo_trainer,ppo_megatron_trainer}.yaml``.
    """
    name = after.base.name
    if name == before.base.name or name not in CONFIGS or before.base.name not in CONFIGS:
        return None
    packages = packages_of_megatron(after.version) if name == CONFIGS[1] else ()
    return OtherBase(
        program=program or _PROGRAM,
        options=(f"--config-name={name}",),
        package=packages[0] if packages else "",
        packages=packages,
    )


def placed(loaded: Loaded, workload: Workload, placement: Placement, split: PoolSplit) -> PlacedLaunch:
    """How a colocated job generates elsewhere, see :meth:`tuner.trainers.protocol.Trainer.placed`."""
    _expect_movable(loaded, workload)
    if placement is Placement.SEPARATE:
        return _separate(loaded, workload, split)
    fully = placement is Placement.FULLY_ASYNC
    recipe = _recipe(loaded, FULLY_ASYNC if fully else ONE_STEP_OFF)
    config = recipe.config(loaded.base.name)
    wanted = [
        override("actor_rollout_ref.hybrid_engine", False),
        override("rollout.nnodes", split.generating_nodes),
        override("rollout.n_gpus_per_node", split.generating_gpus_per_node),
        *_mode(loaded),
        *_set_otherwise(loaded, recipe),
        *(_streaming(loaded, workload) if fully else ()),
    ]
    return PlacedLaunch(
        program=recipe.modules[0],
        options=(f"--config-name={config}",),
        overrides=tuple(wanted),
        effect=_(_EFFECTS[placement]),
        packaged=at_least(loaded.version, _PACKAGED),
        upper=fully,
    )


def _expect_movable(loaded: Loaded, workload: Workload) -> None:
    """Refuse jobs of other programs, and those with something on the trainer's GPUs that would stop them.

    Raises:
        UnsupportedError: it is one.
    """
    settings = loaded.settings
    if settings.program is not None or settings.defaults_of:
        raise UnsupportedError(_("the launch runs a copy of verl, whose programs are its own"))
    if loaded.base.name not in CONFIGS:
        text = _("its program is another than verl's PPO trainer ({name})")
        raise UnsupportedError(text.format(name=loaded.base.name))
    if workload.generator.engine not in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        raise UnsupportedError(_("its trainers take vLLM and SGLang alone"))
    if workload.batch.greedy_baseline is not None:
        raise UnsupportedError(_("its trainers generate no greedy responses, which ReMax compares with"))
    if any(service.shares_gpus for service in workload.services):
        raise UnsupportedError(_("a model that judges responses lies on the trainer's GPUs"))


def _recipe(loaded: Loaded, recipes: Sequence[Recipe]) -> Recipe:
    """The form of a trainer that a release has.

    Raises:
        UnsupportedError: it has none.
    """
    version = loaded.version
    for recipe in recipes:
        newer = recipe.until is None or not at_least(version, recipe.until)
        if at_least(version, recipe.since) and newer:
            return recipe
    text = _("{release} has no such trainer; it came with {since}")
    raise UnsupportedError(text.format(release=f"verl {version}", since=recipes[0].since))


def _mode(loaded: Loaded) -> Iterator[str]:
    if at_least(loaded.version, _ASYNC_MODE) and loaded.settings.get(f"{_ROLLOUT}.mode") != "async":
        yield override(f"{_ROLLOUT}.mode", "async")


def _set_otherwise(loaded: Loaded, recipe: Recipe) -> Iterator[str]:
    """What the trainer's own configuration sets for it to work, where the user sets something else."""
    for path, value in leaves(recipe.tree):
        key = dotted(path)
        mine = loaded.settings
        if _is_wanted(path) and mine.is_set(key) and mine.get(key) != value:
            yield override(key, value)


def _is_wanted(path: Path) -> bool:
    return dotted(path).startswith(_WANTED)


def _streaming(loaded: Loaded, workload: Workload) -> Iterator[str]:
    """A step of as many prompts as before, weights after each of them, and generation one step ahead.

    With a threshold of 1 and one step between two syncs the queue holds as much as the trainer takes while it
    trains: less would have it wait for part of the generation, more makes responses older and no step faster.
    """
    yield override("data.train_batch_size", 0)
    yield override("data.gen_batch_size", 1)
    yield override("async_training.require_batches", _mini_batches(workload))
    yield override("async_training.trigger_parameter_sync_step", 1)
    yield override("async_training.staleness_threshold", 1)
    yield override("rollout.total_rollout_steps", None)  # else it ends after so many prompts
    if loaded.settings.get(f"{_ROLLOUT}.calculate_log_probs") is not True:
        yield override(f"{_ROLLOUT}.calculate_log_probs", True)
    if at_least(loaded.version, _QUEUED):
        yield override("async_training.concurrent_samples_per_replica", workload.batch.prompts)


def _mini_batches(workload: Workload) -> int:
    """Mini-batches of a step.

    Raises:
        UnsupportedError: the step is no whole number of them.
    """
    batch = workload.batch
    mini = min(batch.mini_batch_prompts, batch.prompts)
    if batch.prompts % mini:
        text = _("{prompts} prompts of a step are no whole number of mini-batches of {mini}")
        raise UnsupportedError(text.format(prompts=batch.prompts, mini=mini))
    return batch.prompts // mini


def _separate(loaded: Loaded, workload: Workload, split: PoolSplit) -> PlacedLaunch:
    """The mode of verl's own trainer, with no engine on the trainer's GPUs.

    Raises:
        UnsupportedError: the release has none that does without these, or the job runs its older trainer.
    """
    version = loaded.version
    if not at_least(version, _ALONE):
        text = _(
            "{release} has no separate pools without engines on the trainer's GPUs; they came with {since}"
        )
        raise UnsupportedError(text.format(release=f"verl {version}", since=_ALONE))
    if not source_of(loaded.settings, version).v1_trainer:
        raise UnsupportedError(_("separate pools belong to the V1 trainer, which this job does not run"))
    wanted = [
        override("trainer.v1.trainer_mode", "separate_async"),
        override("trainer.v1.separate_async.parameter_sync_step", _mini_batches(workload)),
        override("actor_rollout_ref.hybrid_engine", False),
        override(f"{_ROLLOUT}.nnodes", split.generating_nodes),
        override(f"{_ROLLOUT}.n_gpus_per_node", split.generating_gpus_per_node),
        override(f"{_ROLLOUT}.checkpoint_engine.backend", "nccl"),
    ]
    return PlacedLaunch(overrides=tuple(wanted), effect=_(_EFFECTS[Placement.SEPARATE]))
