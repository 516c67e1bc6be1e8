"""Axes of the rollout engine: its share of the card, what it runs at once, graphs and caches."""

from collections.abc import Iterator
from math import ceil

from msgspec.structs import replace

from tuner.plan.axes import Axis, axis
from tuner.rules.rollout_engine import ALIGNMENT, sequences_per_replica
from tuner.units import MIB
from tuner.workload import RolloutEngine, Workload

_FRACTIONS = range(20, 95, 5)  # hundredths of the card
_SEQUENCES = (64, 128, 256, 512, 1024)
_STEP_TOKENS = (4096, 8192, 16384, 32768)
_BUCKETS = (256, 512, 1024, 2048)  # MiB; a larger one saves a few handshakes of milliseconds


def engine_axes(workload: Workload) -> Iterator[Axis]:
    """The axes of an engine beside the trainer; none where the trainer generates itself, or nobody does."""
    rollout = workload.rollout
    if rollout is None or rollout.is_trainer:
        return
    fractions = (
        (f"{value / 100:g}", workload.with_rollout(memory_fraction=value / 100)) for value in _FRACTIONS
    )
    yield axis("fraction", workload, fractions)
    if rollout.sequences_adjustable:
        sizes = sorted({*_SEQUENCES, _replica_sequences(workload)})
        limits = ((str(size), workload.with_rollout(max_sequences=size)) for size in sizes)
        yield axis("sequences", workload, limits)
    if rollout.engine is not RolloutEngine.SGLANG:
        tokens = ((str(size), workload.with_rollout(max_batched_tokens=size)) for size in _STEP_TOKENS)
        yield axis("step-tokens", workload, tokens)
    yield axis("graphs", workload, [(str(on), workload.with_rollout(cuda_graphs=on)) for on in (True, False)])
    yield axis("chunks", workload, _prompts(workload))
    if rollout.colocated and rollout.sleep_known:
        yield axis("sleep", workload, _sleep(workload))
    yield axis("bucket", workload, _buckets(workload))


def _prompts(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Prompts in chunks, and prefixes kept."""
    for chunked in (True, False):
        for kept in (True, False):
            text = f"{'chunked' if chunked else 'whole'}, {'prefixes kept' if kept else 'none kept'}"
            yield text, workload.with_rollout(chunked_prefill=chunked, prefix_caching=kept)


def _sleep(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Whether the engine leaves the card to the passes, which takes seconds twice a step."""
    yield "asleep in the passes", workload.with_rollout(frees_memory=True)
    yield "awake throughout", workload.with_rollout(frees_memory=False)


def _buckets(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Sizes of the buffer in which new weights travel, that hold the largest tensor where they have to."""
    sync = workload.sync
    if sync is not None and sync.bucket_bytes:
        for mebibytes in _BUCKETS:
            if mebibytes * MIB >= sync.smallest_bucket_bytes:
                sent = replace(sync, bucket_bytes=mebibytes * MIB)
                yield f"{mebibytes} MiB", replace(workload, sync=sent)


def _replica_sequences(workload: Workload) -> int:
    """As many sequences as one replica is given, in the steps of CUDA graphs."""
    of_one = sequences_per_replica(workload) / workload.generator.data_parallel
    return max(ALIGNMENT, ALIGNMENT * ceil(of_one / ALIGNMENT))
