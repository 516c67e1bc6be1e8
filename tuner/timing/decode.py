"""What one step of the rollout engine reads, computes and exchanges on a GPU."""

from bisect import bisect
from math import log2

from msgspec import Struct
from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.serving.graphs import largest_graph
from tuner.timing import assumptions as assume
from tuner.timing.communication import ring_bytes_per_s
from tuner.timing.layer import average_layer, cached_keys, layer_product_seconds
from tuner.timing.rates import (
    attention_flop_per_s,
    copy_bytes_per_s,
    product_flop_per_s,
)
from tuner.workload import Batch, Engine, Rollout, RolloutEngine, Workload

REDUCTIONS_PER_LAYER = 2
_HALVINGS = 33  # of the exponents at which products are told, up to 65,536 tokens


class RolloutInput(Struct, frozen=True, kw_only=True):
    """What the time of a rollout depends on, beside what its cache holds.

    Proposals that change none of it take as long.
    """

    model: ModelShape
    cluster: Cluster
    batch: Batch
    rollout: Rollout
    agents: int = 0  # processes that hold conversations, over all nodes; 0: the engines' own
    adapters: bool = False  # the engine computes them beside its products
    poll_s: float = 0.0  # between two looks of the trainer whether all responses are there; 0: it is told
    trained: Engine | None = None  # that trains the model, where this one generates itself

    @classmethod
    def of(cls, workload: Workload) -> "RolloutInput":
        """The rollout of a job."""
        controller, rollout = workload.controller, workload.generator
        itself = rollout.engine is RolloutEngine.TRANSFORMERS
        return cls(
            model=workload.model,
            cluster=_cluster_of(rollout, workload.cluster),
            batch=workload.batch,
            rollout=rollout.unsized,
            agents=0 if controller is None else controller.agent_workers,
            adapters=_serves_adapters(workload),
            poll_s=0.0 if controller is None else controller.poll_s,
            trained=workload.actor.engine if itself else None,
        )


