"""What one GPU of a rollout replica holds, how many sequences that is good for, and whether it starts."""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil

from msgspec import Struct

from tuner.language import N_, _
from tuner.memory.ledger.terms import Term
from tuner.memory.residents import Residents
from tuner.memory.rollout.kv_cache import block_tokens, kv_bytes_per_sequence, kv_bytes_per_token
from tuner.memory.rollout.services import at_service_start, served, services_at_rest
from tuner.memory.rollout.share import CacheShare, least_cores, sizes_of
from tuner.workload import RolloutEngine, ServiceRole, Workload

_ROLLOUT = N_("the rollout engine")
_SERVICES = {
    ServiceRole.REWARD: N_("the reward model's engine"),
    ServiceRole.TEACHER: N_("the teacher's engine"),
}


def held_at_start(workload: Workload) -> tuple[Term, ...]:
    """What is on the card while the rollout engine sizes its cache; nothing on GPUs of its own.

    The trainer before its first pass, and the engine of a reward model, which starts earlier and sleeps.
    """
    if not workload.generator.colocated:
        return ()
    return (*Residents.of(workload).at_start, *services_at_rest(workload))


@lru_cache(maxsize=256)  # the engine's terms ask for it, and so do its capacity and the time model
def cache_share(workload: Workload) -> CacheShare:
    """The share of a workload's engine, with typical sizes of what is not derived."""
    return CacheShare(workload, held_at_start(workload))


def least_shares(workload: Workload) -> tuple[CacheShare, ...]:
    """The most cache of a workload's engine, by each core that it may run."""
    return least_cores(workload, held_at_start(workload))


class RolloutMemory(Struct, frozen=True, kw_only=True):
    """Per GPU of one replica, in bytes unless the name says otherwise."""

    weight_bytes: int
    activation_bytes: int  # profile run: prefill chunk or sampler
    graph_bytes: int
    kv_bytes: int  # cache that the fraction leaves; 0 or less: the engine cannot start
    pool_bytes: int  # all the engine takes while awake
    asleep_bytes: int  # what it keeps while asleep
    kv_bytes_per_token: int
    kv_tokens: int  # tokens one replica can cache
    model_tokens: int  # longest sequence the engine is built for
    concurrent_sequences: int  # with their whole room in one replica's cache, at most max_sequences
    running_sequences: int = 0  # sequences one replica runs at once as long as the cache has room

    @property
    def preempted_sequences(self) -> int:
        """Running sequences that lose their cache, and are computed again, when all need their whole room."""
        return max(0, self.running_sequences - self.concurrent_sequences)


def rollout_memory(workload: Workload) -> RolloutMemory:
    """The engine's memory on one GPU.

    The cache is given out in whole blocks; a sequence takes
    :func:`~tuner.memory.rollout.kv_cache.kv_bytes_per_sequence` of its full length, or of the room that it
    needs where the job's lengths are known (``Batch.room_tokens``). A replica runs what it is given up to
    ``max_sequences``. Where the cache holds fewer, it preempts: the youngest lose their cache and are
    computed again.

    Source: vLLM ``v1/core/sched/scheduler.py`` (``schedule``: ``preempt``).
    """
    return _memory_of(workload.generating, cache_share(workload).cache)


@lru_cache(maxsize=256)  # the estimate asks for it, and so do the time model and the rules
def _memory_of(workload: Workload, cache: int) -> RolloutMemory:
    """The memory of an engine, whose trainer leaves it so much for its cache."""
    model, rollout, batch = workload.model, workload.generator, workload.batch
    sizes = sizes_of(workload)
    built = _built_tokens(workload)
    room = min(built, batch.room_tokens)
    per_token = kv_bytes_per_token(model, rollout)
    usable, block = max(0, cache), block_tokens(model, rollout)
    cached_sequences = usable // max(1, kv_bytes_per_sequence(model, rollout, room)) * rollout.data_parallel
    admitted = rollout.max_sequences * rollout.data_parallel
    resident_bytes = sizes.graphs + sizes.process + sizes.buffers
    awake = cache + sizes.weights + sizes.activations + resident_bytes
    asleep = (sizes.weights if rollout.sleeps_with_weights else 0) + (
        usable if rollout.sleeps_with_cache else 0
    )
    return RolloutMemory(
        weight_bytes=sizes.weights,
        activation_bytes=sizes.activations,
        graph_bytes=sizes.graphs,
        kv_bytes=cache,
        pool_bytes=awake,
        asleep_bytes=awake if not rollout.frees_memory else resident_bytes + asleep,
        kv_bytes_per_token=per_token,
        kv_tokens=usable // max(1, per_token * block) * block * rollout.data_parallel,
        model_tokens=built,
        concurrent_sequences=min(admitted, cached_sequences),
        running_sequences=min(admitted, ceil(batch.round_sequences / rollout.replicas)),
    )


