"""How a failed allocation is published, with the tensors that it can have been."""

from tuner.advise.allocation import Explanation, TensorMatch
from tuner.render.publication import publish

publish(
    TensorMatch,
    "CandidateReport",
    *("name", "what", "made_by", "item", "phases", "formula", "confidence", "tokens", "low_tokens"),
    *("high_tokens", "full_tokens", "advice"),
    text="A tensor that has the size of a failed allocation.",
)
publish(
    Explanation,
    "AllocationReport",
    *("text", "low_bytes", "high_bytes", "free_bytes", "unused_bytes", "candidates", "standing"),
    defaults={"standing": None},
)
