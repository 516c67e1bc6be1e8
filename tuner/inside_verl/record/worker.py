"""Which of verl's workers an object is."""

import os
from typing import Any

from msgspec import Struct

_CRITIC = "critic"


class VerlWorker(Struct, frozen=True, kw_only=True):
    """A worker of verl: its role, its rank among those of the role, and how many there are."""

    role: str
    rank: int
    world: int


def worker_of(instance: Any) -> VerlWorker:
    """The worker that an object is, as its attributes or the environment of its process say."""
    return VerlWorker(
        role=_role(instance),
        rank=_number(getattr(instance, "rank", None), os.environ.get("RANK"), otherwise=0),
        world=_number(getattr(instance, "world_size", None), os.environ.get("WORLD_SIZE"), otherwise=1),
    )


def gpus_of_node() -> int | None:
    """How many workers share this node, as Ray's or torchrun's environment says; None where neither does."""
    local = os.environ.get("RAY_LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_WORLD_SIZE") or ""
    return int(local) if local.isdigit() else None


def is_critic(instance: Any) -> bool:
    """Whether a worker trains a value model.

    Sources: verl 0.9.1 ``trainer/ppo/ray_trainer.py`` (``TrainingWorkerConfig(model_type="value_model")``),
    0.7.1 ``workers/fsdp_workers.py`` (``CriticWorker``).
    """
    model_type = getattr(getattr(instance, "config", None), "model_type", None)
    return model_type == "value_model" or "Critic" in type(instance).__name__


def _role(instance: Any) -> str:
    role = getattr(instance, "role", None)
    if isinstance(role, str) and role:
        return role
    return _CRITIC if is_critic(instance) else "model"


def _number(*told: Any, otherwise: int) -> int:
    for value in told:
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            return int(value)
    return otherwise
