"""From a configuration to an answer: the one way that ``advise`` and ``check`` share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuner import rules
from tuner.advise import advise
from tuner.errors import InputError
from tuner.evidence import Evidence
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.render.answer import Answer
from tuner.rules.case import Case
from tuner.trainers import verl
from tuner.trainers.verl import checks
from tuner.trainers.verl.load import load
from tuner.trainers.verl.versions import choose
from tuner.units import GIB, GIGA

NETWORK_BYTES_PER_S = 50.0 * GIGA  # 400 Gbit/s per GPU, as in the reference designs of 8-GPU nodes


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What the options say; None leaves it to the configuration and the machine."""

    verl_version: str | None = None
    model: str | None = None
    critic_model: str | None = None
    gpu: str | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None
    host_memory_gib: float | None = None
    headroom: float = 0.1


def consult(source: str, overrides: Sequence[str], premises: Premises) -> Answer:
    """Read, estimate and advise.

    Raises:
        TunerError: something in the configuration or the options cannot be used.
    """
    choice = choose(premises.verl_version)
    loaded = load(Path(source), overrides, version=choice.version)
    settings = loaded.settings
    model, model_reason = _model(settings, premises)
    cluster, gpus_reason = _cluster(settings, premises)
    workload = verl.read(
        settings,
        version=loaded.version,
        model=model,
        critic_model=_critic_model(settings, premises),
        cluster=cluster,
    )
    findings = checks.run(settings, workload, version=loaded.version)
    findings += rules.run(Case.of(workload, headroom=premises.headroom))
    advice = advise(
        workload,
        findings=findings,
        write_overrides=partial(verl.write_overrides, settings=settings, version=loaded.version),
        headroom=premises.headroom,
    )
    assumed = cluster.gpu.evidence is Evidence.HEURISTIC
    return Answer(
        source=source,
        settings=settings,
        unknown=loaded.unknown,
        release_reason=choice.reason,
        model_reason=model_reason,
        gpu_reason=_gpu_reason(premises, assumed=assumed),
        gpu_assumed=assumed,
        gpus_reason=gpus_reason,
        resting=verl.resting_on_defaults(
            settings, version=loaded.version, dynamic=workload.actor.update.batching.dynamic
        ),
        advice=advice,
    )


def _model(settings: Settings, premises: Premises) -> tuple[ModelShape, str]:
    if premises.model is not None:
        shape = find_model(premises.model)
        return shape, f"--model; {shape.source}"
    path = verl.model_path(settings)
    if path is None:
        raise InputError("no model is named", key=verl.MODEL_PATH, hint="set this key or give --model NAME")
    shape = _named(path, settings, verl.MODEL_PATH)
    return shape, shape.source


def _critic_model(settings: Settings, premises: Premises) -> ModelShape | None:
    if premises.critic_model is not None:
        return find_model(premises.critic_model)
    path = verl.critic_model_path(settings)
    return _named(path, settings, verl.CRITIC_MODEL_PATH) if path is not None else None


def _named(path: str, settings: Settings, key: str) -> ModelShape:
    """The model of a key; an error says where the key was set."""
    try:
        return find_model(path)
    except InputError as error:
        origin = settings.origin(key)
        message = f"{error.location}: {error.message}" if error.location is not None else error.message
        place = origin.location if origin is not None else None
        raise InputError(message, location=place, key=key, hint=error.hint) from None


def _cluster(settings: Settings, premises: Premises) -> tuple[Cluster, str]:
    gpus_per_node, nodes = verl.cluster_size(settings)
    given = [
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
    return cluster, " and ".join(given) or "the configuration"


def _gpu_reason(premises: Premises, *, assumed: bool) -> str:
    if premises.gpu is not None:
        return "--gpu"
    return "assumed" if assumed else "found on this machine"
