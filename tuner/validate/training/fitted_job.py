"""A job's engine, micro-batches and images, fitted to the GPUs that are here."""

from math import ceil, gcd, isqrt

from msgspec import structs

from tuner import batching
from tuner.accuracy import MeasuredCase
from tuner.validate.training.settings import PromptImages
from tuner.vision_tower import VisionTower
from tuner.workload import Batch, Engine, Parallelism, StepPass


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


def sequences_with_images(tokens: int, batch: Batch, step_pass: StepPass) -> tuple[int, int]:
    """Sequences of one length whose images are as many as a micro-batch of the job has, and that length.

    Each has room for its images; where those of the job come in shorter sequences, some are left out.
    """
    images, tower = batch.images, step_pass.model.tower
    assert images is not None
    assert tower is not None
    _, patches, _ = batching.micro_batch_patches(batch, step_pass)
    wanted = max(1, round(patches / (tower.patches_per_token * images.tokens)))
    count, length = equal_sequences(tokens, min(batch.reached_tokens, max(1, tokens // wanted)))
    if length > images.tokens:
        return count, length
    most = max(1, tokens // (images.tokens + 1))
    return most, tokens // most


def prompt_images(case: MeasuredCase, tower: VisionTower | None) -> PromptImages | None:
    """The images of every sequence of a case, each a rectangle of patches that is as square as can be."""
    if not case.images_per_prompt or tower is None:
        return None
    tokens = tower.tokens_of(case.image_pixels)
    rows = next(side for side in range(isqrt(tokens), 0, -1) if tokens % side == 0)
    return PromptImages(
        per_prompt=case.images_per_prompt,
        rows=rows * tower.merge,
        columns=tokens // rows * tower.merge,
        tokens=tokens,
    )
