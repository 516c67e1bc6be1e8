"""The keys that say what a model recomputes under Megatron."""

from collections.abc import Iterator

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, MODEL
from tuner.trainers.verl.copy_facts import OWN_RECOMPUTATION_UNTIL, own_recomputation
from tuner.workload import Backend, Workload

#: The releases that have a switch and keys of their own beside Megatron's.
OWN_SWITCH = Releases(until=OWN_RECOMPUTATION_UNTIL)


class Recomputation(Struct, frozen=True, kw_only=True):
    """Keys of one model's recomputation, those that are in force."""

    switch: str  # that of FSDP
    granularity: str
    method: str
    layers: str
    modules: str | None  # None where there is no such key
    checked: bool  # Megatron sees the values while it makes its configuration


def recomputations(settings: Settings, workload: Workload, version: str) -> Iterator[Recomputation]:
    """The keys of each model that is trained under Megatron."""
    critic = workload.critic
    if workload.actor.engine.backend is Backend.MEGATRON:
        yield _keys(settings, MODEL, f"{ACTOR}.megatron", version)
    if critic is not None and critic.engine.backend is Backend.MEGATRON:
        yield _keys(settings, f"{CRITIC}.model", f"{CRITIC}.megatron", version)


def _keys(settings: Settings, model: str, engine: str, version: str) -> Recomputation:
    switch = f"{model}.enable_gradient_checkpointing"
    own = own_recomputation(settings)  # of a copy its code decides, whatever release it is like
    if (version in OWN_SWITCH if own is None else own) and settings.flag(switch):
        section = f"{model}.gradient_checkpointing_kwargs.activations_checkpoint"
        modules = None
    else:
        section = f"{engine}.override_transformer_config.recompute"
        modules = f"{section}_modules"
    return Recomputation(
        switch=switch,
        granularity=f"{section}_granularity",
        method=f"{section}_method",
        layers=f"{section}_num_layers",
        modules=modules,
        checked=modules is not None,
    )
