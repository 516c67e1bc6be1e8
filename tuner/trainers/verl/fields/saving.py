"""What a checkpoint holds, where the job writes any."""

from typing import Literal

from tuner.trainers.fields import (
    Assignments,
    Field,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Backend, Engine, Saving

SavedRole = Literal["actor", "critic"]

_LAST_ALONE = "trainer.remove_previous_ckpt_in_save"

#: What the releases save where the settings leave it out.
_USUAL = ("model", "optimizer", "extra")


class SavingContext(ReleaseContext, frozen=True, kw_only=True):
    """What reading the checkpoints of one model takes."""

    role: SavedRole
    engine: Engine


def read_saving(source: ReleaseSettings, role: SavedRole, engine: Engine) -> Saving | None:
    """What a checkpoint of a model holds; None where ``save_freq`` asks for none, or nobody knows.

    Fine-tuning writes one at its end whatever that says; its own trainer before 0.5.0 the whole model alone.
    Before 0.4.1 weights and optimizer are always written, and 0.3 writes only the configuration of
    ``hf_model`` under FSDP. Copies of verl 0.1 write the whole model alone.

    Of a model with adapters FSDP's manager writes their weights alone where that is asked for (since 0.9.0,
    and in copies that ask for the same key).

    Source: verl ``utils/checkpoint/fsdp_checkpoint_manager.py``, ``megatron_checkpoint_manager.py``,
    0.4.1 ``trainer/fsdp_sft_trainer.py`` (``save_checkpoint``), 0.9.1 ``trainer/sft_trainer.py`` (``fit``).
    """
    if source.program is Program.SFT and not source.since("0.5.0"):
        return _model_alone(source)
    if not source.program.fine_tunes and source.number("saving.frequency", default=-1) <= 0:
        return None
    if not engine.modelled:
        return None
    contents = _contents(source, role)
    megatron = engine.backend is Backend.MEGATRON
    if not megatron and _saves_model_alone(source, role):
        return _model_alone(source)
    always = not source.since("0.4.1") and not megatron
    whole_model = "hf_model" in contents and (megatron or source.since("0.4.0"))
    saving = Saving(
        weights=always or "model" in contents,
        optimizer=always or "optimizer" in contents,
        whole_model=whole_model,
        every_steps=_every_steps(source),
        drops_older=_drops_older(source),
        adapters_alone=not megatron and source.flag(f"{role}.saves_adapters"),
    )
    if not megatron:
        return saving
    through_bridge = _writes_through_bridge(source, role)
    return Saving(
        weights=saving.weights,
        optimizer=saving.optimizer,
        whole_model=whole_model,
        gathers_tensors=whole_model or through_bridge,
        joins_weights=through_bridge,
        in_background=source.flag(f"{role}.saves_in_background"),
        every_steps=saving.every_steps,
        drops_older=saving.drops_older,
        **read_fields(SAVING, SavingContext(source=source, role=role, engine=engine)),
        may_not_gather=not source.since("0.8.0"),
        gathers_on_host=source.flag(f"{role}.megatron.distrib_optim_fully_reshardable_mem_efficient"),
    )


def _saves_model_alone(source: ReleaseSettings, role: SavedRole) -> bool:
    """Whether the copy that runs writes the whole model in place of what ranks hold."""
    copy = source.copy
    return copy.actor_saves_model_alone if role == "actor" else copy.critic_saves_model_alone


def _model_alone(source: ReleaseSettings) -> Saving:
    return Saving(
        weights=False,
        optimizer=False,
        whole_model=True,
        every_steps=_every_steps(source),
        drops_older=_drops_older(source),
    )


def _every_steps(source: ReleaseSettings) -> int | None:
    """Steps from one checkpoint to the next; None where there is one at the end, or of each epoch."""
    value = source.value("saving.frequency")
    known = isinstance(value, int | float) and not isinstance(value, bool) and value >= 1
    return int(value) if known else None


def _drops_older(source: ReleaseSettings) -> bool:
    """Whether a limit is set of the checkpoints that are kept.

    Source: verl 0.9.1 ``trainer/ppo/ray_trainer.py:1002-1011``, ``trainer/sft_trainer.py:85``.
    """
    limit = source.value("saving.most_kept")
    return (isinstance(limit, int) and limit > 0) or source.settings.get(_LAST_ALONE) is True


def _contents(source: ReleaseSettings, role: str) -> tuple[str, ...]:
    """What is saved; a value that is no list is for verl to refuse."""
    value = source.value(f"{role}.saved")
    return tuple(map(str, value)) if isinstance(value, list) else _USUAL


def _writes_through_bridge(source: ReleaseSettings, role: str) -> bool:
    """Whether weights leave through the bridge, tensor by tensor, instead of Megatron's own checkpoint."""
    return source.flag(f"{role}.megatron.use_mbridge") and not source.flag(
        f"{role}.megatron.use_dist_checkpointing"
    )


# -- the table --------------------------------------------------------------------------------


def _reshardable(context: SavingContext) -> str:
    return f"{context.role}.megatron.dist_ckpt_optim_fully_reshardable"


def _gathers_optimizer(context: SavingContext) -> bool:
    """Whether the optimizer's states are put together, so that any parallel sizes can read them."""
    return context.engine.distributed_optimizer and context.source.flag(_reshardable(context))


def _set_gathers_optimizer(context: SavingContext, saving: Saving) -> Assignments:
    return ((_reshardable(context), saving.gathers_optimizer),)


#: What can be chosen under Megatron.
SAVING: tuple[Field[SavingContext], ...] = (
    Ruled("gathers_optimizer", _gathers_optimizer, _set_gathers_optimizer),
)
