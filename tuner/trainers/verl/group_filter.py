"""Whether the program that a launch starts filters groups of responses, where its settings ask for it."""

from tuner.inputs.settings import Settings
from tuner.trainers.verl.source import source_of

FILTER = "algorithm.filter_groups"
ENABLE = f"{FILTER}.enable"

_PROGRAM = "verl.trainer.main_ppo"
_NOT_RUN = "recipe/ recipes/ trainer/config/ experimental/"  # by this program: others, and what takes keys


def filters_in_vain(settings: Settings, version: str) -> bool:
    """Whether groups are to be filtered and the program that is started has no code for it.

    PPO's V1 trainer has some since 0.9.0. Before, the recipe DAPO had, as a program of its own, and from
    0.5.0 on ``trainer/config/algorithm.py`` took the keys, which nothing read. A copy of verl is searched,
    with the packages that its program imports: the rollout of verl-agent filters
    (``agent_system/multi_turn_rollout/rollout_loop.py``).

    Source: verl 0.9.0 ``trainer/ppo/v1/trainer_base.py``; 0.7.0 ``recipe/dapo/dapo_ray_trainer.py``.
    """
    if not settings.flag(ENABLE) or not (settings.started and starts_ppo(settings.started)):
        return False
    has = settings.has_statement
    if has is not None:
        return not has("filter_groups", outside=_NOT_RUN)
    if settings.program is not None:
        return False
    source = source_of(settings, version)
    return not source.v1_trainer if source.since("0.9.0") else ENABLE not in settings.released


def starts_ppo(started: str) -> bool:
    """Whether PPO's own program is started, or nobody says which one is."""
    if not started:
        return True
    module = started.removesuffix(".py").replace("/", ".")
    return module == _PROGRAM or module.endswith(f".{_PROGRAM}")
