"""Whether the program that a launch starts filters groups of responses, where its settings ask for it."""

from tuner.enumeration import Enum
from tuner.inputs.settings import Settings
from tuner.trainers.verl.source import source_of

FILTER = "algorithm.filter_groups"
ENABLE = f"{FILTER}.enable"

#: Of PRIME and of copies of verl 0.2 to 0.4 that took their filter over.
_OWN = "data.filter_accuracy"
_OVERSAMPLED = "data.oversample_factor"
_LOWER, _UPPER = "accuracy_lower_bound", "accuracy_upper_bound"
_PRIME = "recipe/prime/"
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


class OwnFilter(Enum):
    """How a trainer with a filter by accuracy comes to a step's groups."""

    ROUNDS = "rounds"  # batches are generated until enough groups are kept
    ONCE = "once"  # one larger batch is, and the best groups of it are taken


def own_filter(settings: Settings) -> OwnFilter | None:
    """The filter by accuracy of a copy's own trainer, or of the recipe PRIME; None where there is none.

    What is searched is the trainer of the program that the launch starts. One that puts batches together has
    rounds; one that does not trains on fewer groups, of which nothing is known.

    Source: verl 0.3.0.post1 to 0.7.0 ``recipe/prime/prime_ray_trainer.py`` (``filter_and_downsample``; the
    data loader has ``train_batch_size * oversample_factor`` rows at a time).
    """
    place, has = _trainer_of(settings.started), settings.has_statement
    if has is None:
        once = place == _PRIME
    elif not settings.defaults_of or not has("oversample_factor", place):
        return None
    else:
        once = has("filter_and_downsample", place)
    if once:
        return OwnFilter.ONCE if oversampled(settings) > 1 else None
    rounds = has is not None and has("filter_accuracy", place) and has("concat", place)
    if not rounds or settings.get(_OWN) is not True:
        return None
    compares = has is not None and has(f"{_LOWER} {_UPPER}", place)
    return None if compares and _keeps_every_group(settings) else OwnFilter.ROUNDS


def _keeps_every_group(settings: Settings) -> bool:
    """Whether the bounds hold every accuracy, and no more prompts are generated than are trained on.

    A group on a bound is kept: verl 0.4.1 ``recipe/prime/prime_ray_trainer.py`` (``filter_and_downsample``).
    """
    lower, upper = settings.get(f"data.{_LOWER}"), settings.get(f"data.{_UPPER}")
    known = isinstance(lower, int | float) and isinstance(upper, int | float)
    return known and lower <= 0 and upper >= 1 and oversampled(settings) <= 1


def stops_at_limit(settings: Settings) -> bool:
    """Whether the trainer stops with an error after its most rounds; a copy's may go on with what is there.

    Source: verl 0.4.1 ``recipe/dapo/dapo_ray_trainer.py`` (``raise ValueError(f"{num_gen_batches=}``).
    """
    has = settings.has_statement
    return has is None or has("ValueError max_num_gen_batches", _trainer_of(settings.started))


def oversampled(settings: Settings) -> float:
    """The prompts that such a trainer generates at a time, over those of a step."""
    factor = settings.get(_OVERSAMPLED)
    return float(factor) if isinstance(factor, int | float) and factor > 0 else 1.0


def _trainer_of(started: str) -> str:
    """What stands in the path of the trainer that a program has."""
    if starts_ppo(started):
        return "trainer/ppo/ray_trainer"
    folder = started.removesuffix(".py").replace(".", "/").rpartition("/")[0]
    return f"{folder}/"


def starts_ppo(started: str) -> bool:
    """Whether PPO's own program is started, or nobody says which one is."""
    if not started:
        return True
    module = started.removesuffix(".py").replace("/", ".")
    return module == _PROGRAM or module.endswith(f".{_PROGRAM}")
