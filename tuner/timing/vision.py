"""Seconds of the vision tower in a pass over sequences with images."""

from tuner import batching
from tuner.dtypes import DType
from tuner.timing import assumptions as assume
from tuner.timing import layer as per_layer
from tuner.timing.job import TimedPasses
from tuner.timing.layer import LayerWork
from tuner.timing.rates import elementwise_bytes_per_s, layer_attention_flop_per_s
from tuner.vision_tower import VisionTower
from tuner.workload import Checkpointing


def tower_seconds(job: TimedPasses) -> float:
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
    products += tower.blocks * per_layer.product_seconds(
        tower.block_parameters, patches, gpu, dtype, width=tower.width
    )
    keys = patches_of_image(tower, tokens, images.per_prompt)
    attention = tower_attention_seconds(job, tower, patches, keys)
    block = _as_layer(tower)
    elementwise = tower.blocks * per_layer.elementwise_seconds(block, patches, gpu, dtype, fused=False)
    elementwise += float32_rotary_seconds(job, tower, patches)
    forward = products + attention + elementwise
    if not job.trains or job.engine.frozen_tower:
        return forward
    backward = 2 * products + tower_attention_seconds(job, tower, patches, keys, backward=True)
    backward += tower.blocks * per_layer.elementwise_seconds(
        block, patches, gpu, dtype, fused=False, backward=True
    )
    backward += float32_rotary_seconds(job, tower, patches, backward=True)
    return forward + backward + (forward if job.engine.checkpointing is Checkpointing.FULL else 0.0)


def patches_of_image(tower: VisionTower, tokens: int, images: int) -> float:
    """Patches of one of the images that make up so many tokens."""
    return tokens * tower.patches_per_token / images


def tower_attention_seconds(
    job: TimedPasses, tower: VisionTower, patches: float, keys: float, *, backward: bool = False
) -> float:
    """Attention of every patch to those of its image or window: ``4 P k w`` FLOP in each block forward."""
    windowed = min(keys, tower.window_patches) if tower.windowed_blocks else keys
    seconds = 0.0
    for blocks, visible in ((tower.windowed_blocks, windowed), (tower.blocks - tower.windowed_blocks, keys)):
        flop = 4 * blocks * patches * visible * tower.width * (assume.ATTENTION_BACKWARD if backward else 1)
        seconds += flop / layer_attention_flop_per_s(
            job.cluster.gpu, head_dim=tower.head_dim, tokens=visible, backward=backward
        )
    return seconds


def float32_rotary_seconds(
    job: TimedPasses, tower: VisionTower, patches: float, *, backward: bool = False
) -> float:
    """Rotating queries and keys in float32, beyond what a decoder layer does: ``2 B P w b`` bytes.

    With B blocks, P patches, w the tower's width and b bytes for each value, by direction
    (:data:`~tuner.timing.assumptions.FLOAT32_ROTARY_BYTES`). Of weights in float32 nothing is cast.
    """
    if not tower.rotates or job.engine.compute_dtype is DType.FLOAT32:
        return 0.0
    value_bytes = assume.FLOAT32_ROTARY_BYTES[backward]
    return 2 * tower.blocks * patches * tower.width * value_bytes / elementwise_bytes_per_s(job.cluster.gpu)


def merged_seconds(job: TimedPasses, tower: VisionTower, patches: float) -> float:
    """The two projections of the mergers, as wide as the patches of a token together."""
    wide = tower.width * tower.patches_per_token
    parameters = tower.mergers * wide * (wide + job.model.hidden)
    tokens = patches / tower.patches_per_token
    gpu, dtype = job.cluster.gpu, job.engine.compute_dtype
    return per_layer.product_seconds(parameters, tokens, gpu, dtype, width=min(wide, job.model.hidden))


def _as_layer(tower: VisionTower) -> LayerWork:
    """A block in the terms of a decoder layer, for its element-wise kernels."""
    return LayerWork(
        hidden=tower.width,
        intermediate=tower.width,
        head_dim=tower.head_dim,
        norms=2,
        parameters=tower.block_parameters,
        active_parameters=tower.block_parameters,
        routed_parameters=0,
        routed_active=0,
        expert_width=tower.width,
        expert_share=1,
        attention_width=2 * tower.width,
        query_key_values=2 * tower.width,
        normed_query_keys=0,
        gated_values=tower.inner,
        routed_copies=0,
        window=None,
        windowed_share=0,
    )
