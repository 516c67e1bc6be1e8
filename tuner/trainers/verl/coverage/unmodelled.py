"""What the estimate leaves out where the engine that trains is not modelled: first of all what that takes."""

from collections.abc import Sequence

from tuner.language import N_
from tuner.trainers.omission import Omission, OmissionContext, Trigger
from tuner.trainers.verl.coverage.generation import GENERATION
from tuner.trainers.verl.coverage.recipes import OF_RECIPES
from tuner.trainers.verl.coverage.running import RUNNING
from tuner.trainers.verl.unmodelled_engines import TITLES, titled


def _run_by(title: str, keys: Sequence[str]) -> Trigger:
    def trigger(job: OmissionContext) -> str | None:
        named = (key for key in keys if titled(job.settings.get(key)) == title)
        return next(named, None) if job.workload.unmodelled_engine else None

    return trigger


def _engines(*keys: str) -> tuple[Omission, ...]:
    """The rows of a program, where the name of a role's engine stands at these keys."""
    return tuple(
        Omission(
            name=N_("what {modules} takes in training"),
            reason=N_("no bytes and no seconds of that engine's passes are known"),
            patterns=(),
            trigger=_run_by(title, keys),
            engine=title,
        )
        for title in TITLES
    )


_STRATEGIES = tuple(
    f"{role}.strategy" for role in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic")
)
#: By whether the job fine-tunes.
BESIDE_UNMODELLED: dict[bool, tuple[Omission, ...]] = {
    False: (*_engines(*_STRATEGIES), *OF_RECIPES, *GENERATION, *RUNNING),
    True: _engines("engine.strategy"),
}
