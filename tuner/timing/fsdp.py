"""Seconds of a pass under FSDP or FSDP2: weights are gathered layer by layer while others compute."""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.timing import assumptions as assume
from tuner.timing.communication import (
    OverlapTime,
    all_reduce_seconds,
    all_to_all_seconds,
    gather_seconds,
    reduce_scatter_seconds,
)
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.job import (
    Parts,
    TimedPasses,
    before_attention_seconds,
    head_of,
    kernels_seconds,
    launched_late_share,
    micro_batch_seconds,
)
from tuner.timing.layer import checkpoint_values
from tuner.timing.sharded_copies import (
    accumulating_seconds,
    fetch_seconds,
    fetches_between,
    gradient_copy_seconds,
    reducing_host_seconds,
    unsharding_copy_seconds,
)
from tuner.timing.transfers import pinned_seconds
from tuner.workload import Backend, Checkpointing

CAUSES = ("compute", "communication", "contention", "copies", "launch", "offload", "head")


def weight_gather_seconds(job: TimedPasses, parameters: float) -> float:
    """All-gather of ``parameters`` in the compute dtype over the shard group.

    Weights that live on the host come over the host link first, as stored.
    """
    fetched = 0.0 if fetches_between(job) else fetch_seconds(job, parameters)
    gathered = parameters * job.bytes_per_value
    return fetched + gather_seconds(gathered, job.cluster, job.shard_ranks, stride=job.engine.parallel.tensor)


