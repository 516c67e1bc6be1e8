"""The functions by which verl starts its rollout engines, and those of SGLang's rollout that generate."""

from tuner.trainers.verl.code_of_keys.trainer_function import functions_of

_SGLANG, _VLLM = "workers/rollout/sglang_rollout", "workers/rollout/vllm_rollout"

ENGINES = (
    *functions_of(f"{_VLLM}/vllm_rollout.py", "vLLMRollout.__init__"),
    *functions_of(f"{_VLLM}/vllm_rollout_spmd.py", "vLLMRollout.__init__"),
    *functions_of(
        f"{_VLLM}/vllm_async_server.py", "AsyncvLLMServer.init_engine vLLMHttpServer.launch_server"
    ),
    *functions_of(
        f"{_SGLANG}/sglang_rollout.py", "SGLangRollout.__init__ SGLangRollout._init_inference_engine"
    ),
    *functions_of(f"{_SGLANG}/async_sglang_server.py", "SGLangHttpServer.launch_server"),
)
GENERATES = functions_of(
    f"{_SGLANG}/sglang_rollout.py",
    "SGLangRollout.generate_sequences SGLangRollout._batch_level_generate_sequences "
    "SGLangRollout._req_level_generate_sequences",
)
#: By which SGLang's loops hand sequences to the engine: its own methods, or one another.
BY_ENGINE = (
    "_engine|inference_engine|_batch_level_generate_sequences|generate|async_generate|_async_rollout_requests",
)