def _cluster_of(rollout: Rollout, cluster: Cluster) -> Cluster:
    """The GPUs that a rollout runs on: those of the trainer, or as many on a node as its own pool has."""
    per_node = rollout.node_gpus
    if per_node is None or per_node == cluster.gpus_per_node:
        return cluster
    return replace(cluster, gpus_per_node=per_node, nodes=max(1, rollout.gpus // per_node))


def _serves_adapters(workload: Workload) -> bool:
    """Whether vLLM multiplies with adapters; what other engines do for them is not known here."""
    lora = workload.actor.engine.lora
    apart = lora is not None and not lora.merged_for_rollout
    return apart and workload.generator.engine is RolloutEngine.VLLM


def weight_read_bytes(inputs: RolloutInput, tokens: float) -> float:
    """Weights that one GPU reads in an engine step of ``tokens`` tokens.

    All of them under tensor parallelism's share; of the routed experts only those that some token
    goes to, ``1 - (1 - k / E)^T`` of them when each token picks k of E at random. The output
    projection is not quantized.
    """
    model, rollout = inputs.model, inputs.rollout
    moe = model.moe
    experts = model.sparse_layers * model.expert_parameters
    dense = model.active_parameters - (
        0 if moe is None else model.sparse_layers * moe.experts_per_token * model.one_expert_parameters
    )
    read = dense / rollout.tensor_parallel
    if moe is not None:
        touched = 1 - (1 - moe.experts_per_token / moe.experts) ** tokens
        read += experts * touched / max(rollout.tensor_parallel, rollout.expert_parallel)
    head_dtype = DType.BFLOAT16 if rollout.weight_dtype is DType.FLOAT8 else rollout.weight_dtype
    head = model.projection_parameters / rollout.tensor_parallel
    return (read - head) * rollout.weight_dtype.bytes + head * head_dtype.bytes


def cache_read_bytes(inputs: RolloutInput, running: float, context: float | None = None) -> float:
    """KV cache that one GPU reads in a step: the tokens so far of all running sequences.

    Heads are divided by tensor parallelism as far as there are any; a latent cache is not. A sequence in
    the middle of its mean response is looked at where no context is given.
    """
    model, batch = inputs.model, inputs.batch
    if context is None:
        context = batch.mean_prompt_tokens + batch.mean_response_tokens / 2
    visible = cached_keys(average_layer(model), context)
    return running * visible * model.cached_layers * cache_token_bytes(inputs)


def cache_token_bytes(inputs: RolloutInput) -> float:
    """Keys and values of one token in one layer, as one GPU holds them."""
    model, rollout = inputs.model, inputs.rollout
    split = 1 if model.latent is not None else min(rollout.tensor_parallel, model.kv_heads)
    return model.kv_values_per_token / split * rollout.kv_dtype.bytes


def arithmetic_seconds(inputs: RolloutInput, tokens: float, keys: float) -> float:
    """Products and attention of ``tokens`` tokens on one GPU of a replica; ``keys`` visible to each."""
    model, rollout, gpu = inputs.model, inputs.rollout, inputs.cluster.gpu
    # computed for sampled tokens only, counted with decoding
    head = model.projection_parameters if model.value_head else model.vocab * model.hidden
    body = model.active_parameters - head
    width = average_layer(model).attention_width * model.layers
    products = 2 * tokens * body / product_flop_per_s(gpu, rollout.weight_dtype)
    attention = 2 * tokens * keys * width / attention_flop_per_s(gpu)
    return (products + attention) / rollout.tensor_parallel


class TokenCurve(Struct, frozen=True):
    """Seconds of a step's products, or of reading its weights, by its tokens; straight between those told."""

    tokens: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, tokens: float) -> float:
        """Along straight lines; below the first of them, and beyond the last, in proportion."""
        place = bisect(self.tokens, tokens)
        if place in (0, len(self.tokens)):
            end = min(place, len(self.tokens) - 1)
            return self.seconds[end] * tokens / self.tokens[end]
        low, high = self.tokens[place - 1], self.tokens[place]
        before, after = self.seconds[place - 1], self.seconds[place]
        return before + (after - before) * (tokens - low) / (high - low)


def product_curve(inputs: RolloutInput) -> TokenCurve:
    """Products of all layers on one GPU of a replica, at the shares of the peak that were measured by shape.

    Few tokens reach little of it: so many weights for each of them take as long to read. Experts are grouped.
    """
    model, rollout, gpu = inputs.model, inputs.rollout, inputs.cluster.gpu
    layer, tokens = average_layer(model), tuple(2.0 ** (half / 2) for half in range(_HALVINGS))
    seconds = (
        model.layers
        * layer_product_seconds(
            layer, count, gpu, rollout.weight_dtype, split=rollout.tensor_parallel, expert_ranks=1
        )
        for count in tokens
    )
    return TokenCurve(tokens=tokens, seconds=tuple(seconds))


def sampling_seconds(inputs: RolloutInput, running: float) -> float:
    """Logits of the running sequences and the choice among them; every GPU of a replica chooses."""
    model, rollout, gpu = inputs.model, inputs.rollout, inputs.cluster.gpu
    products = 2 * running * model.hidden * model.vocab / rollout.tensor_parallel
    bytes_per_logit = assume.LOG_PROB_SAMPLER_BYTES if rollout.samples_log_probs else assume.SAMPLER_BYTES
    if rollout.tensor_parallel > 1:
        bytes_per_logit += assume.GATHERED_LOGIT_BYTES
    traffic = running * model.vocab * bytes_per_logit
    return products / product_flop_per_s(gpu, DType.BFLOAT16) + traffic / copy_bytes_per_s(gpu)


def reduction_seconds(inputs: RolloutInput, tokens: float) -> float:
    """All-reduces of tensor parallelism in one step: two per layer of ``tokens x hidden``.

    Over several nodes they are NCCL's, whatever the engine has of its own: short ones go up a tree of them
    and down again, and long ones at the rate of a ring.
    """
    ranks, members = inputs.rollout.tensor_parallel, inputs.cluster.gpus_per_node
    if ranks < 2:
        return 0.0
    moved = 2 * tokens * inputs.model.hidden * DType.BFLOAT16.bytes * (ranks - 1) / ranks
    latency_s = assume.NCCL_ALL_REDUCE_S if inputs.rollout.reduces_with_nccl else assume.ENGINE_ALL_REDUCE_S
    if ranks > members:
        up_s = (members - 1) * assume.SHORT_NODE_HOP_S + log2(ranks / members) * assume.SHORT_NETWORK_HOP_S
        latency_s = assume.SHORT_ALL_REDUCE_S + 2 * up_s
    once = moved / ring_bytes_per_s(inputs.cluster, ranks) + latency_s
    return inputs.model.layers * REDUCTIONS_PER_LAYER * once


def gathering_seconds(inputs: RolloutInput, running: float) -> float:
    """The all-gather of the running sequences' logits, of which each rank of tensor parallelism has a part.

    Source: vLLM 0.8.5 ``model_executor/layers/logits_processor.py`` (``_gather_logits``).
    """
    ranks = inputs.rollout.tensor_parallel
    if ranks < 2:
        return 0.0
    received = running * inputs.model.vocab * DType.BFLOAT16.bytes * (ranks - 1) / ranks
    return received / ring_bytes_per_s(inputs.cluster, ranks)


def is_replayed(inputs: RolloutInput, sequences: float) -> bool:
    """Whether a CUDA graph was captured for a step of so many sequences."""
    largest = largest_graph(inputs.rollout)
    return largest is None or sequences <= largest
