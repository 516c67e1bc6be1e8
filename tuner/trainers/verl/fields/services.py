"""Reads the reward model and the teachers: on which engine, and on whose GPUs."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from tuner.hardware import Cluster, Gpu
from tuner.model_shape import ModelShape
from tuner.trainers.verl.fields.batching import read_batching
from tuner.trainers.verl.fields.served import ServedSource, read_server, replica_gpus
from tuner.trainers.verl.models_built import built_models
from tuner.trainers.verl.service_keys import ONLY_TEACHER, REWARD_SECTIONS, TEACHERS, is_unread
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Batch, Pass, Rollout, Service, ServiceRole

Models = tuple[tuple[str, ModelShape], ...]
"""Models of services, by what the configuration calls them."""


def read_services(
    source: ReleaseSettings, batch: Batch, rollout: Rollout, cluster: Cluster, models: Models
) -> tuple[Service, ...]:
    """The reward model and the teachers of a job.

    Args:
        source: the settings.
        batch: sizes of a step.
        rollout: the engine of the policy, whose version others of its kind have.
        cluster: the trainer's GPUs; others are taken to be of the same kind.
        models: the known ones by what the configuration calls them; of others nothing is counted.

    Raises:
        InputError: a value has the wrong type, or one replica needs more GPUs than there are.
        UnsupportedError: the engine of a reward model cannot serve it, or is not modelled.
    """
    known = dict(models)
    reward = _reward(source, batch, rollout, cluster, known)
    teachers = (_teacher(source, name, batch, rollout, cluster.gpu, known) for name in _teachers(source))
    return (*(() if reward is None else (reward,)), *teachers)


def is_judged(source: ReleaseSettings) -> bool:
    """Whether the job has a reward model or a teacher."""
    return _uses_reward(source) or next(_teachers(source), None) is not None


def service_models(source: ReleaseSettings) -> tuple[tuple[ServiceRole, str], ...]:
    """What the configuration calls the models of the reward model and the teachers."""
    rewards = ((ServiceRole.REWARD, _text(source, "path")),) if _uses_reward(source) else ()
    teachers = ((ServiceRole.TEACHER, _teacher_path(source, name)) for name in _teachers(source))
    return (*rewards, *teachers)


# -- the reward model --------------------------------------------------------------------------


def _uses_reward(source: ReleaseSettings) -> bool:
    """Whether a reward model is asked for, unless a copy's worker computes rewards without one."""
    return source.flag(_meaning(source, "enable")) and source.copy.built.reward is not False


def _meaning(source: ReleaseSettings, name: str) -> str:
    """The meaning that counts: the old section's where a later release still takes what it sets."""
    old = f"old_reward.{name}"
    key = source.key(old)
    if key is not None and is_unread(key, source.version, source.settings.started):
        return f"reward.{name}"
    return old if source.value(old) is not None else f"reward.{name}"


def _text(source: ReleaseSettings, name: str) -> str:
    return source.text(_meaning(source, name), default="")


def _is_served(source: ReleaseSettings) -> bool:
    """Whether an inference engine runs the reward model: since 0.7.1, in 0.7.0 unless it is told not to."""
    return source.since("0.7.1") or (source.since("0.7.0") and source.flag("reward.served", default=True))


def _reward(
    source: ReleaseSettings,
    batch: Batch,
    rollout: Rollout,
    cluster: Cluster,
    models: Mapping[str, ModelShape],
) -> Service | None:
    if not _uses_reward(source):
        return None
    from tuner.trainers.verl.own_reward import has_own_reward  # of few launches

    apart = source.flag(_meaning(source, "own_pool")) or "reward" in built_models(source.settings).apart
    path, shares = _text(source, "path"), not apart
    served = _is_served(source)
    reward_model = None if not served and has_own_reward(source.settings) else models.get(path)
    # A model that generates its verdict needs a function of the user's; without one its class has one output.
    scalar = not served or not _text(source, "function")
    model = None if reward_model is None else replace(reward_model, value_head=scalar)
    service = Service(
        role=ServiceRole.REWARD,
        name=path,
        model=model,
        gpus=cluster.gpus if shares else _pool(source),
        shares_gpus=shares,
        starts_first=not source.since("0.7.1"),
        trained=_is_trained(source),
    )
    if model is None or (not served and not shares):
        return service
    if served:
        engines = reward_source(source)
        server = read_server(engines, model, batch, rollout, cluster.gpu, service.gpus, colocated=shares)
        return replace(service, server=server)
    from tuner.trainers.verl.fields.reward_worker import read_reward_engine  # of few launches

    engine = read_reward_engine(source, model, cluster.gpus)
    return replace(service, engine=engine, scoring=Pass(batching=read_batching(source, "reward", engine)))


