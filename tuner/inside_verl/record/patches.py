"""Functions of verl that the record replaces."""

from tuner.inside_verl.patching import RELEASES, WITH_ENGINE, WITH_LEGACY, Patch
from tuner.inside_verl.record.phases import Which, infer_batch, phase_wrapper, train_mini_batch
from tuner.inside_verl.record.process import wanted
from tuner.inside_verl.record.trainer import logging_steps, starting
from tuner.language import N_
from tuner.workload.step import Phase

_FSDP, _MEGATRON = "verl.workers.fsdp_workers", "verl.workers.megatron_workers"
_ENGINE = "verl.workers.engine_workers"
_TRACKING = "verl.utils.tracking"
_WAKING = ("0.5.0", "0.6.0", "0.6.1", "0.7.0")  # a worker wakes the engine, generates, puts it to sleep
_UPDATING_WEIGHTS = tuple(release for release in RELEASES if release >= "0.7.1")
_PHASE = N_("records a phase: its seconds, tokens and peaks of memory")


def _phase(
    module: str, attribute: str, phase: Phase | Which, releases: tuple[str, ...], *, then: Phase | None = None
) -> Patch:
    return Patch(
        name=f"record {module.rpartition('.')[2]} {attribute}",
        module=module,
        attribute=attribute,
        make=phase_wrapper(phase, then=then),
        does=_PHASE,
        releases=releases,
        wanted=wanted,
    )


def _sleep(module: str, worker: str, releases: tuple[str, ...]) -> Patch:
    return Patch(
        name=f"record {module.rpartition('.')[2]} {worker}.sleep",
        module=module,
        attribute=f"{worker}.sleep",
        make=phase_wrapper(Phase.ROLLOUT, ends=Phase.ROLLOUT),
        does=N_("records where the rollout ends"),
        releases=releases,
        wanted=wanted,
    )


def _legacy(module: str) -> tuple[Patch, ...]:
    actor, critic = "ActorRolloutRefWorker", "CriticWorker"
    return (
        _phase(module, f"{actor}.generate_sequences", Phase.ROLLOUT, WITH_LEGACY),
        _phase(module, f"{actor}.compute_log_prob", Phase.OLD_LOG_PROB, WITH_LEGACY),
        _phase(module, f"{actor}.compute_ref_log_prob", Phase.REF_LOG_PROB, WITH_LEGACY),
        _phase(module, f"{actor}.update_actor", Phase.UPDATE_ACTOR, WITH_LEGACY),
        _phase(module, f"{actor}.save_checkpoint", Phase.SAVE_CHECKPOINT, WITH_LEGACY),
        _phase(module, f"Async{actor}.wake_up", Phase.UPDATE_WEIGHTS, _WAKING, then=Phase.ROLLOUT),
        _sleep(module, f"Async{actor}", _WAKING),
        _phase(module, f"Async{actor}.update_weights", Phase.UPDATE_WEIGHTS, ("0.7.1",)),
        _phase(module, f"{critic}.compute_values", Phase.VALUES, WITH_LEGACY),
        _phase(module, f"{critic}.update_critic", Phase.UPDATE_CRITIC, WITH_LEGACY),
    )


_OF_ENGINE = (
    _phase(_ENGINE, "ActorRolloutRefWorker.compute_log_prob", Phase.OLD_LOG_PROB, WITH_ENGINE),
    _phase(_ENGINE, "ActorRolloutRefWorker.compute_ref_log_prob", Phase.REF_LOG_PROB, WITH_ENGINE),
    _phase(_ENGINE, "ActorRolloutRefWorker.update_actor", Phase.UPDATE_ACTOR, WITH_ENGINE),
    _phase(_ENGINE, "ActorRolloutRefWorker.wake_up", Phase.UPDATE_WEIGHTS, ("0.7.0",), then=Phase.ROLLOUT),
    _sleep(_ENGINE, "ActorRolloutRefWorker", ("0.7.0",)),
    _phase(_ENGINE, "ActorRolloutRefWorker.update_weights", Phase.UPDATE_WEIGHTS, _UPDATING_WEIGHTS),
    _phase(_ENGINE, "TrainingWorker.train_mini_batch", train_mini_batch, WITH_ENGINE),
    _phase(_ENGINE, "TrainingWorker.train_batch", Phase.TRAIN, WITH_ENGINE),
    _phase(_ENGINE, "TrainingWorker.infer_batch", infer_batch, WITH_ENGINE),
    _phase(_ENGINE, "TrainingWorker.save_checkpoint", Phase.SAVE_CHECKPOINT, WITH_ENGINE),
)

_OF_TRAINER = (
    Patch(
        name="record Tracking",
        module=_TRACKING,
        attribute="Tracking.__init__",
        make=starting,
        does=N_("writes the resolved configuration, without secrets"),
        wanted=wanted,
    ),
    Patch(
        name="record Tracking.log",
        module=_TRACKING,
        attribute="Tracking.log",
        make=logging_steps,
        does=N_("records the metrics of a step"),
        wanted=wanted,
    ),
)

PATCHES: tuple[Patch, ...] = (*_OF_TRAINER, *_OF_ENGINE, *_legacy(_FSDP), *_legacy(_MEGATRON))
