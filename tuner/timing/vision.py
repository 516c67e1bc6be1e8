"""Seconds of the vision tower in a pass over sequences with images."""

from tuner import batching
from tuner.timing import assumptions as assume
from tuner.timing import layer as per_layer
from tuner.timing.job import Job
from tuner.timing.layer import Layer
from tuner.timing.rates import attention_flop_per_s
from tuner.vision_tower import VisionTower
from tuner.workload import Checkpointing


def tower_seconds(job: Job) -> float:
    """The tower over the images of all sequences of a pass on one GPU; 0 without images.

    Every sequence brings the images of its prompt, and ranks that share sequences each run the tower over
    all of them. Backward as in a decoder layer, nothing of it where the tower is frozen. Not counted: its
    weights on their way, which are small, and the tower in the rollout engine.
    """
    images, tower = job.batch.images, job.model.tower
    if images is None or tower is None:
        return 0.0
    sequences = batching.pass_sequences(job.batch, job.step_pass)
    tokens = min(images.tokens, job.batch.max_prompt_tokens)
    patches = sequences * tokens * tower.patches_per_token
    products = merged_seconds(job, tower, patches)
    dtype, gpu = job.engine.compute_dtype, job.cluster.gpu
    products += tower.blocks * per_layer.product_seconds(tower.block_parameters, patches, gpu, dtype)
    attention = tower_attention_seconds(
        job, tower, patches, patches_of_image(tower, tokens, images.per_prompt)
    )
    block = _as_layer(tower)
    elementwise = tower.blocks * per_layer.elementwise_seconds(block, patches, gpu, dtype, fused=False)
    forward = products + attention + elementwise
    if not job.trains or job.engine.frozen_tower:
        return forward
    backward = 2 * products + assume.ATTENTION_BACKWARD * attention
    backward += assume.ELEMENTWISE_BACKWARD * elementwise
    return forward + backward + (forward if job.engine.checkpointing is Checkpointing.FULL else 0.0)


def patches_of_image(tower: VisionTower, tokens: int, images: int) -> float:
    """Patches of one of the images that make up so many tokens."""
    return tokens * tower.patches_per_token / images


def tower_attention_seconds(job: Job, tower: VisionTower, patches: float, keys: float) -> float:
    """Attention of every patch to those of its image or its window, ``4 P k w`` FLOP in each block."""
    windowed = tower.windowed_blocks * min(keys, tower.window_patches)
    seen = (tower.blocks - tower.windowed_blocks) * keys + windowed
    return 4 * patches * seen * tower.width / attention_flop_per_s(job.cluster.gpu)


def merged_seconds(job: Job, tower: VisionTower, patches: float) -> float:
    """The two projections of the mergers, as wide as the patches of a token together."""
    wide = tower.width * tower.patches_per_token
    parameters = tower.mergers * wide * (wide + job.model.hidden)
    tokens = patches / tower.patches_per_token
    return per_layer.product_seconds(parameters, tokens, job.cluster.gpu, job.engine.compute_dtype)


def _as_layer(tower: VisionTower) -> Layer:
    """A block in the terms of a decoder layer, for its element-wise kernels."""
    return Layer(
        hidden=tower.width,
        norms=2,
        parameters=tower.block_parameters,
        active_parameters=tower.block_parameters,
        routed_parameters=0,
        attention_width=2 * tower.width,
        query_key_values=2 * tower.width,
        gated_values=tower.inner,
        routed_copies=0,
        window=None,
        windowed_share=0,
    )
