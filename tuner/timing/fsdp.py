"""Seconds of a pass under FSDP or FSDP2: weights are gathered layer by layer while others compute."""

from msgspec import Struct

from tuner.timing import assumptions as assume
from tuner.timing.communication import (
    all_reduce_seconds,
    all_to_all_seconds,
    gather_seconds,
    reduce_scatter_seconds,
)
from tuner.timing.corrections import Family, correction
from tuner.timing.job import Job, Parts, head_of, kernels_seconds, micro_batch_seconds
from tuner.timing.layer import checkpoint_values
from tuner.timing.sharded_copies import (
    accumulating_seconds,
    fetch_seconds,
    fetches_between,
    reducing_copy_seconds,
    reducing_host_seconds,
    unsharding_copy_seconds,
)
from tuner.timing.transfers import pinned_seconds
from tuner.workload import Checkpointing


class Span(Struct, frozen=True, kw_only=True):
    """One layer in one direction: what runs side by side, and how long it takes in the end."""

    compute: float
    exchange: float  # collectives between its own kernels, which nothing hides
    copies: float  # of weights and gradients among its own kernels
    launch: float
    waits: float  # of the GPU for a host that waits for it
    gather: float  # collectives beside it: next weights, last gradients
    offload: float  # copies of activations to or from the host
    launch_delays_gather: bool  # the next gather is issued after this layer's kernels

    def parts(self) -> Parts:
        """Seconds by cause: the computation, and how long each of the others keeps it waiting."""
        busy = self.compute + self.exchange + self.copies
        launched = max(busy, self.launch) + self.waits
        chain = self.launch + self.waits + self.gather if self.launch_delays_gather else self.gather
        waited = max(launched, chain)
        gathered = max(waited, side_by_side_seconds(busy + self.waits, self.gather))
        return {
            "compute": self.compute,
            "communication": self.exchange + waited - launched,
            "contention": gathered - waited,
            "copies": self.copies,
            "launch": launched - busy,
            "offload": max(gathered, self.offload) - gathered,
        }


def side_by_side_seconds(computing: float, gathering: float) -> float:
    """Kernels and collectives that begin together and share the card's multiprocessors and memory.

    Beside a collective products take c times as long, and the collective g times beside products, until the
    shorter of both has ended: ``max(C + g G (1 - 1 / c), G + c C (1 - 1 / g))``.

    Args:
        computing: C, seconds of the kernels by themselves.
        gathering: G, seconds of the collectives by themselves.
    """
    slower, later = assume.PRODUCT_BESIDE, assume.COLLECTIVE_BESIDE
    return max(
        computing + later * gathering * (1 - 1 / slower), gathering + slower * computing * (1 - 1 / later)
    )


def weight_gather_seconds(job: Job, parameters: float) -> float:
    """All-gather of ``parameters`` in the compute dtype over the shard group.

    Weights that live on the host come over the host link first, as stored.
    """
    fetched = 0.0 if fetches_between(job) else fetch_seconds(job, parameters)
    ranks = job.engine.parallel.shard
    return fetched + gather_seconds(parameters * job.bytes_per_value, job.cluster, ranks)


