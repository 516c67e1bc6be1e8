"""What the rollout engines are called: by people, and by the package index."""

from tuner.workload import RolloutEngine

NAMES = {
    RolloutEngine.VLLM: "vLLM",
    RolloutEngine.SGLANG: "SGLang",
    RolloutEngine.TENSORRT_LLM: "TensorRT-LLM",
}
PACKAGES = {
    RolloutEngine.VLLM: "vllm",
    RolloutEngine.SGLANG: "sglang",
    RolloutEngine.TENSORRT_LLM: "tensorrt_llm",
}