def _is_trained(source: ReleaseSettings) -> bool:
    """Whether the recipe PRIME trains the reward model, beside a frozen copy of it.

    Source: verl 0.3.0.post1 to 0.6.1 ``recipe/prime/prime_ray_trainer.py`` (``update_style``),
    ``prime_fsdp_workers.py`` (``PRIMERewardModelWorker``).
    """
    key = "reward_model.model.update"
    return key in source.settings and source.settings.text(key, default="none") != "none"


def reward_source(source: ReleaseSettings) -> ServedSource:
    """The settings of the reward model's inference engine, under the rollout's meanings."""
    old, _new = REWARD_SECTIONS
    if not source.since("0.7.1"):
        return ServedSource.of(source, (old,))
    unread = is_unread(f"{old}.", source.version, source.settings.started)
    return ServedSource.of(source, REWARD_SECTIONS[1:] if unread else REWARD_SECTIONS)


def _pool(source: ReleaseSettings) -> int:
    """GPUs of a pool that is the reward model's own."""
    sizes = (_meaning(source, "gpus_per_node"), _meaning(source, "nodes"))
    per_node, nodes = (source.integer(meaning, default=0, minimum=0) for meaning in sizes)
    return per_node * nodes


# -- teachers ----------------------------------------------------------------------------------


def _teachers(source: ReleaseSettings) -> Iterator[str]:
    """The entries of the teachers that distillation runs."""
    if not source.flag("distillation"):
        return
    keys = (key.split(".") for key in source.settings if key.startswith(f"{TEACHERS}."))
    names = tuple(dict.fromkeys(key[TEACHERS.count(".") + 1] for key in keys))
    yield from names if len(names) < 2 else (name for name in names if name != ONLY_TEACHER)


def _teacher_path(source: ReleaseSettings, name: str) -> str:
    return source.settings.text(f"{TEACHERS}.{name}.model_path", default="")


def teacher_source(source: ReleaseSettings, place: int) -> ServedSource:
    """The settings of a teacher's inference engine, under the rollout's meanings.

    Args:
        source: the settings.
        place: of the teacher among the teachers of the job.
    """
    name = tuple(_teachers(source))[place]
    return ServedSource.of(source, (f"{TEACHERS}.{name}.inference",))


def _teacher(
    source: ReleaseSettings,
    name: str,
    batch: Batch,
    rollout: Rollout,
    gpu: Gpu,
    models: Mapping[str, ModelShape],
) -> Service:
    """A teacher, which never shares the trainer's GPUs."""
    engines, path = ServedSource.of(source, (f"{TEACHERS}.{name}.inference",)), _teacher_path(source, name)
    sizes = ("distillation.gpus_per_node", "distillation.nodes")
    per_node, nodes = (source.integer(meaning, default=0, minimum=0) for meaning in sizes)
    gpus = per_node * nodes  # a single teacher's; several have their replicas
    if name != ONLY_TEACHER:
        replicas = source.settings.integer(f"{TEACHERS}.{name}.num_replicas", minimum=0) or 0
        gpus = replicas * replica_gpus(engines)
    model = models.get(path)
    return Service(
        role=ServiceRole.TEACHER,
        name=path,
        model=model,
        gpus=gpus,
        shares_gpus=False,
        server=None
        if model is None
        else read_server(engines, model, batch, rollout, gpu, gpus, colocated=False),
    )
