"""From a configuration to an answer: the one way that ``advise`` and ``check`` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tuner import rules
from tuner.advise import ReleaseRange, advise, release_range
from tuner.cli.find_model import model_shape
from tuner.cli.premises import Premises
from tuner.errors import InputError
from tuner.evidence import Evidence
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.inputs.settings import Settings
from tuner.memory.limits import values_that_fit
from tuner.model_shape import ModelShape
from tuner.models import find_config
from tuner.render.answer import Answer
from tuner.rules.case import Case
from tuner.trainers.chosen import TRAINER
from tuner.trainers.protocol import Configuration, Loaded, ReleaseChoice, RolloutEngineChoice
from tuner.units import GIB, GIGA
from tuner.workload import Workload

NETWORK_BYTES_PER_S = 50.0 * GIGA  # 400 Gbit/s per GPU, as in the reference designs of 8-GPU nodes


def consult(source: str, overrides: Sequence[str], premises: Premises) -> Answer:
    """Read, estimate and advise.

    Raises:
        TunerError: something in the configuration or the options cannot be used.
    """
    release = TRAINER.choose_release(premises.verl_version)
    configuration = TRAINER.parse(Path(source), overrides)
    loaded = configuration.on(release.version)
    settings = loaded.settings
    model, model_reason = _model(settings, premises)
    cluster, gpus_reason = _cluster(settings, premises)
    job = _Job(premises=premises, model=model, cluster=cluster)
    rollout_engine = job.rollout_engine(loaded)
    workload = job.workload(loaded, rollout_engine)
    if premises.trace:
        from tuner.trace.limits import expect_counted

        expect_counted(workload)
    findings = TRAINER.check(settings, workload, version=loaded.version)
    findings += rules.run(Case.of(workload, headroom=premises.headroom))
    advice = advise(
        workload,
        findings=findings,
        write_overrides=TRAINER.override_writer(workload, settings, version=loaded.version),
        headroom=premises.headroom,
        releases=job.releases(configuration, release, workload),
    )
    assumed = cluster.gpu.evidence is Evidence.HEURISTIC
    resting = TRAINER.resting_on_defaults(
        settings, version=loaded.version, dynamic=workload.actor.update.batching.dynamic
    )
    asked = TRAINER.quantities((name for name, _ in resting), version=loaded.version)
    return Answer(
        source=source,
        settings=settings,
        unknown=loaded.unknown,
        release_reason=release.reason,
        rollout_engine=rollout_engine,
        model_reason=model_reason,
        gpu_reason=_gpu_reason(premises, assumed=assumed),
        gpu_assumed=assumed,
        gpus_reason=gpus_reason,
        resting=resting,
        fitting=tuple((name, values_that_fit(workload, quantity)) for name, quantity in asked.items()),
        advice=advice,
    )


class _Job(Struct, frozen=True, kw_only=True):
    """What stays the same whatever release reads the settings."""

    premises: Premises
    model: ModelShape
    cluster: Cluster

    def rollout_engine(self, loaded: Loaded, version: str | None = None) -> RolloutEngineChoice | None:
        """The version of the rollout engine: the one asked for, else the given one, else the release's."""
        named = self.premises.engine_version
        return TRAINER.choose_rollout_engine(
            loaded.settings,
            version=loaded.version,
            requested=version if named is None else named,
            look=self.premises.verl_version is None,  # a release that was named need not be this machine's
        )

    def workload(self, loaded: Loaded, rollout_engine: RolloutEngineChoice | None) -> Workload:
        return TRAINER.read(
            loaded.settings,
            version=loaded.version,
            model=self.model,
            critic_model=_critic_model(loaded.settings, self.premises),
            cluster=self.cluster,
            rollout_engine_version=None if rollout_engine is None else rollout_engine.version,
        )

    def releases(
        self, configuration: Configuration, release: ReleaseChoice, workload: Workload
    ) -> ReleaseRange | None:
        """What the job may take under a release that is not bundled; None of one that is."""
        if release.unbundled is None:
            return None

        def read(version: str, rollout_engine_version: str | None) -> Workload:
            loaded = configuration.on(version)
            return self.workload(loaded, self.rollout_engine(loaded, rollout_engine_version))

        behaviours = TRAINER.behaviours(release.unbundled, workload, read)
        return release_range(
            f"{workload.release.trainer} {release.unbundled}",
            [(behaviour.name, behaviour.workload) for behaviour in behaviours],
        )


def expect_a_file(config: str, *, command: str) -> None:
    """Say what is wrong where something else stands in the place of the configuration file.

    Raises:
        InputError: it is an override or a launch script.
    """
    if "=" in config and not Path(config).exists():
        raise InputError(
            f"the first argument, {config!r}, is an override where a configuration file is expected",
            hint=f"put the YAML file first; without one: tuner {command} /dev/null key=value ...",
        )
    if config.endswith(".sh"):
        raise InputError(
            f"{config!r} is a launch script, which is not read",
            hint=f"give the overrides of its command: tuner {command} /dev/null key=value ...",
        )


def model_config(settings: Settings, premises: Premises) -> dict[str, Any]:
    """The ``config.json`` of the model that :func:`consult` took."""
    path = premises.model if premises.model is not None else TRAINER.model_path(settings)
    assert path is not None  # consult has refused it
    return dict(find_config(path).values)


def _model(settings: Settings, premises: Premises) -> tuple[ModelShape, str]:
    if premises.model is not None:
        shape = model_shape(premises.model, trace=premises.trace)
        return shape, f"--model; {shape.source}"
    path = TRAINER.model_path(settings)
    if path is None:
        raise InputError("no model is named", key=TRAINER.model_key, hint="set this key or give --model NAME")
    shape = _named(path, settings, TRAINER.model_key, trace=premises.trace)
    return shape, shape.source


def _critic_model(settings: Settings, premises: Premises) -> ModelShape | None:
    if premises.critic_model is not None:
        return model_shape(premises.critic_model, trace=premises.trace)
    path = TRAINER.critic_model_path(settings)
    if path is None:
        return None
    return _named(path, settings, TRAINER.critic_model_key, trace=premises.trace)


def _named(path: str, settings: Settings, key: str, *, trace: bool) -> ModelShape:
    """The model of a key; an error says where the key was set."""
    try:
        return model_shape(path, trace=trace)
    except InputError as error:
        origin = settings.origin(key)
        message = f"{error.location}: {error.message}" if error.location is not None else error.message
        place = origin.location if origin is not None else None
        raise InputError(message, location=place, key=key, hint=error.hint) from None


def _cluster(settings: Settings, premises: Premises) -> tuple[Cluster, str]:
    gpus_per_node, nodes = TRAINER.cluster_size(settings)
    named = [
        option
        for option, value in (("--gpus-per-node", premises.gpus_per_node), ("--nodes", premises.nodes))
        if value is not None
    ]
    host = premises.host_memory_gib
    cluster = Cluster(
        gpu=find_gpu(premises.gpu),
        gpus_per_node=premises.gpus_per_node or gpus_per_node,
        nodes=premises.nodes or nodes,
        network_bytes_per_s=NETWORK_BYTES_PER_S,
        host_memory_bytes=round(host * GIB) if host is not None else None,
    )
    return cluster, " and ".join(named) or "the configuration"


def _gpu_reason(premises: Premises, *, assumed: bool) -> str:
    if premises.gpu is not None:
        return "--gpu"
    return "assumed" if assumed else "found on this machine"
