"""What a step is made of: its phases, its models, and how new weights reach the rollout engine."""

from typing import Annotated

from msgspec import Struct

from tuner.dtypes import DType
from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED
from tuner.model_shape import ModelShape
from tuner.workload.batch import Pass
from tuner.workload.engine import Engine
from tuner.workload.head import OutputHead


class Phase(Enum):
    """The phases of one step, in order; the values are the trainer's timer names."""

    ROLLOUT = "rollout"
    REWARD = "reward"
    OLD_LOG_PROB = "old_log_prob"
    REF_LOG_PROB = "ref_log_prob"
    VALUES = "values"
    UPDATE_CRITIC = "update_critic"
    UPDATE_ACTOR = "update_actor"
    TRAIN = "train"  # of a job that learns from given sequences
    SAVE_CHECKPOINT = "save_checkpoint"
    UPDATE_WEIGHTS = "update_weights"
    WAKE_UP = "wake_up"


class Saving(Struct, frozen=True, kw_only=True):
    """What a checkpoint of one model holds, and what is gathered for it."""

    weights: bool = True  # as the ranks hold them
    optimizer: bool = True
    whole_model: bool = False  # in the format of its library as well, written by one rank
    gathers_tensors: bool = False  # Megatron: weights are written tensor by tensor, each put together first
    gathers_optimizer: bool = False  # Megatron: every rank gets the optimizer of its slice whole
    gathers_on_host: bool = False  # that by way of the host, and on one rank alone
    joins_weights: bool = False  # Megatron: weights are written as the whole model, not as ranks hold them
    in_background: bool = False  # Megatron: ranks' shares are written while training goes on
    every_steps: int | None = None  # None: at the end of the job alone
    adapters_alone: Annotated[bool, UNPUBLISHED] = (
        False  # FSDP: of a model with adapters the weights are these
    )
    drops_older: Annotated[bool, UNPUBLISHED] = False  # a limit says how many stay on the disk
    may_not_gather: bool = False  # Megatron before 0.14, which the release works with as well, never does


class RouterReplay(Struct, frozen=True, kw_only=True):
    """A sparse model takes the experts that an earlier pass took, which travel with the batch."""

    from_rollout: bool  # the engine's experts, of every layer; False: those of the old log-probabilities
    index_bytes: int  # of one expert's index in the batch
    kept_through_step: bool = False  # indices on the card are freed after the optimizer's step, not before


class Actor(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The policy that is trained."""

    engine: Engine
    head: OutputHead
    update: Pass
    log_prob: Pass | None  # None where the step takes the rollout's own log-probabilities
    saving: Saving | None = None  # None where the job writes no checkpoints
    replay: RouterReplay | None = None  # None where each pass chooses its experts itself


class Reference(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The frozen policy of the KL term."""

    engine: Engine
    head: OutputHead
    log_prob: Pass
    separate: bool = True  # False when it is the actor with its adapters switched off
    model: Annotated[ModelShape | None, UNPUBLISHED] = None  # of its own; None: the policy's
    takes_place: Annotated[bool, UNPUBLISHED] = False  # of the actor's weights, which wait on the host
    weighs: bool = True  # False where its KL term is multiplied by 0, and settings can do without it


class Critic(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The value model of PPO with GAE."""

    model: ModelShape
    engine: Engine
    update: Pass
    values: Pass
    saving: Saving | None = None  # as the actor's


class HeldBatch(Struct, frozen=True, kw_only=True):
    """How a controller holds the batch of a step, in bytes for each token, and how many copies there are."""

    sequence_bytes: int  # of prompt and response together
    prompt_bytes: int  # of the prompt once more
    response_bytes: int  # of the response once more, beside numbers in float32
    numbers: int  # of them for each token of a response, beside those of reference and critic
    copies: tuple[int, int, int]  # the fewest, what is usual, the most
    copies_source: str


class Controller(Struct, frozen=True, kw_only=True):
    """The processes on the host that hold a step's batch, hand it out, and talk to the rollout engine."""

    agent_workers: int = 0  # processes that hold conversations with the engine, over all nodes
    held: Annotated[HeldBatch | None, UNPUBLISHED] = None  # None where nobody says how it holds the batch
    poll_s: Annotated[float, UNPUBLISHED] = 0.0  # between two looks whether all responses are there; 0: told


class Carrier(Struct, frozen=True, kw_only=True):
    """What carries new weights to rollout engines on GPUs of their own, bucket by bucket.

    A process beside each engine receives them and hands them on.
    """

    name: str  # for messages
    sender_buckets: int  # on a GPU of the trainer
    receiver_buckets: int  # on a GPU of the engine, in the process that receives
    handed_on_buckets: int = 0  # more of them there, which the engine reads from
    host_buckets: int = 0  # in pinned host memory instead, of every process
    sender_communicators: int = 0  # of NCCL, beside the trainer's own
    receiver_communicators: int = 0
    joins_chunks: bool = False  # a tensor larger than a bucket is put together where it arrives
    keeps_buckets: bool = False  # between two transfers as well
    frees_cache: bool = False  # the engine's KV cache is given back meanwhile
    host_shards: bool = False  # the trainer keeps a copy of its shards on the host, to send what changed
    host_model: bool = False  # the trainer puts the whole model into host memory, for the engines to fetch


class WeightSync(Struct, frozen=True, kw_only=True, cache_hash=True):
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
    collections: int = 0  # of garbage, each of which goes through all objects of a worker's process
    collects_again: bool = False  # and once more where the first one frees what the update has left
    maps_pages: bool = False  # what the trainer frees are pages that are mapped one by one, no whole blocks
    receiver_collects: bool = False  # and once more, beside the engine's worker, once that has the weights
    broadcasts: Annotated[bool, UNPUBLISHED] = False  # to engines on other GPUs, over all network cards
    experts_apart: bool = False  # each expert's weights are tensors of their own
    cuts_experts: bool = False  # experts that are gathered as one tensor travel one by one
    quantizes_in_one_kernel: bool = True  # weights made 8-bit on their way; False: by operators
    carrier: Carrier | None = None  # to engines on GPUs of their own; None where all share the trainer's
