"""How new weights reach the rollout engine."""

from msgspec import Struct

from tuner.dtypes import DType


class WeightSync(Struct, frozen=True, kw_only=True):
    """How new weights travel from the trainer to the rollout engine."""

    bucket_bytes: int
    gathers_whole_model: bool  # every full tensor at once instead of one after the other
    smallest_bucket_bytes: int = 0  # releases that refuse a tensor larger than the bucket; 0 without limit
    empties_cache_first: bool = True  # the trainer gives freed memory back before the engine's weights return
    sent_dtype: DType | None = None  # gathered tensors are cast to this before they travel; None: as stored
    buckets: int = 1  # buffers of ``bucket_bytes`` on the trainer's side
    engine_buckets: int = 0  # copies of a bucket that the engine makes on the same card
    stages_weights: bool = True  # offloaded weights come back as a whole, not tensor by tensor
    offloads_first: bool = True  # offloaded weights leave the card again before the transfer, not after it
    resumes_first: bool = True  # the engine's weights are mapped before the trainer gathers its own
    loads_on_host: bool = False  # new weights are put together on the host, and moved at the end
    keeps_loaded: bool = False  # offloaded weights stay on the card after the transfer
