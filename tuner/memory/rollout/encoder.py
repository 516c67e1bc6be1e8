r"""The vision tower in the rollout engine: what vLLM's profile run takes for the largest images.

vLLM 0.8 and later read images through a cache of the tower's outputs, which has room for the tokens of one
scheduling step or of the largest image, whichever is more. The profile run fills it with images of that
largest size, whatever the job's own are. Those of Gemma 3 are all of one size.
"""

from tuner.dtypes import DType
from tuner.vision_tower import VisionTower
from tuner.workload import Rollout, RolloutEngine, Workload

#: Tokens of the largest image that the processors of Qwen2-VL, Qwen2.5-VL and Qwen3-VL let through.
#: Source: their ``preprocessor_config.json``: 12,845,056 pixels (``max_pixels``) in squares of 28, and
#: 16,777,216 (``size.longest_edge``) in squares of 32.
LARGEST_IMAGE_TOKENS = 16384
_FLOAT32, _COMPUTE = DType.FLOAT32.bytes, DType.BFLOAT16.bytes


def engine_patch_bytes(tower: VisionTower, rollout: Rollout, *, least: bool = False) -> int:
    r"""What the engine's tower needs at once per patch, on one of :math:`T_p` ranks.

    .. math:: b v + 4 d + 2 \, b w + \left\lceil \frac{\max(7 \, b w + 16 \, w,\; 3 \, b I)}{T_p} \right\rceil

    The patch and its rotary tables; the residual stream and its norm; and, divided by the ranks, either
    attention or an MLP at work. Attention has queries, keys and values, queries and keys joined, and both
    rotated; the rotation copies them to float32 and has its result in float32, :math:`16 w`. Kernels that
    rotate without such copies leave these out, which is the low end; SigLIP rotates nothing.

    Source: vLLM ``model_executor/models/qwen2_5_vl.py`` (``Qwen2_5_VisionAttention``,
    ``Qwen2_5_VisionMLP``), ``layers/rotary_embedding/common.py``.
    """
    width = tower.width
    copies = 4 * _FLOAT32 * width if tower.rotates and not least else 0
    attention = 5 * _COMPUTE * width + 2 * _COMPUTE * width + copies
    mlp = 3 * _COMPUTE * tower.inner
    tables = _FLOAT32 * tower.head_dim if tower.rotates else 0
    outside = _COMPUTE * tower.values + tables + 2 * _COMPUTE * width
    return outside - -max(attention, mlp) // rollout.tensor_parallel


def profiled_tower(workload: Workload) -> VisionTower | None:
    """The tower that vLLM's profile run gives images to; None of a job without, or of another engine."""
    sees = workload.generator.engine is RolloutEngine.VLLM and workload.batch.images is not None
    return workload.model.tower if sees else None


def encoder_numbers(tower: VisionTower, rollout: Rollout, *, least: bool = False) -> dict[str, float]:
    """The symbols of images in the profile run: as many of the largest as the cache has room for."""
    largest = tower.image_tokens or LARGEST_IMAGE_TOKENS
    tokens = max(1, rollout.step_tokens // largest) * largest
    return {
        "P_e": tokens * tower.patches_per_token,
        "a_e": engine_patch_bytes(tower, rollout, least=least),
        "T_e": tokens,
        "n_v": tower.mergers,
    }
