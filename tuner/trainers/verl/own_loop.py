"""The training loop that a copy of verl starts in place of the release's, where a launch switches it on."""

from typing import TYPE_CHECKING

from tuner.inputs.settings import OwnLoop, Settings
from tuner.inputs.tree import dotted
from tuner.trainers.verl.launch_values import values_of

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_PROGRAM, _TRAINER = "main_ppo", "trainer/ppo/ray_trainer.py"


def own_loop(settings: Settings, code: "TrainerCode") -> OwnLoop | None:
    """The loop that the copy's own program surely runs; None where its usual one does, or nobody knows."""
    if not settings.defaults_of or settings.started.removesuffix(".py").rpartition(".")[2] != _PROGRAM:
        return None
    from tuner.trainers.verl.trainer_code.loop_elsewhere import loop_elsewhere  # of few launches

    file = f"{code.root.name}/{_TRAINER}"
    text = code.text(file)
    elsewhere = None if text is None else loop_elsewhere(text, values_of(settings))
    if elsewhere is None:
        return None
    keys = map(dotted, elsewhere.keys)
    key = next((key for key in keys if settings.is_set(key)), "")
    return OwnLoop(key=key, line=f"{file}:{elsewhere.line}") if key else None
