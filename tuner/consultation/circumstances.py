"""What surrounds a job: premises, models and cards, with which any release reads its settings."""

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise import ReleaseRange, release_range
from tuner.consultation.bounds import lengths_of
from tuner.consultation.models import Models
from tuner.consultation.premises import Premises
from tuner.hardware import Cluster
from tuner.inputs.user_input import OpenArgument, UserInput
from tuner.model_shape import ModelShape
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Configuration, Loaded, RolloutEngineChoice
from tuner.workload import Workload


class Circumstances(Struct, frozen=True, kw_only=True):
    """What surrounds a job, whatever release reads its settings."""

    premises: Premises
    given: UserInput
    model: ModelShape
    cluster: Cluster
    zero_advantage_ratio: float | None
    open_gpus: OpenArgument | None = None  # what decides how many a node has, where only a run would tell
    own_gpus: int | None = None  # of a node, that the launch asks for where an option says more

    def rollout_engine(self, loaded: Loaded, version: str | None = None) -> RolloutEngineChoice | None:
        """The version of the rollout engine: the one asked for, else the given one, else the release's."""
        named = self.premises.engine_version

        def choose(requested: str | None) -> RolloutEngineChoice | None:
            return loaded.choose_rollout_engine(
                requested=requested,
                look=self.premises.verl_version is None,  # a named release need not be this machine's
                architecture=self.model.architecture,
            )

        engine = self.premises.read("engine_version", version if named is None else named, choose)
        if engine is None:
            return None
        reason = self.premises.reason_with_source("engine_version", engine.reason)
        return replace(engine, reason=reason)

    def critic_model(self, loaded: Loaded) -> ModelShape | None:
        """The critic's model; None where none is trained."""
        return self._models(loaded).critic()

    def _models(self, loaded: Loaded) -> Models:
        return Models(self.given, loaded, self.premises)

    def workload(self, loaded: Loaded, rollout_engine: RolloutEngineChoice | None) -> Workload:
        """The job that a release makes of its settings."""
        workload = loaded.workload(
            model=self.model,
            critic_model=self.critic_model(loaded),
            cluster=self.cluster,
            rollout_engine_version=None if rollout_engine is None else rollout_engine.version,
            lengths=lengths_of(self.premises),
            zero_advantage_ratio=self.zero_advantage_ratio,
            service_models=self._models(loaded).services(),
        )
        if rollout_engine is None or not rollout_engine.may_chunk or workload.rollout is None:
            return workload
        return workload.with_rollout(may_chunk=True)

    def releases(
        self, configuration: Configuration, release: ReleaseChoice, workload: Workload
    ) -> ReleaseRange | None:
        """What the job may take under a release that is not bundled; None of one that is."""
        if release.unbundled is None:
            return None

        def read(version: str, rollout_engine_version: str | None) -> Workload:
            loaded = configuration.on(version)
            return self.workload(loaded, self.rollout_engine(loaded, rollout_engine_version))

        behaviours = configuration.trainer.behaviours(release.unbundled, workload, read)
        return release_range(
            f"{workload.release.trainer} {release.unbundled}",
            [(behaviour.name, behaviour.workload) for behaviour in behaviours],
        )
