"""Which functions of the trainer each key acts through, and the words in them that a proposal rests on.

A word is required of a copy's function where the release's own has it: ``rearrange_micro_batches`` of an
update whose batches are dynamic. ``a|b`` are two spellings of one thing.
"""

from msgspec import Struct

from tuner.trainers.verl.code_of_keys.megatron_functions import (
    MEGATRON_BUILD,
    MEGATRON_FORWARD,
    MEGATRON_LOG_PROB,
    MEGATRON_OF_ACTOR,
    MEGATRON_OF_REFERENCE,
    MEGATRON_OFFLOAD,
    MEGATRON_PASSES,
    MEGATRON_ROLLOUT,
    MEGATRON_UPDATE,
)
from tuner.trainers.verl.code_of_keys.rollout_functions import BY_ENGINE, ENGINES, GENERATES
from tuner.trainers.verl.code_of_keys.trainer_function import TrainerFunction, functions_of

_ACTOR, _CRITIC = "workers/actor/dp_actor.py", "workers/critic/dp_critic.py"
_WORKERS, _ENGINE_WORKERS = "workers/fsdp_workers.py", "workers/engine_workers.py"
_ENGINE = "workers/engine/fsdp/transformer_impl.py"
_TRAINER = "trainer/ppo/ray_trainer.py"


class KeyRow(Struct, frozen=True, kw_only=True):
    """Keys that act through the same code, without the section that all workers share."""

    keys: tuple[str, ...]
    functions: tuple[TrainerFunction, ...]
    words: tuple[str, ...]
    in_loop: tuple[str, ...] = ()  # words of the trainer's loop
    by_size: bool = False  # rests on what a micro-batch takes: what a copy keeps besides would be missing
    at_model: bool = False  # every call of the model asks for it

    @property
    def rests(self) -> tuple[tuple[TrainerFunction, tuple[str, ...]], ...]:
        """The functions, each with the words that count there."""
        loop = ((one, self.in_loop) for one in (_FIT if self.in_loop else ()))
        generating = ((one, BY_ENGINE) for one in (GENERATES if self.of_rollout else ()))
        return (*((one, self.words) for one in self.functions), *loop, *generating)

    @property
    def of_rollout(self) -> bool:
        """Whether its keys act through the engine alone, which then has to generate the answers."""
        return self.functions[:1] in (_ROLLOUT[:1], ENGINES[:1])


_WORKER, _HEAD = "ActorRolloutRefWorker", "FSDPEngineWithLMHead"
_UPDATE = (
    *functions_of(_ACTOR, "DataParallelPPOActor.update_policy", False),
    *functions_of(_ENGINE_WORKERS, "TrainingWorker.train_batch", True),
    *MEGATRON_UPDATE,
)
_LOG_PROB = (
    *functions_of(_ACTOR, "DataParallelPPOActor.compute_log_prob", False),
    *functions_of(_ENGINE_WORKERS, "TrainingWorker.infer_batch", True),
    *MEGATRON_LOG_PROB,
)
_PASSES = (*functions_of(_ENGINE, "FSDPEngine.forward_backward_batch", True), *MEGATRON_PASSES)
_OF_ACTOR = (*functions_of(_WORKERS, f"{_WORKER}.compute_log_prob", False), *MEGATRON_OF_ACTOR)
_OF_REFERENCE = (*functions_of(_WORKERS, f"{_WORKER}.compute_ref_log_prob", False), *MEGATRON_OF_REFERENCE)
_FORWARD = (
    *functions_of(_ACTOR, "DataParallelPPOActor._forward_micro_batch", False),
    *functions_of(
        _ENGINE, f"{_HEAD}.prepare_model_inputs {_HEAD}.prepare_model_outputs {_HEAD}.forward_step", True
    ),
    *MEGATRON_FORWARD,
)
_BUILD = (
    *functions_of(_WORKERS, f"{_WORKER}._build_model_optimizer", False),
    *functions_of(_ENGINE, "FSDPEngine._build_module FSDPEngine._build_fsdp_module", True),
    *MEGATRON_BUILD,
)
_OFFLOAD = (
    *functions_of(_WORKERS, f"{_WORKER}.__init__ {_WORKER}.update_actor", False),
    *functions_of(_ENGINE, "FSDPEngine.__init__ FSDPEngine.to", True),
    *MEGATRON_OFFLOAD,
)
_ROLLOUT = (
    *functions_of(_WORKERS, f"{_WORKER}._build_rollout", False),
    *functions_of(_ENGINE_WORKERS, f"{_WORKER}.init_model", True),
    *MEGATRON_ROLLOUT,
)
_SLEEP = (
    *functions_of("workers/sharding_manager/fsdp_vllm.py", "FSDPVLLMShardingManager.__enter__", False),
    *functions_of("workers/sharding_manager/fsdp_vllm.py", "FSDPVLLMShardingManager.__exit__", False),
    *functions_of(_WORKERS, f"{_WORKER}.rollout_mode {_WORKER}.trainer_mode", False),
    *functions_of(_ENGINE_WORKERS, f"{_WORKER}.update_weights", True),
)
_FIT = functions_of(_TRAINER, "RayPPOTrainer.fit")
_CRITIC_UPDATE = functions_of(_CRITIC, "DataParallelPPOCritic.update_critic", False)
_CRITIC_VALUES = functions_of(_CRITIC, "DataParallelPPOCritic.compute_values", False)
_CRITIC_FORWARD = functions_of(_CRITIC, "DataParallelPPOCritic._forward_micro_batch", False)
_CRITIC_BUILD = functions_of(_WORKERS, "CriticWorker._build_critic_model_optimizer", False)

