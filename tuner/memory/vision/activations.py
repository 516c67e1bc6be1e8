r"""What a vision tower keeps or needs, in bytes per patch.

Symbols: :math:`w` width of the tower, :math:`h` its heads, :math:`d = w / h`, :math:`I` width of its MLP,
:math:`b` bytes of the compute dtype, :math:`v` numbers of a patch, :math:`n_i` tensors of the MLP's width
that are kept, :math:`n_g` such gradients at once. Attention is flash attention within each image or its
windows: nothing is quadratic in the patches.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.vision_tower import VisionTower
from tuner.workload import Engine

_FLOAT32 = DType.FLOAT32.bytes


def norm_saved_bytes(tower: VisionTower, engine: Engine, *, frozen: bool = False) -> int:
    r"""One norm and its output, saved for the backward pass: :math:`(4 + b) \, w + 8`.

    A float32 copy of the input, two scales, and the output in the compute dtype, which the next projection
    reads. RMSNorm has one scale and keeps the normalised values for its weight as well,
    :math:`(4 + 2 b) \, w + 4`. Frozen weights need neither output: :math:`4 w` and the scales.

    Source: transformers ``Qwen2_5_VLRMSNorm``; torch ``autocast_mode.h`` (LayerNorm runs in float32).
    """
    compute = 0 if frozen else engine.compute_dtype.bytes
    if tower.rms_norms:
        return (_FLOAT32 + 2 * compute) * tower.width + _FLOAT32
    return (_FLOAT32 + compute) * tower.width + 2 * _FLOAT32


def block_saved_bytes(tower: VisionTower, engine: Engine, *, frozen: bool = False) -> int:
    r"""One block of the tower, saved for its backward pass.

    .. math:: 2 \, \text{norm} + 6 \, b w + 4 \, h + n_i \, b I

    Two norms with their outputs; queries and keys after the rotation, which is computed in float32 and saves
    nothing of that; the values, which are part of what the one projection of all three returned and keep
    it, :math:`3 b w`; the attention's output and its log-sum-exp per head; and the MLP. The block's input is
    not counted. SigLIP, which rotates nothing, projects queries, keys and values one by one and casts the
    norm's output for each: as many tensors. Frozen weights do not need what they are multiplied with: the
    outputs of the norms, and of the MLP's tensors the last, :math:`(n_i - 1) \, b I`.

    Source: transformers ``Qwen2VLVisionBlock``, ``Qwen2_5_VLVisionBlock``, ``Qwen3VLVisionBlock``.
    """
    compute = engine.compute_dtype.bytes
    attention = 6 * compute * tower.width + _FLOAT32 * tower.heads
    mlp = (tower.kept_inner - frozen) * compute * tower.inner
    return 2 * norm_saved_bytes(tower, engine, frozen=frozen) + attention + mlp


def block_backward_bytes(tower: VisionTower, engine: Engine) -> int:
    r"""Gradients in flight in a block's backward pass, on top of what it saved: :math:`b \, (w + n_g I)`.

    The gradient of the block's output, and those inside the MLP once its product is given back.

    Source: transformers ``Qwen2_5_VLMLP``.
    """
    return engine.compute_dtype.bytes * (tower.width + tower.gradients_inner * tower.inner)


def block_forward_bytes(tower: VisionTower, engine: Engine) -> int:
    r"""What a block needs at once in a forward pass without gradients, its input included.

    .. math:: b w + \text{norm} + \max(3 b w + 24 w,\; b w + n \, b I)

    Where queries and keys are rotated: the norm's output, which LayerNorm returns in float32, all three
    projections, and in float32 queries, keys, the rotated queries and three tensors while the keys are
    rotated. Where nothing is rotated (SigLIP), the projections and what one of them reads, :math:`4 b w`. In
    the MLP the residual stream, and at most three tensors of its width.

    Source: transformers ``apply_rotary_pos_emb_vision``.
    """
    compute = engine.compute_dtype.bytes
    norm = (compute if tower.rms_norms else _FLOAT32) * tower.width
    rotation = (3 * compute + 6 * _FLOAT32) * tower.width if tower.rotates else 4 * compute * tower.width
    mlp = compute * (tower.width + min(3, tower.kept_inner) * tower.inner)
    return compute * tower.width + norm + max(rotation, mlp)


def merger_saved_bytes(tower: VisionTower, engine: Engine, *, frozen: bool = False) -> int:
    r"""One merger, saved for its backward pass: :math:`\text{norm} + 2 \, b w`.

    One that averages squares of :math:`m_s` patches keeps a float32 copy of the input of its norm and, beside
    two scales, the norm's output as it is laid out for the mean, :math:`8 w + 8`; and of every mean two
    float32 tensors and a scale of its own norm and what its projection reads, :math:`((8 + b) w + 4) / m_s`.

    Its norm, and input and output of the activation between its two projections, which are as wide as the
    patches of a token together. Frozen weights need no inputs of theirs: of what they read and multiply only
    what their norm keeps and the activation's input stay, :math:`4 w + b w` and the scales.

    Source: transformers ``Qwen2_5_VLPatchMerger``, ``Qwen3VLVisionPatchMerger``,
    ``Gemma3MultiModalProjector``; torch ``AvgPool2d``.
    """
    compute = engine.compute_dtype.bytes
    if frozen and not tower.pools:
        return norm_saved_bytes(tower, engine, frozen=True) + compute * tower.width
    if tower.pools:
        means = ceil(((2 * _FLOAT32 + compute) * tower.width + _FLOAT32) / tower.patches_per_token)
        return 2 * _FLOAT32 * (tower.width + 1) + means
    return norm_saved_bytes(tower, engine) + 2 * compute * tower.width


def patch_bytes(tower: VisionTower, engine: Engine) -> int:
    r"""A patch as the tower's first layer reads it, and its rotary tables: :math:`b v + 8 d`.

    FSDP casts the numbers, float32 on the host, to the compute dtype. Cosines and sines are in float32.

    Source: torch ``fsdp/_runtime_utils.py`` (``_root_cast_forward_input``); transformers
    ``Qwen2_5_VLVisionRotaryEmbedding``.
    """
    return engine.compute_dtype.bytes * tower.values + tables_bytes(tower)


def tables_bytes(tower: VisionTower) -> int:
    r"""Cosines and sines of a patch in float32, :math:`8 d`; nothing where the tower does not rotate.

    Source: transformers ``Qwen2_5_VLVisionRotaryEmbedding``.
    """
    return 2 * _FLOAT32 * tower.head_dim if tower.rotates else 0
