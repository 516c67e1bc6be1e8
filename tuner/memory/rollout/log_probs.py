r"""Log-probabilities that the engine returns: at most how much they take, of which nothing is counted.

Symbols: :math:`s` sequences sampled at once, :math:`V` vocabulary.
"""

from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.workload import RolloutEngine, Workload

SYMBOLS = {
    "g": "1 where a row of the vocabulary is kept for each sequence, 0 where none is",
    "s": "sequences sampled at once",
}

_KEPT = Constant(
    low=0, typical=0, high=1, source="none where the sampler's own tensors are reused, else one for all"
)


def row_bytes(*, g: int, s: int, V: int) -> int:
    """The log-softmax of all logits in float32, which lives until the token is sampled, at most.

    Source: vLLM ``v1/sample/sampler.py`` (``compute_logprobs``), SGLang ``srt/layers/sampler.py``.
    """
    return g * 4 * s * V


def engine_log_probs(workload: Workload) -> Term | None:
    """What returning log-probabilities may add while the engine generates, None where none are asked for."""
    rollout = workload.generator
    if not rollout.returns_log_probs or rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    numbers = {"s": min(rollout.max_sequences, rollout.step_tokens), "V": workload.model.vocab}
    return heuristic(Item.ENGINE, "engine_log_probs", row_bytes, {"g": _KEPT}, numbers)
