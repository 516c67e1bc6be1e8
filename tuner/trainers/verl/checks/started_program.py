"""What the program that a launch starts surely does, in the copy of the trainer that it would run."""

from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.verl.programs import Program, program_of

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.gpu_actors import GpuActor
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.trainer_code.sure_run import SureRun


class FurtherGpus(Struct, frozen=True, kw_only=True):
    """GPUs that a program takes for actors of its own, beside those of the workers."""

    actors: "tuple[GpuActor, ...]" = ()

    @property
    def count(self) -> int:
        """Whole GPUs: actors that take a share of one may have the same."""
        return ceil(sum(actor.gpus for actor in self.actors))

    def __str__(self) -> str:
        makes = _("{name} ({line})")
        return ", ".join(makes.format(name=actor.name, line=actor.line) for actor in self.actors)


def sure_run_of(settings: Settings, code: "TrainerCode") -> "SureRun | None":
    """What the program does; None where its configuration is not its tree's own, or nobody says what starts."""
    if not (settings.defaults_of or settings.composed is not None) or not settings.started:
        return None
    return settings.part("sure_run", (code, settings.started), lambda: _followed(settings, code))


def _followed(settings: Settings, code: "TrainerCode") -> "SureRun":
    from tuner.trainers.verl.launch_values import values_of  # where there is a copy
    from tuner.trainers.verl.models_built import workers_of_program

    ppo = program_of(settings.defaults) is Program.PPO
    workers = workers_of_program(settings, code) if ppo else {}
    return code.sure_run(settings.started, values_of(settings), workers)


def further_gpus(settings: Settings, code: "TrainerCode") -> FurtherGpus:
    """The GPUs that the program takes beside those of the workers."""
    run = sure_run_of(settings, code)
    return FurtherGpus() if run is None else FurtherGpus(actors=run.actors)
