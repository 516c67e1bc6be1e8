"""The kernel that PyTorch takes for attention with a mask, and its share of flash attention's rate.

Flash attention takes no mask. Of the others PyTorch takes the first of its order that can: cuDNN's where the
card is of compute capability 9.0 or 10 and cuDNN is newer than 9.15.0, else the memory-efficient one. The
wheel of torch 2.11 brings 9.19; of 2.10 that for CUDA 12 brings 9.10.2, that for CUDA 13 9.15.1. 2.9 goes by
the cuDNN that it was built with, which its wheels do not say; before, but for 2.5.0, only an environment
variable moves cuDNN to the front. ``TORCH_CUDNN_SDPA_DEPRIORITIZED`` moves it back, which is not looked at.

Source: torch ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`` (``check_prefer_cudnn_attention``,
``priority_order``, ``check_cudnn_tensor_shapes``), metadata of the wheels of 2.8.0 to 2.11.0;
pytorch/pytorch #138522 (2.5.1), #162073 and #165801 (2.9), #173677 (2.10), #170800 (capability 10.3);
huggingface/transformers #48163 (what changes at 2.11).
"""

from msgspec import Struct

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing import spreads
from tuner.timing.cards import is_whole_hopper
from tuner.versions import at_least

_SINCE = "2.11.0"  # whose wheels bring a cuDNN that is new enough
_BY_BUILD = "2.10.0"  # it depends on the CUDA of the wheel
_BUILT_WITH = "2.9.0"  # it depends on the cuDNN that the wheel was built with
_ONCE = "2.5.0"  # taken back in the next release
_CAPABILITIES = ("sm_90", "sm_100", "sm_103")
_WIDEST = 128  # dimensions of a head, beyond which cuDNN needs to be newer still

Both = tuple[float, float]  # forward, backward


class MaskKernel(Struct, frozen=True, kw_only=True):
    """Shares of flash attention's rate that attention with a mask reaches, forward and backward."""

    typical: Both
    slowest: Both
    fastest: Both
    copies_mask: bool  # into rows that begin at multiples of 16 bytes, where they do not


_EFFICIENT = MaskKernel(
    typical=assume.MEMORY_EFFICIENT_SHARE,
    slowest=spreads.MEMORY_EFFICIENT[0],
    fastest=spreads.MEMORY_EFFICIENT[1],
    copies_mask=True,
)
_ELSEWHERE = MaskKernel(
    typical=assume.MASKED_ATTENTION_SHARE,
    slowest=spreads.MASKED_ATTENTION[0],
    fastest=spreads.MASKED_ATTENTION[1],
    copies_mask=True,
)
_CUDNN = MaskKernel(
    typical=assume.CUDNN_MASKED_SHARE,
    slowest=spreads.CUDNN_MASKED[0],
    fastest=spreads.CUDNN_MASKED[1],
    copies_mask=False,
)


def mask_kernel(gpu: Gpu, torch: str, *, head_dim: float, dtype: DType) -> MaskKernel:
    """The kernel of a job; where it cannot be known, what lies between both.

    On a card whose kernels nobody measured the interval of cuDNN's reaches down to the other one's.

    Args:
        gpu: the card.
        torch: its version; empty where nobody says.
        head_dim: of queries, keys and values.
        dtype: of these.
    """
    hopper = is_whole_hopper(gpu)
    efficient = _EFFICIENT if hopper else _ELSEWHERE
    prefers = prefers_cudnn(gpu, torch, head_dim=head_dim, dtype=dtype)
    if prefers is False:
        return efficient
    if prefers and hopper:
        return _CUDNN
    return MaskKernel(
        typical=_CUDNN.typical if prefers else _between(efficient.typical, _CUDNN.typical),
        slowest=_least(efficient.slowest, _CUDNN.slowest),
        fastest=_most(efficient.fastest, _CUDNN.fastest),
        copies_mask=not prefers,
    )


def prefers_cudnn(gpu: Gpu, torch: str, *, head_dim: float, dtype: DType) -> bool | None:
    """Whether PyTorch takes cuDNN's attention before others; None where that is not known.

    Args:
        gpu: the card.
        torch: its version, with the CUDA of its wheel where that is said (``2.10.0+cu130``).
        head_dim: of queries, keys and values.
        dtype: of these.
    """
    if gpu.architecture not in _CAPABILITIES or dtype not in (DType.BFLOAT16, DType.FLOAT16):
        return False
    if not torch:
        return None
    release, _, build = torch.partition("+")
    if at_least(release, _SINCE):
        return None if build.startswith("cu12") or head_dim > _WIDEST else True
    if head_dim > _WIDEST:
        return False
    if at_least(release, _BY_BUILD) and build:
        return build.startswith("cu13")
    return None if at_least(release, _BUILT_WITH) or release in ("2.5", _ONCE) else False


def _between(one: Both, other: Both) -> Both:
    """Shares whose seconds lie in the middle of those of both."""
    return 2 / (1 / one[0] + 1 / other[0]), 2 / (1 / one[1] + 1 / other[1])


def _least(one: Both, other: Both) -> Both:
    return min(one[0], other[0]), min(one[1], other[1])


def _most(one: Both, other: Both) -> Both:
    return max(one[0], other[0]), max(one[1], other[1])
