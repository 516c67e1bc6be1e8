"""verl: the only place where its configuration keys are spelled."""

from tuner.trainers.verl.read import (
    CRITIC_MODEL_PATH,
    MODEL_PATH,
    cluster_size,
    critic_model_path,
    model_path,
    read,
    rollout_engine_choice,
)
from tuner.trainers.verl.resting import quantities, resting_on_defaults
from tuner.trainers.verl.unbundled import behaviours
from tuner.trainers.verl.write import NotExpressible, Writer

__all__ = [
    "CRITIC_MODEL_PATH",
    "MODEL_PATH",
    "NotExpressible",
    "Writer",
    "behaviours",
    "cluster_size",
    "critic_model_path",
    "model_path",
    "quantities",
    "read",
    "resting_on_defaults",
    "rollout_engine_choice",
]
