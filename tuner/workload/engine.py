"""How a trainer engine shards one model, and what it keeps and computes in."""

from typing import Annotated

from msgspec import Struct

from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED


class Backend(Enum):
    """How a trainer engine shards a model."""

    FSDP = "fsdp"
    FSDP2 = "fsdp2"
    MEGATRON = "megatron"
    NOT_MODELLED = "not_modelled"  # by a library of which no bytes and no seconds are known


class Checkpointing(Enum):
    """Which activations are recomputed in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"  # attention core only (Megatron)
    FULL = "full"  # every layer from its input


class Padding(Enum):
    """To which length sequences are padded that are not packed."""

    MAXIMUM = "maximum"  # of prompt and response
    MICRO_BATCH = "micro_batch"  # the longest of a micro-batch
    MINI_BATCH = "mini_batch"  # the longest of all that a rank has in a mini-batch, or in a forward-only pass


class Attention(Enum):
    """Which tokens of a row attention pairs under FSDP."""

    SEQUENCES = "sequences"  # those of one sequence, by FlashAttention
    MASKED_ROWS = "masked_rows"  # all of the row, of which a mask takes out most
    CAUSAL_ROWS = "causal_rows"  # all of the row, as if it were one sequence
    EAGER_ROWS = "eager_rows"  # all of the row, step by step: the probabilities of every head are kept


class Dispatcher(Enum):
    """How Megatron brings tokens to their experts."""

    ALL_TO_ALL = "alltoall"
    ALL_GATHER = "allgather"
    FLEX = "flex"  # DeepEP's kernels


class HostCopy(Enum):
    """How weights that are offloaded leave for the host, which decides how fast they do and come back."""

    PINNED = "page_locked"  # into page-locked memory that the steps before have used
    PAGEABLE = "pageable"  # into memory that nobody has touched, by copies that wait
    REPINNED = "pageable_then_page_locked"  # the same, and from there into page-locked memory


class Lora(Struct, frozen=True, kw_only=True):
    """Low-rank adapters; the base model is frozen."""

    rank: int
    parameters: int  # of all adapters together
    merged_for_rollout: bool = False  # the engine gets full weights, not adapters
    stays_float32: Annotated[bool, UNPUBLISHED] = False  # whatever the base is stored in
    matrices: Annotated[int, UNPUBLISHED] = 0  # of all adapters: two for each linear module


class Parallelism(Struct, frozen=True, kw_only=True):
    """How the GPUs of one role divide a model and its tokens.

    FSDP uses ``shard`` and ``ulysses``, and ``expert`` under VeOmni; Megatron uses the others. Unused ones
    are 1.
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


class SecondFsdp(Struct, frozen=True, kw_only=True):
    """What a release makes of an engine under FSDP1 if FSDP2 shards it, as fields of that engine."""

    keeps_root: bool
    frees_root: bool
    prefetch_effective: bool
    separate_embedding_units: bool
    reshard_after_forward: bool
    host_copy: HostCopy = HostCopy.PINNED


