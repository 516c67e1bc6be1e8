"""What a reinforcement-learning step does, without a word of any trainer.

A trainer module reads its own configuration into a :class:`Workload`; the memory and time
models and the rules see nothing else. A release's behaviour arrives here as a plain fact
(``hard_limit``, ``scaling``, ``deferred_gradient_sync``), never as a version to compare.

Structs with ``cache_hash`` are keys of caches, looked up far more often than they are made.
"""

from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape


class Phase(Enum):
    """The phases of one step, in order; the values are the trainer's timer names."""

    ROLLOUT = "rollout"
    OLD_LOG_PROB = "old_log_prob"
    REF_LOG_PROB = "ref_log_prob"
    VALUES = "values"
    UPDATE_CRITIC = "update_critic"
    UPDATE_ACTOR = "update_actor"
    UPDATE_WEIGHTS = "update_weights"
    WAKE_UP = "wake_up"


class Backend(Enum):
    """How a trainer engine shards a model."""

    FSDP = "fsdp"
    FSDP2 = "fsdp2"
    MEGATRON = "megatron"


class RolloutEngine(Enum):
    """Inference engine that generates the responses."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "trtllm"
    TRANSFORMERS = "hf"


class FractionOf(Enum):
    """What the rollout engine multiplies its memory fraction by."""

    TOTAL = "total"  # of the card; weights, KV cache and activations live within it
    TOTAL_OF_ALL = "total_of_all"  # of the card; what the trainer holds at the start counts as well
    OWN = "own"  # of the card, for all that the engine adds after its start, communicator and all
    STATIC_POOL = "static_pool"  # of what was free when the engine started, for weights and KV cache only
    FREE_AFTER_WEIGHTS = "free_after_weights"  # of what weights and activations leave, KV cache only


class HeadKind(Enum):
    """How log-probabilities and entropy are computed from the last hidden states."""

    LOGITS = "logits"  # the [tokens, vocab] tensor exists
    FUSED_TORCH = "fused_torch"  # chunks of tokens, logits never whole
    FUSED_TRITON = "fused_triton"  # kernel over vocabulary tiles
    FUSED_LIGER = "fused_liger"
    VALUE = "value"  # a critic's single output column


class Scaling(Enum):
    """What dividing the logits by the temperature does to memory."""

    NONE = "none"
    IN_PLACE = "in_place"
    COPY = "copy"


#: Tokens of a chunk where the entropy is computed in chunks: verl's default, fixed until it had a key.
ENTROPY_CHUNK_TOKENS = 2048


class Checkpointing(Enum):
    """Which activations are recomputed in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"  # attention core only (Megatron)
    FULL = "full"  # every layer from its input


class Quantity(Enum):
    """A setting that decides what fits, whatever a trainer calls it."""

    MAX_PROMPT_TOKENS = "max_prompt_tokens"
    MAX_RESPONSE_TOKENS = "max_response_tokens"
    TOKEN_BUDGET = "token_budget"
    MICRO_BATCH_SEQUENCES = "micro_batch_sequences"
    MEMORY_FRACTION = "memory_fraction"
    PARAM_OFFLOAD = "param_offload"
    OPTIMIZER_OFFLOAD = "optimizer_offload"
    CHECKPOINTING = "checkpointing"
    PACKED = "packed"


class Release(Struct, frozen=True, kw_only=True):
    """A trainer and its version, for messages only."""

    trainer: str
    version: str

    def __str__(self) -> str:
        return f"{self.trainer} {self.version}"


class Lora(Struct, frozen=True, kw_only=True):
    """Low-rank adapters; the base model is frozen."""

    rank: int
    parameters: int  # of all adapters together
    merged_for_rollout: bool = False  # the engine gets full weights, not adapters


