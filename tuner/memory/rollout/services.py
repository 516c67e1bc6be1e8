"""A reward model or a teacher on an inference engine of its own: awake while it judges, asleep otherwise.

Its engine is one like that of the rollout, so its sizes are the rollout's formulas with its model and its
settings. What it holds is told apart by the names of the terms.

It starts when the trainer's models are there and before the rollout engine does, in verl 0.7.0 before both,
and goes to sleep at once if ``free_cache_engine`` is on: weights go to the host, the KV cache is dropped,
graphs and the process stay. It wakes when all responses are there and the rollout engine sleeps, judges them,
and sleeps again before log-probabilities are computed. On GPUs of its own it takes nothing here.

Source: verl 0.9.1 ``experimental/reward_loop/reward_model.py`` (``RewardModelManager``),
``experimental/reward_loop/reward_loop.py`` (``compute_rm_score``), ``trainer/ppo/ray_trainer.py``
(``init_workers``, ``fit``), ``workers/rollout/vllm_rollout/vllm_async_server.py`` (``sleep``, ``wake_up``:
``RolloutMode.COLOCATED``); verl 0.7.0 ``trainer/ppo/ray_trainer.py`` (``init_workers``).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from tuner.memory.ledger.terms import Item, Term
from tuner.memory.residents import Residents
from tuner.memory.rollout.share import CacheShare
from tuner.memory.rollout.terms import asleep_terms, awake_terms
from tuner.workload import Service, Workload


def served(workload: Workload) -> Iterator[tuple[Service, Workload]]:
    """Services on inference engines whose model is known, each with the job as its engine sees it.

    That is the job with the model and the engine of the service in the place of the policy's.
    """
    for service in workload.services:
        if service.model is not None and service.server is not None:
            yield service, replace(workload, model=service.model, rollout=service.server, services=())


def at_service_start(workload: Workload, service: Service) -> tuple[Term, ...]:
    """What is on the card when the engine of a service starts: the trainer, where it is there before."""
    empty = not service.shares_gpus or service.starts_first
    return () if empty else Residents.of(workload).at_start


def services_at_rest(workload: Workload) -> tuple[Term, ...]:
    """What the engines of services hold on the trainer's GPUs while they have nothing to judge."""
    return _asleep(workload) if workload.services else ()  # few jobs have any


@lru_cache(maxsize=256)  # each phase asks for it, and so does the rollout engine's share
def _asleep(workload: Workload) -> tuple[Term, ...]:
    return _terms(workload, asleep_terms)


def services_judging(workload: Workload) -> tuple[Term, ...]:
    """What the engines of services hold on the trainer's GPUs while they judge."""
    return _terms(workload, awake_terms) if workload.services else ()


def _terms(
    workload: Workload, terms_of: Callable[[Workload, Term | None], tuple[Term, ...]]
) -> tuple[Term, ...]:
    """What the engines on the trainer's GPUs hold, by names of their own."""
    terms: list[Term] = []
    for service, served_workload in served(workload):
        if service.shares_gpus:
            share = CacheShare(served_workload, at_service_start(workload, service))
            terms += [
                replace(term, item=Item.SERVICE, name=f"{service.role.value}_{term.name}")
                for term in terms_of(served_workload, share.cache_term)
            ]
    return tuple(terms)