class TokenBytes(Struct, frozen=True, kw_only=True):
    """What a trainer's micro-batch has beside activations, in bytes for each token."""

    whole: int = 0  # of the fields and the loss of a sequence, all of which each of its ranks has
    share: int = 0  # of labels and results of the head, which a rank has of its own tokens


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
    padding: Padding = Padding.MAXIMUM  # where sequences are not packed
    bucket_tokens: int = (
        1  # a packed micro-batch is padded to a multiple of it, before ranks share its tokens
    )
    packable: bool = True  # False where another setting needs padding, and packing would undo what it gains
    packing_tested: bool = True  # False where the trainer's documentation does not name the model's family
    activation_offload: bool = False
    param_offload: bool = False  # to the host between passes
    host_copy: HostCopy = HostCopy.PINNED
    collects_garbage: bool = True  # Megatron: each time weights or states move to the host or back
    optimizer_offload: bool = False
    optimizer_copy: Annotated[HostCopy, UNPUBLISHED] = HostCopy.PINNED  # how moments that are offloaded leave
    stays_between: Annotated[bool, UNPUBLISHED] = False  # offloaded weights stay for all passes of a step
    keeps_main_weights: Annotated[bool, UNPUBLISHED] = False  # Megatron: its optimizer's, where moments leave
    streamed_offload: bool = False  # CPU offload policy: weights fetched unit by unit, states on the host
    optimizer_offload_fraction: float = 0.0  # share of a Megatron optimizer that lives on the host
    distributed_optimizer: bool = True  # Megatron: optimizer states sharded over data parallelism
    main_weight_bytes: int = (
        4  # Megatron's main weight beside a parameter; 2 where it holds the lower half only
    )
    main_weights_offloaded: bool = True  # the fraction of a Megatron optimizer on the host takes them along
    fused_weight_gradients: bool = False  # Megatron: added to the gradient buffer as they are computed
    fused_rotary: bool = False  # Megatron: one kernel rotates queries and keys and keeps no tables per layer
    rotates_each: bool = False  # Megatron without it: those of each sequence by themselves
    offsets_gated: bool = False  # Megatron, activation not fused: what a gate multiplies is offset first
    cast_weight_bytes: Annotated[int, UNPUBLISHED] = 0  # Megatron: of 8-bit copies of each weight, kept
    dispatcher: Dispatcher = Dispatcher.ALL_TO_ALL  # Megatron: how tokens get to their experts
    tokens_travel: Annotated[bool, UNPUBLISHED] = (
        False  # FSDP: their way to experts of other ranks is counted
    )
    stacks_experts: bool = False  # Megatron: the experts of a layer are one tensor where they leave it
    divides_sequence: bool = True  # Megatron: what tensor parallelism leaves whole is divided by tokens
    frees_stage_outputs: bool = False  # Megatron: a stage frees what it has sent on
    recompute_layers: int = 1  # layers recomputed at once under full checkpointing (Megatron)
    recompute_first_layers: int | None = (
        None  # of each stage, the others keep everything; None: all (Megatron)
    )
    reshard_after_forward: bool = True
    keeps_root: bool = False  # FSDP2 before torch 2.8: the root unit stays gathered until the backward pass
    takes_steps: bool = True  # False: it never updates, so that no optimizer has moments
    keeps_inputs: bool = False  # FSDP, LoRA: embedded tokens are held until the optimizer steps
    frees_root: bool = False  # the release reshards the root unit itself after a forward-only pass
    forward_prefetch: bool = False
    prefetch_effective: bool = True  # False where this release ignores the switch
    deferred_gradient_sync: bool = False
    separate_embedding_units: bool = False  # FSDP2: the head is a unit of its own, as the embedding always is
    whole_root: bool = False  # FSDP2: the embedding is no unit of its own, the root has it
    fused_optimizer: bool = False  # FSDP: one kernel makes AdamW's step of a tensor, and allocates nothing
    optimizer_fusable: Annotated[bool, UNPUBLISHED] = False  # FSDP: the release hands that on to PyTorch
    fused_layers: bool = False  # Liger's RMSNorm, SwiGLU and RoPE
    frozen_tower: bool = False  # FSDP: the vision tower has no gradients
    idle_tower: bool = False  # FSDP: no image reaches the vision tower, which is not run without one
    repeats_keys: bool = False  # packed or under Ulysses: keys and values are repeated to all heads
    layers_installed: bool = False  # files around the launch install the package that fuses them
    layers_fusable: bool = True  # False where the release's way to put them in breaks the model
    reads_positions: bool = False  # FSDP: in each layer the host asks the GPU where sequences begin
    attention: Annotated[Attention, UNPUBLISHED] = Attention.SEQUENCES
    attention_settable: Annotated[bool, UNPUBLISHED] = False  # a key asks for the one that runs
    flash_brought: Annotated[bool, UNPUBLISHED] = False  # flash-attn is there for another reason already
    packs_by_flash: Annotated[bool, UNPUBLISHED] = (
        False  # packing takes flash-attn, which nothing shows is there
    )
    bare_single_rows: Annotated[bool, UNPUBLISHED] = False  # packed rows of one sequence have no mask
    dense_rows: Annotated[int | None, UNPUBLISHED] = None  # causal rows this long have a mask of all pairs
    torch: Annotated[str, UNPUBLISHED] = ""  # its version, where rows are paired; empty: nobody says
    loops_experts: bool = False  # FSDP: routed experts run one after the other, not in grouped products
    keeps_loaded_experts: Annotated[bool, UNPUBLISHED] = False  # FSDP: the host memory they were loaded with
    lora: Lora | None = None
    second: SecondFsdp | None = None  # None: not under FSDP1, or FSDP2 is not to be had in its place
    recomputes_parts: bool = False  # Megatron: of its own choice, which are taken for the attention core
    wraps_otherwise: bool = False  # FSDP: units of a policy of the user's, which are taken for layers
    plan_lowers: bool = False  # FSDP turbo: a plan of the user's, which takes no more than FSDP2's own units
    mtp_module: bool = False  # Megatron: the last stage has a module that predicts a further token
    mtp_trained: bool = False  # and a loss of its own
    title: Annotated[str, UNPUBLISHED] = ""  # what it is called, where the backend does not say it
    library: str = ""  # that runs the model, where the backend is not modelled; all else says nothing then
    token_bytes: Annotated[TokenBytes, UNPUBLISHED] = TokenBytes()

    @property
    def name(self) -> str:
        """What the engine is called: how it shards, and by which library where that is not PyTorch's own."""
        return self.title or self.library or self.backend.value

    @property
    def modelled(self) -> bool:
        """Whether it is known what the engine takes."""
        return self.backend is not Backend.NOT_MODELLED

    @property
    def trains_tower(self) -> bool:
        """Whether a vision tower has gradients of its own, adapters apart."""
        return not (self.frozen_tower or self.idle_tower)

    def masks_rows(self, row_tokens: float) -> bool:
        """Whether attention pairs all tokens of rows of a length, under a mask."""
        if self.attention is Attention.CAUSAL_ROWS:
            return self.dense_rows is not None and row_tokens >= self.dense_rows
        return self.attention in (Attention.MASKED_ROWS, Attention.EAGER_ROWS)

    @property
    def trains_all_parameters(self) -> bool:
        """False for LoRA, where only the adapters have gradients."""
        return self.lora is None
