"""A job's engine and micro-batches, fitted to the GPUs that are here."""

from math import ceil, gcd

from msgspec import structs

from tuner.workload import Engine, Parallelism


def equal_sequences(tokens: int, longest: int) -> tuple[int, int]:
    """Sequences of one length, none above the longest, that make up a micro-batch; as one GPU sees them.

    Up to twice as many are tried for the sake of an equal length; failing that a few tokens are left out.
    """
    least = ceil(tokens / longest)
    for count in range(least, 2 * least + 1):
        if tokens % count == 0:
            return count, tokens // count
    return least, tokens // least


def engine_here(engine: Engine, processes: int) -> Engine:
    """The engine over the GPUs that are here."""
    size = engine.parallel.shard
    keeps = size < engine.parallel.gpus and size <= processes and processes % size == 0
    return structs.replace(
        engine,
        parallel=Parallelism(
            gpus=processes,
            shard=size if keeps else processes,
            ulysses=ranks_here(engine.parallel.ulysses, processes),
        ),
    )


def ranks_here(ranks: int, processes: int) -> int:
    """GPUs that share a sequence here, where so many do in the job."""
    return gcd(ranks, processes)


def fsdp_size(here: Engine) -> int | None:
    """The size of a shard as the trainer's settings say it; None: all GPUs."""
    if here.frees_root:  # which the release does only where a size is given
        return max(2, here.parallel.shard)
    return here.parallel.shard if here.parallel.shard < here.parallel.gpus else None
