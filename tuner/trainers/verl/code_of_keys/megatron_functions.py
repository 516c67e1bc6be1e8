"""The functions of verl's Megatron actor, workers and engine that keys act through.

Source: verl 0.3.0.post1 to 0.7.1 ``workers/actor/megatron_actor.py`` and ``workers/megatron_workers.py``;
0.6.0 to 0.9.1 ``workers/engine/megatron/transformer_impl.py``.
"""

from tuner.trainers.verl.code_of_keys.trainer_function import functions_of

_ACTOR, _WORKERS = "workers/actor/megatron_actor.py", "workers/megatron_workers.py"
_ENGINE = "workers/engine/megatron/transformer_impl.py"
_PPO, _WORKER, _HEAD = "MegatronPPOActor", "ActorRolloutRefWorker", "MegatronEngineWithLMHead"

MEGATRON_UPDATE = functions_of(_ACTOR, f"{_PPO}.update_policy", False)
MEGATRON_LOG_PROB = functions_of(_ACTOR, f"{_PPO}.compute_log_prob", False)
MEGATRON_PASSES = functions_of(_ENGINE, "MegatronEngine.forward_backward_batch", True)
MEGATRON_FORWARD = (
    *functions_of(_ACTOR, f"{_PPO}.forward_backward_batch", False),
    *functions_of(_ENGINE, f"{_HEAD}.forward_step {_HEAD}.postprocess_micro_batch_func", True),
)
MEGATRON_BUILD = (
    *functions_of(_WORKERS, f"{_WORKER}._build_model_optimizer", False),
    *functions_of(_ENGINE, "MegatronEngine._build_tf_config MegatronEngine._build_megatron_module", True),
)
MEGATRON_OFFLOAD = (
    *functions_of(_WORKERS, f"{_WORKER}.__init__ {_WORKER}.update_actor", False),
    *functions_of(_ENGINE, "MegatronEngine.__init__ MegatronEngine.to", True),
)
MEGATRON_ROLLOUT = functions_of(_WORKERS, f"{_WORKER}._build_rollout", False)
MEGATRON_OF_ACTOR = functions_of(_WORKERS, f"{_WORKER}.compute_log_prob", False)
MEGATRON_OF_REFERENCE = functions_of(_WORKERS, f"{_WORKER}.compute_ref_log_prob", False)
