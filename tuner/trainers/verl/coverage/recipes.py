"""What a recipe's own trainer adds to the PPO trainer's step: parts that the estimate leaves out."""

from tuner.inputs.tree import dotted
from tuner.language import N_
from tuner.trainers.key_facts import Affects
from tuner.trainers.omission import Omission, OmissionContext, Trigger, switched
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes import PRIME, SPIN, SPPO, started_by
from tuner.trainers.verl.recipes_apart import APART
from tuner.trainers.verl.releases import PREVIEWS


def _started(recipe: Recipe) -> Trigger:
    """The key that tells that a job is started by a recipe: one of the user's, else one of its defaults."""

    def trigger(job: OmissionContext) -> str | None:
        if job.settings.program is not None:  # a project's own trainer, whatever keys it shares with a recipe
            return None
        version = next((it for it, preview in PREVIEWS.items() if preview == job.version), job.version)
        known = dict(read_defaults(version, CONFIGS[0]).tree)
        starting_recipe = started_by(job.settings.defaults, known, version)
        if starting_recipe is None or starting_recipe[0].modules != recipe.modules:
            return None
        own = [dotted(path) for path in starting_recipe[1]]
        return next((key for key in own if job.settings.is_set(key)), own[0])

    return trigger


def _omission(recipe: Recipe, reason: str, affects: Affects) -> Omission:
    return Omission(
        name=N_("what {modules} does beside the PPO trainer"),
        modules=recipe.modules,
        reason=reason,
        patterns=(),
        affects=affects,
        trigger=_started(recipe),
    )


_APART = {recipe.modules: recipe for recipe in APART}  # one of each program, whatever its releases

_ROUNDS = N_("it generates rounds of its own size until enough groups are left")
_WHILE_IT_TRAINS = N_("it generates while it trains; the seconds are those of one after the other")
_WITHOUT_WAITING = N_("it generates while it trains; responses that are too old and wait are not counted")

OF_RECIPES: tuple[Omission, ...] = (
    Omission(
        name=N_("the asynchronous training"),
        reason=_WHILE_IT_TRAINS,
        patterns=(),
        affects=Affects.SECONDS,
        trigger=switched("rllm.async_training.enable"),
    ),
    Omission(
        name=N_("rejection sampling"),
        reason=_ROUNDS,
        patterns=(),
        affects=Affects.SECONDS,
        trigger=switched("rllm.rejection_sample.enable"),
    ),
    _omission(
        PRIME, N_("it trains the reward model beside a frozen copy of it, and generates more"), Affects.GPU
    ),
    _omission(
        SPIN, N_("it always has a reference, whose weights it replaces by those of the actor"), Affects.GPU
    ),
    _omission(SPPO, N_("its loss is another"), Affects.SECONDS),
    *(
        _omission(
            recipe,
            _WITHOUT_WAITING,
            Affects.SECONDS,
        )
        for recipe in _APART.values()
    ),
)
