"""Functions of verl that the skip replaces."""

from tuner.inside_verl.patching import WITH_ENGINE, WITH_LEGACY, Patch, made_by
from tuner.inside_verl.settings import SKIP_ZERO_ADVANTAGE
from tuner.language import N_

_ENGINE = "verl.workers.engine_workers"


def _is_switched_on() -> bool:
    return SKIP_ZERO_ADVANTAGE.read() is not None


PATCHES = (
    Patch(
        name="check of the loss for the skip",
        module=_ENGINE,
        attribute="TrainingWorker.set_loss_fn",
        make=made_by("skip.engine", "set_loss_fn"),
        does=N_("refuses, before the first rollout, a loss that acts on sequences without an advantage"),
        releases=WITH_ENGINE,
        wanted=_is_switched_on,
    ),
    Patch(
        name="mini-batches of the skip",
        module=_ENGINE,
        attribute="TrainingWorker.train_mini_batch",
        make=made_by("skip.engine", "train_mini_batch"),
        does=N_("folds the mini-batches of an update into one with one-step, and counts idle steps"),
        releases=WITH_ENGINE,
        wanted=_is_switched_on,
    ),
    Patch(
        name="skip in the engine",
        module=_ENGINE,
        attribute="TrainingWorker.train_batch",
        make=made_by("skip.engine", "train_batch"),
        does=N_("leaves sequences whose advantages are all zero out of a mini-batch"),
        releases=WITH_ENGINE,
        wanted=_is_switched_on,
    ),
    Patch(
        name="skip in the legacy actor",
        module="verl.workers.actor.dp_actor",
        attribute="DataParallelPPOActor.update_policy",
        make=made_by("skip.legacy", "update_policy"),
        does=N_("leaves sequences whose advantages are all zero out of the update of the legacy actor"),
        releases=WITH_LEGACY,
        wanted=_is_switched_on,
    ),
    Patch(
        name="no skip in the legacy Megatron actor",
        module="verl.workers.actor.megatron_actor",
        attribute="MegatronPPOActor.update_policy",
        make=made_by("skip.exact", "refuse_legacy_megatron"),
        does=N_("refuses the legacy Megatron actor, which cannot leave sequences out"),
        releases=WITH_LEGACY,
        wanted=_is_switched_on,
    ),
)