def _built_tokens(workload: Workload) -> int:
    return workload.generator.max_model_tokens or workload.model.max_positions


def built_sequence_bytes(workload: Workload) -> int:
    """Cache on one GPU of one sequence of the length that the engine is built for, as its prompt is read."""
    rollout = workload.generator
    return kv_bytes_per_sequence(
        workload.model, rollout, _built_tokens(workload), prefilled=rollout.step_tokens
    )


def start_doubt(workload: Workload) -> str | None:
    """Why the engine may not start although it can: its cache is only large enough at its largest."""
    if (
        workload.rollout is None
        or start_problems(workload)
        or _cache_problem(workload.generating, rollout_memory(workload).kv_bytes) is None
    ):
        return None
    share, older = least_shares(workload)[0], workload.generator.older_core
    if older is not None and _cache_problem(workload.generating, share.cache) is not None:
        return _(
            "the rollout engine may not start: its share of memory leaves enough for a KV cache "
            "only with the V0 core (VLLM_USE_V1=0 or VLLM_ATTENTION_BACKEND=XFORMERS)"
        )
    return _(
        "the rollout engine may not start: its share of memory leaves enough for a KV cache "
        "only where contexts and communicators are smaller than usual"
    )


@lru_cache(maxsize=256)  # beside most trainers an engine's cache is the same
def _cache_problem(workload: Workload, cache: int, engine: str = _ROLLOUT) -> str | None:
    rollout, model = workload.generator, workload.model
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    if cache <= 0:
        return _("{engine}'s share of memory holds its weights and activations, but no KV cache").format(
            engine=_(engine)
        )
    cache_name = (
        _("the KV cache") if engine == _ROLLOUT else _("the KV cache of {engine}").format(engine=_(engine))
    )
    if cache < kv_bytes_per_sequence(
        model, rollout, min(_built_tokens(workload), workload.batch.sequence_tokens)
    ):
        return _("{cache} is too small for one sequence of full length").format(cache=cache_name)
    if rollout.engine is RolloutEngine.VLLM and cache < built_sequence_bytes(workload):
        return _(
            "{cache} is too small for one sequence of the length that {engine} "
            "is built for, so the engine refuses to start"
        ).format(cache=cache_name, engine=_(engine))
    return None


@lru_cache(maxsize=256)  # what is a doubt depends on it as well
def start_problems(workload: Workload) -> tuple[str, ...]:
    """Why the engine would not start, whatever the trainer does later; nothing of a job that has none.

    Its cache is too small, or less is free than vLLM asks for: 0.9.1 and later stop then. Only for certain:
    sizes that are not derived are taken at the low end, and of two cores the one that leaves more. vLLM
    refuses a cache that cannot hold one sequence of the length it is built for.

    Source: vLLM ``v1/worker/gpu_worker.py`` (``init_device``), ``v1/worker/utils.py`` (``request_memory``),
    ``v1/core/kv_cache_utils.py`` (``check_enough_kv_cache_memory``).
    """
    if workload.rollout is None:
        return ()
    least = least_shares(workload)
    problems = [_cache_problem(workload.generating, max(share.cache for share in least))]
    if not any(share.starts_free for share in least):
        problems.append(
            _("the rollout engine asks at its start for more memory than the trainer leaves free")
        )
    problems += service_problems(workload)
    return tuple(problem for problem in problems if problem is not None)


def service_problems(workload: Workload, *roles: ServiceRole) -> tuple[str, ...]:
    """Why the engine of a reward model or a teacher would not start, on the trainer's GPUs or on its own.

    Args:
        workload: the job.
        roles: of the services to ask about; all of them where none is named.
    """
    return tuple(problem for problem in _service_problems(workload, roles) if problem is not None)


def _service_problems(workload: Workload, roles: tuple[ServiceRole, ...]) -> Iterator[str | None]:
    for service, served_workload in served(workload):
        if roles and service.role not in roles:
            continue
        name, least = (
            _SERVICES[service.role],
            least_cores(served_workload, at_service_start(workload, service)),
        )
        yield _cache_problem(served_workload.generating, max(share.cache for share in least), name)
        if not any(share.starts_free for share in least):
            yield _("{name} asks at its start for more memory than the trainer leaves free").format(
                name=_(name)
            )
