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


def engine_of_own_rollout(settings: Settings, name: str) -> RolloutEngine | None:
    """The engine that a copy of verl builds a rollout of its own on: vLLM for ``vllm_with_tool``.

    Args:
        settings: of the job, which know the copy's code.
        name: of the rollout, empty where it has none.
    """
    has = settings.has_statement
    if name in ENGINES or has is None:
        return None
    word = next((word for word in ENGINES if name.startswith(f"{word}_")), None)
    return ENGINES[word] if word is not None and has(f"rollout name {name}", "workers") else None
