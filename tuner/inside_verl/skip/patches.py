"""Functions of verl that the skip replaces."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tuner.inside_verl.patching import RELEASES, Patch
from tuner.inside_verl.settings import SKIP_ZERO_ADVANTAGE
from tuner.language import N_

_ENGINE = "verl.workers.engine_workers"
_ENGINE_RELEASES = tuple(release for release in RELEASES if release >= "0.7.0")
_LEGACY_RELEASES = tuple(release for release in RELEASES if release <= "0.7.1")


def _asked() -> bool:
    return SKIP_ZERO_ADVANTAGE.read() is not None


def _made_by(module: str, name: str) -> Callable[[Any], Any]:
    """A replacement whose module, and torch with it, is imported when it is put in place."""

    def make(original: Any) -> Any:
        return getattr(import_module(f"tuner.inside_verl.skip.{module}"), name)(original)

    return make


PATCHES = (
    Patch(
        name="check of the loss for the skip",
        module=_ENGINE,
        attribute="TrainingWorker.set_loss_fn",
        make=_made_by("engine", "set_loss_fn"),
        does=N_("refuses, before the first rollout, a loss that acts on sequences without an advantage"),
        releases=_ENGINE_RELEASES,
        wanted=_asked,
    ),
    Patch(
        name="mini-batches of the skip",
        module=_ENGINE,
        attribute="TrainingWorker.train_mini_batch",
        make=_made_by("engine", "train_mini_batch"),
        does=N_("folds the mini-batches of an update into one with one-step, and counts idle steps"),
        releases=_ENGINE_RELEASES,
        wanted=_asked,
    ),
    Patch(
        name="skip in the engine",
        module=_ENGINE,
        attribute="TrainingWorker.train_batch",
        make=_made_by("engine", "train_batch"),
        does=N_("leaves sequences whose advantages are all zero out of a mini-batch"),
        releases=_ENGINE_RELEASES,
        wanted=_asked,
    ),
    Patch(
        name="skip in the legacy actor",
        module="verl.workers.actor.dp_actor",
        attribute="DataParallelPPOActor.update_policy",
        make=_made_by("legacy", "update_policy"),
        does=N_("leaves sequences whose advantages are all zero out of the update of the legacy actor"),
        releases=_LEGACY_RELEASES,
        wanted=_asked,
    ),
    Patch(
        name="no skip in the legacy Megatron actor",
        module="verl.workers.actor.megatron_actor",
        attribute="MegatronPPOActor.update_policy",
        make=_made_by("exact", "refuse_legacy_megatron"),
        does=N_("refuses the legacy Megatron actor, which cannot leave sequences out"),
        releases=_LEGACY_RELEASES,
        wanted=_asked,
    ),
)