_CALLS = (
    *("_forward_micro_batch", "backward", "prepare_micro_batches", "forward_step"),
    "forward_backward_batch|train_batch|infer_batch",
)
_SPLITS = ("split|chunk", "ppo_micro_batch_size_per_gpu|ppo_micro_batch_size", "micro_batch_size_per_gpu")
_BUDGETS = ("rearrange_micro_batches|prepare_dynamic_batch", "use_dynamic_bsz")
_LENGTHS = (
    "ppo_max_token_len_per_gpu",
    "max_token_len_per_gpu",
    "infer_max_token_len_per_gpu",
    "max_token_len",
)
_SIZES = ("log_prob_micro_batch_size_per_gpu|log_prob_micro_batch_size", "infer_micro_batch_size_per_gpu")
_LOG_LENGTHS = ("log_prob_max_token_len_per_gpu", "log_prob_use_dynamic_bsz", *_LENGTHS)
_SLEEPS = (
    "sleep|offload_model_weights",
    "wake_up|load_model_weights|sync_model_weights",
    "release",
    "resume",
)

ROWS = (
    KeyRow(
        keys=("actor.ppo_micro_batch_size_per_gpu", "actor.ppo_micro_batch_size"),
        functions=(*_UPDATE, *_PASSES, *_FORWARD),
        words=(*_CALLS, *_SPLITS),
        by_size=True,
    ),
    KeyRow(
        keys=("actor.use_dynamic_bsz", "actor.ppo_max_token_len_per_gpu"),
        functions=(*_UPDATE, *_PASSES, *_FORWARD),
        words=(*_CALLS, *_BUDGETS, *_LENGTHS),
        by_size=True,
    ),
    KeyRow(
        keys=("rollout.log_prob_micro_batch_size_per_gpu", "rollout.log_prob_micro_batch_size"),
        functions=(*_LOG_PROB, *_PASSES, *_FORWARD, *_OF_ACTOR),
        words=("_forward_micro_batch", "compute_log_prob", "split|chunk", "micro_batch_size", *_SIZES),
        by_size=True,
    ),
    KeyRow(
        keys=("rollout.log_prob_use_dynamic_bsz", "rollout.log_prob_max_token_len_per_gpu"),
        functions=(*_LOG_PROB, *_PASSES, *_FORWARD, *_OF_ACTOR),
        words=("_forward_micro_batch", "compute_log_prob", *_BUDGETS, *_LOG_LENGTHS),
        by_size=True,
    ),
    KeyRow(
        keys=("ref.log_prob_micro_batch_size_per_gpu", "ref.log_prob_micro_batch_size"),
        functions=(*_LOG_PROB, *_PASSES, *_FORWARD, *_OF_REFERENCE),
        words=("_forward_micro_batch", "compute_log_prob", "split|chunk", "micro_batch_size", *_SIZES),
        by_size=True,
    ),
    KeyRow(
        keys=("ref.log_prob_use_dynamic_bsz", "ref.log_prob_max_token_len_per_gpu"),
        functions=(*_LOG_PROB, *_PASSES, *_FORWARD, *_OF_REFERENCE),
        words=("_forward_micro_batch", "compute_log_prob", *_BUDGETS, *_LOG_LENGTHS),
        by_size=True,
    ),
    KeyRow(
        keys=("model.use_remove_padding",),
        functions=(*_FORWARD, *_UPDATE, *_LOG_PROB, *_BUILD),
        words=("use_remove_padding", "unpad_input"),
        at_model=True,
    ),
    KeyRow(
        keys=("model.use_fused_kernels",),
        functions=(*_FORWARD, *_UPDATE, *_LOG_PROB, *_BUILD),
        words=("use_fused_kernels", "apply_monkey_patch"),
        at_model=True,
    ),
    KeyRow(
        keys=("actor.ulysses_sequence_parallel_size", "ref.ulysses_sequence_parallel_size"),
        functions=(*_FORWARD, *_UPDATE, *_LOG_PROB),
        words=("ulysses_pad_and_slice_inputs", "use_ulysses_sp|ulysses_sequence_parallel_size"),
        at_model=True,
    ),
    KeyRow(keys=("model.use_liger",), functions=_BUILD, words=("use_liger",)),
    KeyRow(
        keys=("model.enable_gradient_checkpointing",),
        functions=(*_BUILD, *_FORWARD),
        words=("enable_gradient_checkpointing", "gradient_checkpointing_enable"),
        by_size=True,
    ),
    KeyRow(keys=("actor.fsdp_config.model_dtype",), functions=_BUILD, words=("model_dtype",)),
    KeyRow(keys=("ref.fsdp_config.model_dtype",), functions=_BUILD, words=("model_dtype",)),
    KeyRow(
        keys=("actor.fsdp_config.forward_prefetch", "ref.fsdp_config.forward_prefetch"),
        functions=_BUILD,
        words=("forward_prefetch",),
    ),
    KeyRow(
        keys=("actor.fsdp_config.reshard_after_forward", "ref.fsdp_config.reshard_after_forward"),
        functions=_BUILD,
        words=("reshard_after_forward",),
    ),
    KeyRow(
        keys=("actor.fsdp_config.param_offload", "actor.megatron.param_offload"),
        functions=_OFFLOAD,
        words=(
            *("param_offload", "_is_offload_param", "load_fsdp_model_to_gpu|load_fsdp_param_and_grad"),
            "load_megatron_model_to_gpu",
        ),
    ),
    KeyRow(
        keys=("actor.fsdp_config.optimizer_offload", "actor.megatron.optimizer_offload"),
        functions=_OFFLOAD,
        words=(
            "optimizer_offload",
            "_is_offload_optimizer",
            "load_fsdp_optimizer",
            "load_megatron_optimizer",
        ),
    ),
    KeyRow(
        keys=("rollout.tensor_model_parallel_size",),
        functions=_ROLLOUT,
        words=("tensor_model_parallel_size",),
    ),
    *(
        KeyRow(keys=(f"rollout.{name}",), functions=ENGINES, words=(name,))
        for name in (
            *("enforce_eager", "max_num_batched_tokens", "max_num_seqs"),
            *("enable_chunked_prefill", "max_model_len", "enable_prefix_caching"),
        )
    ),
    KeyRow(
        keys=("rollout.free_cache_engine",),
        functions=_SLEEP,
        words=(*_SLEEPS, "free_cache_engine"),
        in_loop=("sleep_replicas",),
    ),
    KeyRow(  # what the engine keeps in the trainer's phases
        keys=("rollout.gpu_memory_utilization",),
        functions=(*ENGINES, *_SLEEP),
        words=(*_SLEEPS, "gpu_memory_utilization"),
        in_loop=("sleep_replicas",),
    ),
    KeyRow(keys=("actor.use_kl_loss",), functions=_UPDATE[:1], words=("use_kl_loss",)),
    KeyRow(
        keys=("actor.entropy_checkpointing",),
        functions=_FORWARD,
        words=("entropy_checkpointing",),
    ),
    KeyRow(keys=("trainer.balance_batch",), functions=(), words=(), in_loop=("balance_batch",)),
    KeyRow(
        keys=("critic.ppo_micro_batch_size_per_gpu", "critic.ppo_micro_batch_size"),
        functions=(*_CRITIC_UPDATE, *_CRITIC_FORWARD),
        words=(*_CALLS, *_SPLITS),
        by_size=True,
    ),
    KeyRow(
        keys=("critic.use_dynamic_bsz", "critic.ppo_max_token_len_per_gpu"),
        functions=(*_CRITIC_UPDATE, *_CRITIC_FORWARD),
        words=(*_CALLS, *_BUDGETS, *_LENGTHS),
        by_size=True,
    ),
    KeyRow(
        keys=(
            *("critic.forward_micro_batch_size_per_gpu", "critic.forward_micro_batch_size"),
            "critic.forward_max_token_len_per_gpu",
        ),
        functions=(*_CRITIC_VALUES, *_CRITIC_FORWARD),
        words=("_forward_micro_batch", "split|chunk", "micro_batch_size"),
        by_size=True,
    ),
    KeyRow(
        keys=("critic.model.use_remove_padding",),
        functions=(*_CRITIC_FORWARD, *_CRITIC_BUILD, *_CRITIC_UPDATE, *_CRITIC_VALUES),
        words=("use_remove_padding", "unpad_input"),
        at_model=True,
    ),
    KeyRow(
        keys=("critic.model.enable_gradient_checkpointing",),
        functions=(*_CRITIC_BUILD, *_CRITIC_FORWARD),
        words=("enable_gradient_checkpointing", "gradient_checkpointing_enable"),
        by_size=True,
    ),
)

SHARED = "actor_rollout_ref."


def row_of(key: str) -> KeyRow | None:
    """The row of a key; None of one that is held to no code."""
    return _BY_KEY.get(key.removeprefix(SHARED))


_BY_KEY = {key: row for row in ROWS for key in row.keys}
FUNCTIONS = tuple(dict.fromkeys(function for row in ROWS for function, _words in row.rests))
_GROUPS = (group for row in ROWS for _function, words in row.rests for group in words)
WORDS = frozenset(word for group in _GROUPS for word in group.split("|"))
