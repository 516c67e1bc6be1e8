"""The words that choose what generates: those of a release, and those that a copy of verl builds on them."""

from tuner.inputs.settings import Settings
from tuner.workload import RolloutEngine

NAME_KEY = "actor_rollout_ref.rollout.name"
#: By the words that a release takes.
ENGINES = {
    "vllm": RolloutEngine.VLLM,
    "sglang": RolloutEngine.SGLANG,
    "sglang_async": RolloutEngine.SGLANG,
    "trtllm": RolloutEngine.TENSORRT_LLM,
    "hf": RolloutEngine.TRANSFORMERS,
}
#: Words of the statements of workers that know a rollout's name, which stands behind them.
_KNOWN_BY = ("rollout name", "_ROLLOUT_REGISTRY")


def engine_of_own_rollout(settings: Settings, name: str) -> RolloutEngine | None:
    """The engine that a copy of verl builds a rollout of its own on: vLLM for ``vllm_with_tool``.

    Its workers compare the name with that, or have it in the table by which releases since 0.6 take a class.

    Source: verl 0.6.0 ``workers/rollout/base.py`` (``_ROLLOUT_REGISTRY``, by pairs of a name and a mode).

    Args:
        settings: of the job, which know the copy's code.
        name: of the rollout, empty where it has none.
    """
    has = settings.has_statement
    if name in ENGINES or has is None:
        return None
    word = next((word for word in ENGINES if name.startswith(f"{word}_")), None)
    known = word is not None and any(has(f"{words} {name}", "workers") for words in _KNOWN_BY)
    return ENGINES[word] if word is not None and known else None
