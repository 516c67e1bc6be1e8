"""The images of a pass that is run here: how many sequences have them, and how large they are."""

from math import isqrt

from tuner import batching
from tuner.accuracy import MeasuredCase
from tuner.validate.training.fitted_job import equal_sequences
from tuner.validate.training.settings import PromptImages
from tuner.vision_tower import VisionTower
from tuner.workload import Batch, StepPass


def sequences_with_images(tokens: int, batch: Batch, step_pass: StepPass) -> tuple[int, int]:
    """Sequences of one length whose images are as many as a micro-batch of the job has, and that length.

    Each has room for its images; where those of the job come in shorter sequences, some are left out.
    """
    images, tower = batch.images, step_pass.model.tower
    assert images is not None
    assert tower is not None
    _, patches, _ = batching.micro_batch_patches(batch, step_pass)
    wanted = max(1, round(patches / (tower.patches_per_token * images.tokens)))
    count, length = equal_sequences(tokens, min(batch.sequence_tokens, max(1, tokens // wanted)))
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