def gradient_reduce_seconds(job: TimedPasses, parameters: float) -> float:
    """Reduce-scatter over the shard group, all-reduce of the shards over its copies, copy to the host.

    The all-reduce happens with hybrid sharding, the copy where the states live on the host.
    """
    parallel, ranks = job.engine.parallel, job.shard_ranks
    copies = max(1, parallel.gpus // parallel.shard)
    whole = parameters * job.engine.reduce_dtype.bytes
    seconds = reduce_scatter_seconds(whole, job.cluster, ranks, stride=parallel.tensor)
    seconds += all_reduce_seconds(whole / ranks, job.cluster, copies, stride=parallel.shard)
    if job.engine.streamed_offload:
        seconds += pinned_seconds(whole / ranks, job.cluster.gpu)
    return seconds


def sequence_exchange_seconds(job: TimedPasses) -> float:
    """Ulysses: all-to-all of queries, keys, values and the attention's output of one layer, forward.

    Heads of keys and values are repeated when there are fewer of them than ranks.
    """
    ranks = job.engine.parallel.ulysses
    model = job.model
    per_token = model.head_dim * (2 * model.heads + 2 * max(model.kv_heads, ranks))
    return all_to_all_seconds(job.micro.tokens * per_token * job.bytes_per_value, job.cluster, ranks)


def exchange_seconds(job: TimedPasses) -> float:
    """What ranks that share a layer exchange in one direction, between its own kernels.

    Heads under Ulysses; the sums of tensor parallelism, keys and values of context parallelism, and tokens on
    their way to experts as under Megatron.
    """
    parallel = job.engine.parallel
    seconds = sequence_exchange_seconds(job)
    travels = job.engine.tokens_travel and parallel.expert > 1
    if max(parallel.tensor, parallel.context) == 1 and not travels:
        return seconds
    from tuner.timing import megatron  # few jobs under FSDP have any of it

    seconds += megatron.tensor_exchange_seconds(job) + megatron.context_exchange_seconds(job)
    return seconds + (megatron.expert_exchange_seconds(job) if travels else 0.0)


def activation_copy_seconds(job: TimedPasses) -> float:
    """One layer's kept activations over the host link, one way; 0 without activation offload."""
    if not (job.trains and job.engine.activation_offload):
        return 0.0
    whole_layer = job.engine.checkpointing is Checkpointing.FULL
    values = checkpoint_values(job.layer, whole_layer=whole_layer)
    return pinned_seconds(job.micro.tokens * values * job.bytes_per_value, job.cluster.gpu)


def position_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds in which the GPU waits for a host that asks it, in each layer, where sequences begin.

    Once for each time that a layer's attention is computed forward, and never of linear attention. The host
    never runs ahead of the GPU by more than a layer then.
    """
    engine, model = job.engine, job.model
    attends = engine.checkpointing is Checkpointing.FULL if backward else True
    if not (engine.reads_positions and attends):
        return 0.0
    share = model.cached_layers / model.layers
    return share * assume.POSITIONS_S / correction(job.cluster.gpu, OperatorFamily.HOST)


def forward_span(job: TimedPasses) -> OverlapTime:
    """One layer forward, while the next layer's weights arrive.

    Torch issues that gather on its own stream, and the host never waits for it. Where launching takes longer
    than computing, kernels begin later by it and end as they are launched: ``max(compute, launch, gather)``.
    Where the host waits for the GPU in each layer (:func:`position_seconds`) it issues the next gather behind
    what it launches afterwards, and waits again once the GPU has computed, from these weights, what comes
    before the attention: ``max(max(compute, launch) + waits, waits + late + gather + early)``, where explicit
    prefetching leaves ``gather`` alone.

    Source: torch ``distributed/fsdp/_runtime_utils.py`` (``_pre_forward_unshard``),
    ``distributed/fsdp/_fully_shard/_fsdp_param_group.py`` (``wait_for_unshard``): streams wait for events.
    """
    prefetches = job.engine.forward_prefetch and job.engine.prefetch_effective
    waits = position_seconds(job, backward=False)
    delayed = waits > 0 and not prefetches
    copies = unsharding_copy_seconds(job, gathered_parameters(job))
    return OverlapTime(
        compute=job.compute.forward,
        exchange=exchange_seconds(job),
        copies=copies,
        launch=kernels_seconds(job, backward=False),
        waits=waits,
        gather=weight_gather_seconds(job, gathered_parameters(job)),
        offload=activation_copy_seconds(job),
        launch_delays_gather=delayed,
        late_share=launched_late_share(job) if delayed else 0.0,
        early=before_attention_seconds(job) + copies if delayed else 0.0,
    )


def backward_span(job: TimedPasses, *, reduces: bool, accumulates: bool = False) -> OverlapTime:
    """One layer backward, while weights arrive and gradients leave.

    Both engines prefetch in the backward pass by default. The gather and the reduction share the
    links and therefore add up. Weights kept since the forward pass are not gathered again. Adapters that are
    units of their own are gathered and reduced one by one.

    Args:
        job: the pass.
        reduces: whether its gradients are reduced behind it.
        accumulates: whether they are added to those of a micro-batch before.
    """
    parameters = gathered_parameters(job)
    trained, _ = gradients_of_units(job)
    exchanges = 2 if job.engine.checkpointing is Checkpointing.FULL else 1
    gather, launch = 0.0, kernels_seconds(job, backward=True)
    copies = gradient_copy_seconds(job, trained, reduces=reduces, accumulates=accumulates)
    units = max(1.0, job.adapter_units)
    if reduces:
        launch += reducing_host_seconds(job, trained)
        gather += units * gradient_reduce_seconds(job, trained / units)
    if job.engine.reshard_after_forward:
        gather += weight_gather_seconds(job, parameters)
        gather += job.adapter_units * weight_gather_seconds(job, trained / units)
        copies += unsharding_copy_seconds(job, parameters)
    return OverlapTime(
        compute=job.compute.backward,
        exchange=exchanges * exchange_seconds(job),
        copies=copies,
        launch=launch,
        waits=position_seconds(job, backward=True),
        gather=gather,
        offload=activation_copy_seconds(job),
        launch_delays_gather=False,
    )


def gathered_parameters(job: TimedPasses) -> float:
    """Parameters of one layer that a rank gathers: of experts that are dealt out its own share alone.

    Tensor parallelism leaves a rank its share of all others.

    Source: VeOmni 0.1.12 ``distributed/torch_parallelize.py`` (``parallelize_model_fsdp2``).
    """
    experts, parallel = job.layer.routed_parameters, job.engine.parallel
    return (job.layer.parameters - experts) / parallel.tensor + experts / parallel.expert


def _root_parameters(job: TimedPasses) -> float:
    return (job.model.parameters - job.model.decoder_parameters) / job.engine.parallel.tensor


def gradients_of_units(job: TimedPasses) -> tuple[float, float]:
    """Parameters with gradients, of one layer and of all outside the layers; adapters are in layers alone."""
    lora, model = job.engine.lora, job.model
    if lora is not None:
        return lora.parameters / model.layers, 0.0
    return gathered_parameters(job), _root_parameters(job)


def root_seconds(job: TimedPasses, *, reduces: bool) -> float:
    """Embedding, head and final norm: gathered before the first layer, reduced after the last.

    Nothing runs beside either. They stay gathered through the pass.
    """
    seconds = weight_gather_seconds(job, _root_parameters(job))
    _, trained = gradients_of_units(job)
    return seconds + (gradient_reduce_seconds(job, trained) if job.trains and reduces and trained else 0.0)


def root_copies(job: TimedPasses, *, reduces: bool, accumulates: bool = False) -> float:
    """Seconds of the copies of the same weights and gradients."""
    seconds = unsharding_copy_seconds(job, _root_parameters(job))
    if not job.trains:
        return seconds
    _, trained = gradients_of_units(job)
    return seconds + gradient_copy_seconds(job, trained, reduces=reduces, accumulates=accumulates)


def ahead_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds of the GPU's work before a direction's first layer, while the host launches layers already.

    Forward it gathers and copies the weights outside the layers, backward it computes the head's share of
    that direction: the loss is read in between, so the head's forward share ends before.
    """
    if backward:
        return head_of(job, trains=True) - head_of(job, trains=False)
    outside = _root_parameters(job)
    return weight_gather_seconds(job, outside) + unsharding_copy_seconds(job, outside)


def layers_ahead(job: TimedPasses, span: OverlapTime) -> float:
    """How many layers the host may launch before the GPU begins with the first.

    One where it waits for the GPU in each; under FSDP1 two where layers are gathered one by one, since it
    waits until the weights of the last but one are free (``_FreeEventQueue`` of torch
    ``distributed/fsdp/_limiter_utils.py``), and of a layer with adapters two of its units.
    """
    if span.waits:
        return 1
    engine = job.engine
    limited = engine.backend is Backend.FSDP and job.shard_ranks > 1 and engine.reshard_after_forward
    if not limited:
        return job.model.layers
    return min(assume.GATHERS_IN_FLIGHT / (1 + job.adapter_units), job.model.layers)


def hidden_launch_seconds(job: TimedPasses, span: OverlapTime, parts: Parts, *, backward: bool) -> float:
    """Seconds that the GPU waits less for launches since it had work when the first of them were made.

    Args:
        job: the pass.
        span: a layer in this direction.
        parts: its seconds by cause.
        backward: the direction.
    """
    waiting = parts["launch"] - span.waits
    if waiting <= 0:
        return 0.0
    lost = sum(parts.values()) - sum(replace(span, launch=0.0).parts().values())
    return min(ahead_seconds(job, backward=backward), layers_ahead(job, span) * min(waiting, lost))


def first_gather_seconds(span: OverlapTime, parts: Parts) -> float:
    """Seconds by which the first layer forward takes longer than others: nothing runs beside its gather."""
    alone = span.gather + span.compute + span.exchange + span.copies + span.waits
    return max(0.0, alone - sum(parts.values()))


def outside_parts(job: TimedPasses, *, reduces: bool, accumulates: bool = False) -> dict[str, float]:
    """Seconds by cause of one micro-batch outside the layers."""
    return {
        "compute": 0.0,
        "communication": root_seconds(job, reduces=reduces),
        "contention": 0.0,
        "copies": root_copies(job, reduces=reduces, accumulates=accumulates),
        "launch": micro_batch_seconds(job),
        "offload": 0.0,
        "head": head_of(job, trains=job.trains),
    }


def layers_parts(job: TimedPasses, span: OverlapTime, *, backward: bool) -> dict[str, float]:
    """Seconds by cause of all layers in one direction.

    Args:
        job: the pass.
        span: one of them.
        backward: the direction.
    """
    parts = span.parts()
    total = {name: job.model.layers * seconds for name, seconds in parts.items()}
    total["launch"] -= hidden_launch_seconds(job, span, parts, backward=backward)
    if not backward:
        total["communication"] += first_gather_seconds(span, parts)
    total["offload"] += assume.EXPOSED_OFFLOADS * span.offload
    return total


def micro_batches(job: TimedPasses) -> Iterator[tuple[int, dict[str, float], OverlapTime | None]]:
    """The micro-batches of a pass, as many as are alike: seconds outside the layers, and a layer backward.

    Deferred gradient sync accumulates whole gradients and reduces once, in the last micro-batch. All but the
    first micro-batch add their gradients to those before.
    """
    count, deferred = job.micro.count, job.engine.deferred_gradient_sync
    if not job.trains:
        yield count, outside_parts(job, reduces=False), None
        return
    if not deferred or count == 1:
        outside, span = outside_parts(job, reduces=True), backward_span(job, reduces=True)
        yield 1, outside, span
        # The same spans but for what is added, which saves working them out anew.
        layer, accumulated = gradients_of_units(job)
        copies = outside["copies"] + accumulating_seconds(job, accumulated)
        added = replace(span, copies=span.copies + accumulating_seconds(job, layer))
        yield count - 1, {**outside, "copies": copies}, added
        return
    for times, reduces, accumulates in ((1, False, False), (count - 2, False, True), (1, True, True)):
        span = backward_span(job, reduces=reduces, accumulates=accumulates)
        yield times, outside_parts(job, reduces=reduces, accumulates=accumulates), span


def pass_parts(job: TimedPasses) -> dict[str, float]:
    """Seconds by cause of a whole pass: every micro-batch gathers, and reduces unless that is deferred."""
    forward = layers_parts(job, forward_span(job), backward=False)
    total = dict.fromkeys(CAUSES, 0.0)
    for times, outside, span in micro_batches(job):
        backward = {} if span is None or not times else layers_parts(job, span, backward=True)
        for name in total:
            total[name] += times * (outside[name] + forward.get(name, 0.0) + backward.get(name, 0.0))
    return total