class Parallelism(Struct, frozen=True, kw_only=True):
    """How the GPUs of one role divide a model and its tokens.

    FSDP uses ``shard`` and ``ulysses``; Megatron uses the others. Unused ones are 1.
    """

    gpus: int
    shard: int = 1  # ranks that share one copy of the model states
    ulysses: int = 1  # ranks that share one sequence (sequence parallelism)
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    virtual_pipeline: int = 1  # pieces that each pipeline stage is cut into
    first_stage_layers: int | None = None  # None: the layers are dealt out evenly
    last_stage_layers: int | None = None
    stage: int | None = None  # the pipeline stage asked about; None: the one with the largest states

    @property
    def data(self) -> int:
        """Ranks that see different sequences."""
        return max(1, self.gpus // (self.ulysses * self.tensor * self.pipeline * self.context))

    @property
    def sequence_split(self) -> int:
        """Ranks that share the tokens of one sequence."""
        return self.ulysses * self.context


class Engine(Struct, frozen=True, kw_only=True, cache_hash=True):
    """A trainer engine: one model, sharded, with or without an optimizer."""

    backend: Backend
    parallel: Parallelism
    stored_dtype: DType  # sharded weights, as kept between passes
    compute_dtype: DType  # weights and activations inside a layer
    reduce_dtype: DType  # gradients in the reduce-scatter
    optimizer_dtype: DType  # moments (and Megatron's main weights)
    checkpointing: Checkpointing
    packed: bool  # sequences without padding, end to end
    activation_offload: bool = False
    param_offload: bool = False  # to the host between passes
    optimizer_offload: bool = False
    streamed_offload: bool = False  # CPU offload policy: weights fetched unit by unit, states on the host
    optimizer_offload_fraction: float = 0.0  # share of a Megatron optimizer that lives on the host
    distributed_optimizer: bool = True  # Megatron: optimizer states sharded over data parallelism
    main_weight_bytes: int = (
        4  # Megatron's main weight beside a parameter; 2 where it holds the lower half only
    )
    main_weights_offloaded: bool = True  # the fraction of a Megatron optimizer on the host takes them along
    fused_weight_gradients: bool = False  # Megatron: added to the gradient buffer as they are computed
    fused_rotary: bool = False  # Megatron: one kernel rotates queries and keys and keeps no tables per layer
    frees_stage_outputs: bool = False  # Megatron: a stage frees what it has sent on
    recompute_layers: int = 1  # layers recomputed at once under full checkpointing (Megatron)
    recompute_first_layers: int | None = (
        None  # of each stage, the others keep everything; None: all (Megatron)
    )
    reshard_after_forward: bool = True
    keeps_root: bool = False  # FSDP2 before torch 2.8: the root unit stays gathered until the backward pass
    frees_root: bool = False  # the release reshards the root unit itself after a forward-only pass
    forward_prefetch: bool = False
    prefetch_effective: bool = True  # False where this release ignores the switch
    deferred_gradient_sync: bool = False
    separate_embedding_units: bool = False  # FSDP2: the head is a unit of its own, as the embedding always is
    fused_layers: bool = False  # Liger's RMSNorm, SwiGLU and RoPE
    lora: Lora | None = None

    @property
    def trains_all_parameters(self) -> bool:
        """False for LoRA, where only the adapters have gradients."""
        return self.lora is None


class OutputHead(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Everything between the last hidden states and log-probabilities."""

    kind: HeadKind
    compiled: bool = True  # entropy runs through torch.compile
    chunk_tokens: int | None = None  # entropy in chunks of this many tokens
    checkpointed: bool = False  # entropy recomputed in the backward pass
    scaling: Scaling = Scaling.NONE
    logits_dtype: DType = DType.BFLOAT16
    fused_cross_entropy: bool = True  # flash-attn's Triton cross entropy
    # fused kinds that are right for this model, engine and release; a rule proposes no other
    fusable: tuple[HeadKind, ...] = (HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON)


class Batching(Struct, frozen=True, kw_only=True):
    """How many tokens one micro-batch brings to one GPU."""

    dynamic: bool
    token_budget: int  # per GPU, used when dynamic
    micro_batch_sequences: int  # per data-parallel rank, used when not dynamic
    hard_limit: bool = True  # False: the budget only decides how many micro-batches there are


class Pass(Struct, frozen=True, kw_only=True):
    """One kind of pass over a model: forward only, or forward and backward."""

    batching: Batching
    entropy: bool = False


class Actor(Struct, frozen=True, kw_only=True):
    """The policy that is trained."""

    engine: Engine
    head: OutputHead
    update: Pass
    log_prob: Pass | None  # None where the step takes the rollout's own log-probabilities


class Reference(Struct, frozen=True, kw_only=True):
    """The frozen policy of the KL term."""

    engine: Engine
    head: OutputHead
    log_prob: Pass
    separate: bool = True  # False when it is the actor with its adapters switched off


class Critic(Struct, frozen=True, kw_only=True):
    """The value model of PPO with GAE."""

    model: ModelShape
    engine: Engine
    update: Pass
    values: Pass


class CacheSizing(Struct, frozen=True, kw_only=True):
    """How a rollout engine comes to the size of its KV cache."""

    fraction_of: FractionOf
    max_sequences: int
    sampler_bytes: int


class Rollout(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The generation engine, one replica per ``tensor * data * pipeline`` GPUs."""

    engine: RolloutEngine
    engine_version: str = ""  # for messages, and to read the same engine again
    memory_fraction: float
    fraction_of: FractionOf
    checks_free: bool = True  # the engine stops where less than its share of the card is free at its start
    older_core: CacheSizing | None = None  # how the core sizes the cache that its environment can ask for
    tensor_parallel: int
    data_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    weight_dtype: DType = DType.BFLOAT16
    kv_dtype: DType = DType.BFLOAT16
    max_sequences: int
    sequences_adjustable: bool = True  # False where the release leaves max_sequences to the engine
    max_batched_tokens: int
    max_model_tokens: int | None  # None: the model's own limit
    cuda_graphs: bool
    capture_sizes: tuple[int, ...] | None = None  # None: the engine's own list
    chunked_prefill: bool = True
    prefix_caching: bool = True
    frees_memory: bool = True  # sleeps between generations
    sleep_level: int = 2  # 1 keeps the weights on the host, 2 drops them
    sleeps_with_weights: bool = False  # only the KV cache is freed, the weights stay on the card
    sleeps_with_cache: bool = False  # only the weights are freed, the KV cache stays on the card
    pins_copy: bool = True  # weights kept on the host lie in pinned memory
    swap_bytes: int = 0  # pinned host memory of one GPU, for cache blocks of preempted sequences
    staged_wake_up: bool = True  # the KV cache comes back after new weights, not together with the old ones
    own_process: bool = True  # False: the engine runs in the trainer's process and shares its context
    counts_graphs: bool = False  # CUDA graphs are estimated beforehand and taken from the KV cache
    sampler_bytes: int = 10  # per logit of the sequences that are sampled at once, while the engine is sized
    tunes_at_start: bool = False  # times kernels on a copy of the embedding while it compiles
    block_tokens: int = 16  # tokens of one block of the KV cache
    frees_windows: bool = True  # layers with a sliding window give blocks back that left the window
    state_dtype: DType = DType.BFLOAT16  # of the states of linear attention
    overlaps_scheduling: bool = True  # the host prepares a step while the GPU computes the one before
    log_stats: bool = False
    colocated: bool = True  # on the same GPUs as the trainer
    gpus: int

    @property
    def replica_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel * self.data_parallel * self.pipeline_parallel

    @property
    def replicas(self) -> int:
        """Copies of the model that generate side by side."""
        return max(1, self.gpus // self.replica_gpus)


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


class Batch(Struct, frozen=True, kw_only=True):
    """Sizes of one training step. Prompt counts are global, lengths are maxima."""

    prompts: int
    responses_per_prompt: int
    mini_batch_prompts: int
    epochs: int
    max_prompt_tokens: int
    max_response_tokens: int

    @property
    def sequence_tokens(self) -> int:
        """The longest possible sequence: prompt and response."""
        return self.max_prompt_tokens + self.max_response_tokens

    @property
    def sequences(self) -> int:
        """Sequences of one step, over all GPUs."""
        return self.prompts * self.responses_per_prompt

    @property
    def mini_batch_sequences(self) -> int:
        """Sequences of one optimizer step, over all GPUs."""
        return min(self.mini_batch_prompts, self.prompts) * self.responses_per_prompt


class Workload(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One reinforcement-learning job, as far as memory and time depend on it."""

    release: Release
    model: ModelShape
    cluster: Cluster
    batch: Batch
    actor: Actor
    reference: Reference | None
    critic: Critic | None
    rollout: Rollout
    sync: WeightSync

    def with_batch(self, **changes: Any) -> "Workload":
        """A copy with other batch sizes."""
        return replace(self, batch=replace(self.batch, **changes))

    def with_rollout(self, **changes: Any) -> "Workload":
        """A copy with another rollout."""
        return replace(self, rollout=replace(self.rollout, **changes))

    def with_actor(self, **changes: Any) -> "Workload":
        """A copy with another actor."""
        return replace(self, actor=replace(self.actor, **changes))

    def with_actor_engine(self, **changes: Any) -> "Workload":
        """A copy with another actor engine."""
        engine = replace(self.actor.engine, **changes)
        return self.with_actor(engine=engine)

    def with_actor_head(self, **changes: Any) -> "Workload":
        """A copy with another output head of the actor."""
        head = replace(self.actor.head, **changes)
        return self.with_actor(head=head)

    def with_reference(self, **changes: Any) -> "Workload":
        """A copy with another reference; the workload must have one."""
        if self.reference is None:
            raise ValueError("the workload has no reference")
        return replace(self, reference=replace(self.reference, **changes))

    def with_critic(self, **changes: Any) -> "Workload":
        """A copy with another critic; the workload must have one."""
        if self.critic is None:
            raise ValueError("the workload has no critic")
        return replace(self, critic=replace(self.critic, **changes))
