"""The rollout engine as terms: awake, asleep, and with its weights back for new ones."""

from functools import lru_cache

from tuner.memory.ledger.terms import Term
from tuner.memory.rollout.graphs import engine_graphs
from tuner.memory.rollout.log_probs import engine_log_probs
from tuner.memory.rollout.process import engine_buffers, engine_process
from tuner.memory.rollout.profile_run import engine_activations
from tuner.memory.rollout.weights import engine_weights
from tuner.workload import FractionOf, Workload


def awake_terms(workload: Workload, cache: Term | None) -> tuple[Term, ...]:
    """The engine while it generates, with the KV cache of its share.

    Where its fraction covers context or graphs, larger ones leave a smaller cache, and the sum stays.
    """
    if workload.generator.is_trainer:
        return _present(cache)
    return (*_awake_beside_cache(workload.generating.standing), *_present(cache))


@lru_cache(maxsize=256)  # settings of the trainer are many beside one engine
def _awake_beside_cache(workload: Workload) -> tuple[Term, ...]:
    rollout = workload.generator
    return _present(
        engine_weights(workload),
        engine_activations(workload),
        engine_graphs(workload, counted=rollout.counts_graphs),
        engine_process(workload, counted=rollout.fraction_of in (FractionOf.TOTAL_OF_ALL, FractionOf.OWN)),
        engine_buffers(workload),
        engine_log_probs(workload),
    )


def asleep_terms(workload: Workload, cache: Term | None) -> tuple[Term, ...]:
    """What the engine keeps while the trainer works: graphs, process, buffers; all where it never sleeps.

    vLLM 0.6.3 moves its weights to the host in any case, its cache only where verl is told to free it.

    Source: vLLM ``device_allocator/cumem.py`` (only weights and cache lie in its pools), SGLang
    ``managers/scheduler_update_weights_mixin.py`` (``release_memory_occupation``), verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py`` (``offload_model_weights``, ``free_cache_engine``).
    """
    if workload.generator.is_trainer:
        return ()
    if not workload.generator.frees_memory:
        return awake_terms(workload, cache)
    weight_terms, other_terms = _asleep_beside_cache(workload.generating.standing)
    sleeping_cache = cache if workload.generator.keeps_cache else None
    return (*weight_terms, *_present(sleeping_cache), *other_terms)


@lru_cache(maxsize=256)  # as of one that is awake
def _asleep_beside_cache(workload: Workload) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    weights = engine_weights(workload) if workload.generator.sleeps_with_weights else None
    other_terms = _present(engine_graphs(workload), engine_process(workload), engine_buffers(workload))
    return _present(weights), other_terms


def waking_terms(workload: Workload, cache: Term | None) -> tuple[Term, ...]:
    """What comes back before new weights arrive: weights, and the cache too where both wake together."""
    rollout = workload.generator
    if not rollout.frees_memory:
        return ()
    weights = None if rollout.sleeps_with_weights else engine_weights(workload)
    return _present(weights, None if rollout.staged_wake_up else cache)


def _present(*terms: Term | None) -> tuple[Term, ...]:
    """The terms that there are."""
    return tuple(term for term in terms if term is not None and term.high)
