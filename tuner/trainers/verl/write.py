"""Writes the change of a workload as overrides of verl."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tuner.findings import Written
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.trainers.proposal_writer import FreeFields, ProposalWriter
from tuner.trainers.verl.fields import head as heads
from tuner.trainers.verl.parts import parts
from tuner.trainers.verl.read import read
from tuner.trainers.verl.roles import reference_model_path, reference_sharing
from tuner.trainers.verl.source import ReleaseSettings, source_of
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_HEAD = ("actor", "head")


def override_writer(
    before: Workload, settings: Settings, *, version: str, code: "TrainerCode | None" = None
) -> Callable[[Workload], Written]:
    """A function that writes a proposal as overrides of the settings, see :meth:`ProposalWriter.written`."""
    return proposal_writer(before, settings, version=version, code=code).written


def proposal_writer(
    before: Workload, settings: Settings, *, version: str, code: "TrainerCode | None" = None
) -> ProposalWriter[ReleaseSettings]:
    """What writes proposals as overrides of the settings.

    Args:
        before: what the release reads from the settings.
        settings: the configuration that the overrides will be added to.
        version: the release.
        code: the copy of the trainer that would read them, where that is not the release itself.
    """
    critic, rollout = before.critic, before.rollout

    def read_again(settings: Settings) -> Workload:
        again = read(
            settings,
            version=version,
            model=before.model,
            critic_model=None if critic is None else critic.model,
            cluster=before.cluster,
            rollout_engine_version=None if rollout is None else rollout.engine_version,
            lengths=before.batch.lengths,
            zero_advantage_ratio=before.batch.zero_advantage_ratio,
            service_models=_service_models(before, settings, version),
        )
        may_chunk = rollout is not None and rollout.may_chunk  # no setting tells it
        return again.with_rollout(may_chunk=True) if may_chunk else again

    source = source_of(settings, version)

    def breaks(key: str, value: Any) -> bool:
        """Weights that the weight sync has moved to the host come back only where they are offloaded."""
        return source.copy.sync_offloads and key == source.key("actor.fsdp.param_offload") and not value

    return ProposalWriter(
        before,
        source,
        parts=parts,
        read=read_again,
        free=_following_packing,
        followers=partial(_followers, before),
        is_read=_reader(code, settings),
        breaks=breaks,
        **({} if settings.lacks is None else {"lacks": settings.lacks}),
    )


def _reader(code: "TrainerCode | None", settings: Settings) -> Callable[[str], bool] | None:
    """Whether a copy of the trainer reads a key; None where the release itself would, or nobody knows."""
    if code is None or not code.has_trainer:
        return None
    from tuner.trainers.verl.trainer_code.read_keys import ReadKeys  # few launches lie in a copy

    return ReadKeys(code, settings.tree, settings.started).__contains__


def _service_models(workload: Workload, settings: Settings, version: str) -> dict[str, ModelShape]:
    """The models of services, and of a reference of its own, by what the configuration calls them."""
    models = {service.name: service.model for service in workload.services if service.model is not None}
    reference = None if workload.reference is None else workload.reference.model
    path = None if reference is None else reference_model_path(source_of(settings, version))
    return models if reference is None or path is None else {**models, path: reference}


def _followers(before: Workload, source: ReleaseSettings) -> Mapping[str, str]:
    """Keys that have to be set as another one is.

    Since 0.8 the actor's flag holds for both, and verl asserts that the other one is equal. Before, the
    reference shares sequences as the actor does, and takes its budget by a number of its own.
    """
    shared, sharing = source.key("actor.ulysses"), reference_sharing(source)
    if shared is not None and sharing is not None and before.reference is not None:
        return {shared: sharing}
    switch, follower = source.key("actor.dynamic"), source.key("log_prob.dynamic")
    if switch is None or follower is None or not source.engine_workers:
        return {}
    return {switch: follower}


def _following_packing(before: Workload, after: Workload) -> FreeFields:
    """Fields of the actor's head that may follow packing: it changes and the proposal leaves them alone."""
    if before.actor.engine.packed == after.actor.engine.packed:
        return {}
    old, new = before.actor.head, after.actor.head
    return {_HEAD: tuple(name for name in heads.ENTROPY if getattr(old, name) == getattr(new, name))}
