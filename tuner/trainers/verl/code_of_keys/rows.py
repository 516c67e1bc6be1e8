"""Which functions of the trainer each key acts through, and the words in them that a proposal rests on.

A word is required of a copy's function where the release's own has it: ``rearrange_micro_batches`` of an
update whose batches are dynamic. ``a|b`` are two spellings of one thing.
"""

from msgspec import Struct

_ACTOR, _CRITIC = "workers/actor/dp_actor.py", "workers/critic/dp_critic.py"
_WORKERS, _ENGINE_WORKERS = "workers/fsdp_workers.py", "workers/engine_workers.py"
_ENGINE = "workers/engine/fsdp/transformer_impl.py"
_SGLANG = "workers/rollout/sglang_rollout"
_VLLM, _TRAINER = "workers/rollout/vllm_rollout", "trainer/ppo/ray_trainer.py"


class TrainerFunction(Struct, frozen=True, kw_only=True):
    """A function of a class of the trainer, whatever releases have it."""

    file: str  # below the package
    owner: str  # its class
    name: str
    engine: bool | None = None  # whether the model engines run it, or the legacy workers; None: both

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return f"{self.file}:{self.owner}.{self.name}"

    @property
    def engines(self) -> frozenset[str]:
        """The engines that it is for, of the trainer and of the rollout; none where it serves any."""
        words = {"fsdp": ("fsdp", "/dp_"), "vllm": ("vllm",), "sglang": ("sglang",)}
        return frozenset(name for name, parts in words.items() if any(part in self.file for part in parts))


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
        loop = _FIT if self.in_loop else ()
        return (*((one, self.words) for one in self.functions), *((one, self.in_loop) for one in loop))


def _functions(file: str, names: str, engine: bool | None = None) -> tuple[TrainerFunction, ...]:
    pairs = (name.split(".") for name in names.split())
    return tuple(TrainerFunction(file=file, owner=owner, name=name, engine=engine) for owner, name in pairs)


_WORKER = "ActorRolloutRefWorker"
_UPDATE = (
    *_functions(_ACTOR, "DataParallelPPOActor.update_policy", False),
    *_functions(_ENGINE_WORKERS, "TrainingWorker.train_batch", True),
)
_LOG_PROB = (
    *_functions(_ACTOR, "DataParallelPPOActor.compute_log_prob", False),
    *_functions(_ENGINE_WORKERS, "TrainingWorker.infer_batch", True),
)
_PASSES = _functions(_ENGINE, "FSDPEngine.forward_backward_batch", True)
_OF_ACTOR = _functions(_WORKERS, f"{_WORKER}.compute_log_prob", False)
_OF_REFERENCE = _functions(_WORKERS, f"{_WORKER}.compute_ref_log_prob", False)
_FORWARD = (
    *_functions(_ACTOR, "DataParallelPPOActor._forward_micro_batch", False),
    *_functions(
        _ENGINE, "FSDPEngineWithLMHead.prepare_model_inputs FSDPEngineWithLMHead.prepare_model_outputs", True
    ),
)
_BUILD = (
    *_functions(_WORKERS, f"{_WORKER}._build_model_optimizer", False),
    *_functions(_ENGINE, "FSDPEngine._build_module FSDPEngine._build_fsdp_module", True),
)
_OFFLOAD = (
    *_functions(_WORKERS, f"{_WORKER}.__init__ {_WORKER}.update_actor", False),
    *_functions(_ENGINE, "FSDPEngine.__init__ FSDPEngine.to", True),
)
_ROLLOUT = (
    *_functions(_WORKERS, f"{_WORKER}._build_rollout", False),
    *_functions(_ENGINE_WORKERS, f"{_WORKER}.init_model", True),
)
_ENGINES = (
    *_functions(f"{_VLLM}/vllm_rollout.py", "vLLMRollout.__init__"),
    *_functions(f"{_VLLM}/vllm_rollout_spmd.py", "vLLMRollout.__init__"),
    *_functions(f"{_VLLM}/vllm_async_server.py", "AsyncvLLMServer.init_engine vLLMHttpServer.launch_server"),
    *_functions(
        f"{_SGLANG}/sglang_rollout.py", "SGLangRollout.__init__ SGLangRollout._init_inference_engine"
    ),
    *_functions(f"{_SGLANG}/async_sglang_server.py", "SGLangHttpServer.launch_server"),
)
_SLEEP = (
    *_functions("workers/sharding_manager/fsdp_vllm.py", "FSDPVLLMShardingManager.__enter__", False),
    *_functions("workers/sharding_manager/fsdp_vllm.py", "FSDPVLLMShardingManager.__exit__", False),
    *_functions(_WORKERS, f"{_WORKER}.rollout_mode {_WORKER}.trainer_mode", False),
    *_functions(_ENGINE_WORKERS, f"{_WORKER}.update_weights", True),
)
_FIT = _functions(_TRAINER, "RayPPOTrainer.fit")
_CRITIC_UPDATE = _functions(_CRITIC, "DataParallelPPOCritic.update_critic", False)
_CRITIC_VALUES = _functions(_CRITIC, "DataParallelPPOCritic.compute_values", False)
_CRITIC_FORWARD = _functions(_CRITIC, "DataParallelPPOCritic._forward_micro_batch", False)
_CRITIC_BUILD = _functions(_WORKERS, "CriticWorker._build_critic_model_optimizer", False)

_CALLS = ("_forward_micro_batch", "backward", "prepare_micro_batches", "forward_step")
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
        keys=("actor.fsdp_config.param_offload",),
        functions=_OFFLOAD,
        words=("param_offload", "_is_offload_param", "load_fsdp_model_to_gpu|load_fsdp_param_and_grad"),
    ),
    KeyRow(
        keys=("actor.fsdp_config.optimizer_offload",),
        functions=_OFFLOAD,
        words=("optimizer_offload", "_is_offload_optimizer", "load_fsdp_optimizer"),
    ),
    KeyRow(
        keys=("rollout.tensor_model_parallel_size",),
        functions=_ROLLOUT,
        words=("tensor_model_parallel_size",),
    ),
    *(
        KeyRow(keys=(f"rollout.{name}",), functions=_ENGINES, words=(name,))
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
        functions=(*_ENGINES, *_SLEEP),
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
_GROUPS = (group for row in ROWS for group in (*row.words, *row.in_loop))
WORDS = frozenset(word for group in _GROUPS for word in group.split("|"))