def gradient_reduce_seconds(job: Job, parameters: float) -> float:
    """Reduce-scatter over the shard group, all-reduce of the shards over its copies, copy to the host.

    The all-reduce happens with hybrid sharding, the copy where the states live on the host.
    """
    ranks = job.engine.parallel.shard
    copies = max(1, job.engine.parallel.gpus // ranks)
    whole = parameters * job.engine.reduce_dtype.bytes
    seconds = reduce_scatter_seconds(whole, job.cluster, ranks)
    seconds += all_reduce_seconds(whole / ranks, job.cluster, copies, stride=ranks)
    if job.engine.streamed_offload:
        seconds += pinned_seconds(whole / ranks, job.cluster.gpu)
    return seconds


def sequence_exchange_seconds(job: Job) -> float:
    """Ulysses: all-to-all of queries, keys, values and the attention's output of one layer, forward.

    Heads of keys and values are repeated when there are fewer of them than ranks.
    """
    ranks = job.engine.parallel.ulysses
    model = job.model
    per_token = model.head_dim * (2 * model.heads + 2 * max(model.kv_heads, ranks))
    return all_to_all_seconds(job.micro.tokens * per_token * job.bytes_per_value, job.cluster, ranks)


def activation_copy_seconds(job: Job) -> float:
    """One layer's kept activations over the host link, one way; 0 without activation offload."""
    if not (job.trains and job.engine.activation_offload):
        return 0.0
    whole_layer = job.engine.checkpointing is Checkpointing.FULL
    values = checkpoint_values(job.layer, whole_layer=whole_layer)
    return pinned_seconds(job.micro.tokens * values * job.bytes_per_value, job.cluster.gpu)


def position_seconds(job: Job, *, backward: bool) -> float:
    """Seconds in which the GPU waits for a host that asks it, in each layer, where sequences begin.

    Once for each time that a layer's attention is computed forward, and never of linear attention. The host
    never runs ahead of the GPU by more than a layer then.
    """
    engine, model = job.engine, job.model
    attends = engine.checkpointing is Checkpointing.FULL if backward else True
    if not (engine.reads_positions and attends):
        return 0.0
    share = model.cached_layers / model.layers
    return share * assume.POSITIONS_S / correction(job.cluster.gpu, Family.HOST)


def forward_span(job: Job) -> Span:
    """One layer forward, while the next layer's weights arrive.

    Torch issues that gather on its own stream, so it overlaps with computation either way; without
    explicit prefetching the host issues it only after it has launched the current layer's kernels
    ("only useful for CPU-bound workloads", docstring of FullyShardedDataParallel; the implicit
    prefetching of fully_shard is the same). Hence ``max(compute, launch + gather)`` without it and
    ``max(compute, launch, gather)`` with it. A host that runs several layers ahead does better.
    """
    prefetches = job.engine.forward_prefetch and job.engine.prefetch_effective
    return Span(
        compute=job.compute.forward,
        exchange=sequence_exchange_seconds(job),
        copies=unsharding_copy_seconds(job, job.layer.parameters),
        launch=kernels_seconds(job, backward=False),
        waits=position_seconds(job, backward=False),
        gather=weight_gather_seconds(job, job.layer.parameters),
        offload=activation_copy_seconds(job),
        launch_delays_gather=not prefetches,
    )


def backward_span(job: Job, *, reduces: bool) -> Span:
    """One layer backward, while weights arrive and gradients leave.

    Both engines prefetch in the backward pass by default. The gather and the reduction share the
    links and therefore add up. Weights kept since the forward pass are not gathered again.
    """
    parameters = job.layer.parameters
    trained = parameters if job.engine.lora is None else job.engine.lora.parameters / job.model.layers
    exchanges = 2 if job.engine.checkpointing is Checkpointing.FULL else 1
    gather, copies, launch = 0.0, 0.0, kernels_seconds(job, backward=True)
    if reduces:
        copies += reducing_copy_seconds(job, trained)
        launch += reducing_host_seconds(job, trained)
    if job.engine.reshard_after_forward:
        gather = weight_gather_seconds(job, parameters)
        copies += unsharding_copy_seconds(job, parameters)
    return Span(
        compute=job.compute.backward,
        exchange=exchanges * sequence_exchange_seconds(job),
        copies=copies,
        launch=launch,
        waits=position_seconds(job, backward=True),
        gather=gather + (gradient_reduce_seconds(job, trained) if reduces else 0.0),
        offload=activation_copy_seconds(job),
        launch_delays_gather=False,
    )


def root_seconds(job: Job, *, reduces: bool) -> float:
    """Embedding, head and final norm: gathered before the first layer, reduced after the last.

    Nothing runs beside either. They stay gathered through the pass.
    """
    parameters = job.model.parameters - job.model.decoder_parameters
    seconds = weight_gather_seconds(job, parameters)
    if job.trains and reduces and job.engine.trains_all_parameters:
        seconds += gradient_reduce_seconds(job, parameters)
    return seconds


def root_copies(job: Job, *, reduces: bool) -> float:
    """Seconds of the copies of the same weights and gradients."""
    parameters = job.model.parameters - job.model.decoder_parameters
    seconds = unsharding_copy_seconds(job, parameters)
    if job.trains and reduces and job.engine.trains_all_parameters:
        seconds += reducing_copy_seconds(job, parameters)
    return seconds


def ahead_seconds(job: Job, *, backward: bool) -> float:
    """What the GPU does before a direction's layers, while the host launches them already.

    Forward it gathers and copies the weights outside the layers, backward it computes the head's share of
    that direction: the loss is read in between, so the head's forward share ends before.
    """
    if backward:
        return head_of(job, trains=True) - head_of(job, trains=False)
    return root_seconds(job, reduces=False) + root_copies(job, reduces=False)


def hidden_launch_seconds(job: Job, span: Span, waiting: float, *, backward: bool) -> float:
    """How much less the GPU waits for launches for that: no more than it would in all layers.

    No more than in one layer where the host itself waits for the GPU in each.

    Args:
        job: the pass.
        span: a layer in this direction.
        waiting: seconds that the GPU would wait for one layer's launches, the host never for the GPU.
        backward: the direction.
    """
    if waiting <= 0:
        return 0.0
    layers = 1 if span.waits else job.model.layers
    return min(ahead_seconds(job, backward=backward), layers * waiting)


def micro_batch_parts(job: Job, *, reduces: bool) -> dict[str, float]:
    """Seconds by cause of one micro-batch.

    Args:
        job: the pass.
        reduces: whether this micro-batch ends in a reduction of gradients.
    """
    layers = job.model.layers
    total = {
        "compute": 0.0,
        "communication": root_seconds(job, reduces=reduces),
        "contention": 0.0,
        "copies": root_copies(job, reduces=reduces),
        "launch": micro_batch_seconds(job),
        "offload": 0.0,
    }
    spans = [forward_span(job)]
    if job.trains:
        spans.append(backward_span(job, reduces=reduces))
    for direction, span in enumerate(spans):
        parts = span.parts()
        for name, seconds in parts.items():
            total[name] += layers * seconds
        total["launch"] -= hidden_launch_seconds(
            job, span, parts["launch"] - span.waits, backward=direction == 1
        )
        total["offload"] += assume.EXPOSED_OFFLOADS * span.offload
    total["head"] = head_of(job, trains=job.trains)
    return total


def pass_parts(job: Job) -> dict[str, float]:
    """Seconds by cause of a whole pass: every micro-batch gathers, and reduces unless that is deferred.

    Deferred gradient sync accumulates whole gradients and reduces once, in the last micro-batch. All but the
    first micro-batch add their gradients to those before.
    """
    count = job.micro.count
    last = micro_batch_parts(job, reduces=True)
    others = last
    if job.trains and job.engine.deferred_gradient_sync and count > 1:
        others = micro_batch_parts(job, reduces=False)
    parts = {name: (count - 1) * others[name] + last[name] for name in last}
    if job.trains and count > 1:
        parts["copies"] += (count - 1) * accumulating_seconds(job)
    return parts
