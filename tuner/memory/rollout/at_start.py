"""What is on the card when the rollout engine starts, and the share that the engine gets beside it."""

from functools import lru_cache

from tuner.memory.ledger.terms import Term
from tuner.memory.residents.engines import Residents
from tuner.memory.rollout.services import services_at_rest
from tuner.memory.rollout.share import CacheShare, least_cores
from tuner.workload import Workload


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
