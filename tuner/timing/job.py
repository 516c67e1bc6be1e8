"""One pass of one engine over one model, and what its micro-batches cost per layer."""

from collections.abc import Mapping
from functools import cached_property
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tuner.architectures import layer_traits
from tuner.batching import attending_engine
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.timing import assumptions as assume
from tuner.timing import layer as per_layer
from tuner.timing.adapters import kernels_of_a_layer, unit_seconds, units_of_a_layer
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.expert_dispatch import dispatch_calls
from tuner.timing.head import head_seconds
from tuner.timing.host import LayerSeconds, host_of_experts, host_seconds
from tuner.timing.host_of_libraries import host_of_liger, host_of_megatron
from tuner.timing.layer import LayerWork, average_layer
from tuner.timing.mask_kernels import MaskKernel, mask_kernel
from tuner.timing.rates import elementwise_bytes_per_s
from tuner.timing.row_attention import PairedRows, row_attention_seconds
from tuner.timing.tokens import MicroBatches, micro_batches_of
from tuner.workload import Attention, Backend, Batch, Checkpointing, Engine, HeadKind, Lora, Phase, StepPass

Parts = Mapping[str, float]  # seconds by cause


class TimedPasses(Struct, frozen=True, kw_only=True, dict=True):
    """Forward passes over all sequences of a step, or forward and backward over one mini-batch."""

    cluster: Cluster
    batch: Batch
    step_pass: StepPass
    pages_there: float | None = None  # bytes left by updates before; None where no pages are given back

    @property
    def model(self) -> ModelShape:
        """The model that the pass runs over."""
        return self.step_pass.model

    @cached_property
    def engine(self) -> Engine:
        """The engine that shards it."""
        return attending_engine(self.batch, self.step_pass)

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass."""
        return self.step_pass.training

    @cached_property
    def micro(self) -> MicroBatches:
        """The pass's micro-batches on the slowest GPU."""
        return micro_batches_of(self.batch, self.step_pass)

    @cached_property
    def layer(self) -> LayerWork:
        """The model's average layer."""
        return average_layer(self.model)

    @cached_property
    def compute(self) -> "LayerCompute":
        """Seconds of one layer's arithmetic for one micro-batch."""
        return layer_compute(self)

    @property
    def recomputed_share(self) -> float | None:
        """The share of a stage's layers that full checkpointing covers; None where it is all of them.

        Source: Megatron-Core ``transformer/transformer_block.py`` (``_checkpointed_forward``, ``block``).
        """
        engine = self.engine
        first, parallel = engine.recompute_first_layers, engine.parallel
        if first is None or engine.checkpointing is not Checkpointing.FULL:
            return None
        of_piece = ceil(int(self.model.layers) / (parallel.pipeline * parallel.virtual_pipeline))
        return min(1.0, first / of_piece)

    def recomputing(self, checkpointing: Checkpointing) -> "TimedPasses":
        """The job with all of its layers recomputed, or none."""
        engine = replace(self.engine, checkpointing=checkpointing, recompute_first_layers=None)
        step_pass = replace(self.step_pass, engine=engine)
        job = TimedPasses(
            cluster=self.cluster, batch=self.batch, step_pass=step_pass, pages_there=self.pages_there
        )
        vars(job).update(micro=self.micro, layer=self.layer)
        return job

    def on_cluster(self, cluster: Cluster) -> "TimedPasses":
        """The job on GPUs that differ in their host alone, and compute as long."""
        job = TimedPasses(
            cluster=cluster, batch=self.batch, step_pass=self.step_pass, pages_there=self.pages_there
        )
        vars(job).update(micro=self.micro, layer=self.layer, compute=self.compute)
        return job

    def computing(self, compute: "LayerCompute") -> "TimedPasses":
        """The job on GPUs that take other seconds for a layer's arithmetic."""
        job = TimedPasses(
            cluster=self.cluster, batch=self.batch, step_pass=self.step_pass, pages_there=self.pages_there
        )
        vars(job).update(micro=self.micro, layer=self.layer, compute=compute)
        return job

    @property
    def row_tokens(self) -> float:
        """Tokens of a row: of a sequence that is padded, or of the whole micro-batch."""
        return self.micro.tokens if self.engine.packed else self.micro.sequence_tokens

    @property
    def masks_rows(self) -> bool:
        """Whether attention pairs all tokens of its rows, under a mask."""
        return self.engine.masks_rows(self.row_tokens)

    @cached_property
    def mask_kernel(self) -> MaskKernel:
        """What attention with a mask runs, where the engine's has one."""
        engine = self.engine
        return mask_kernel(
            self.cluster.gpu, engine.torch, head_dim=self.layer.head_dim, dtype=engine.compute_dtype
        )

    @property
    def fused(self) -> bool:
        """Whether element-wise kernels of a layer are fused; Megatron's always are."""
        return self.engine.fused_layers or self.engine.backend is Backend.MEGATRON

    @property
    def fused_gate(self) -> bool:
        """Whether that of the activation is, too: Liger has none for some types."""
        of_type = layer_traits(self.model.architecture).fused_activation
        return self.fused and (of_type or self.engine.backend is Backend.MEGATRON)

    @property
    def lora(self) -> Lora | None:
        """Adapters that it computes with; the reference is the actor with its own switched off."""
        return None if self.step_pass.phase is Phase.REF_LOG_PROB else self.engine.lora

    @property
    def adapter_units(self) -> float:
        """Units of FSDP1 that the adapters of one layer are."""
        return units_of_a_layer(self.lora, self.engine.backend, self.model.layers)

    @property
    def shard_ranks(self) -> int:
        """Ranks under FSDP that gather a unit together: those with the same share of its matrices."""
        parallel = self.engine.parallel
        return max(1, parallel.shard // parallel.tensor)

    @property
    def trained_parameters(self) -> int:
        """Parameters with gradients: all of the model, or the adapters."""
        lora = self.engine.lora
        return self.model.parameters if lora is None else lora.parameters

    @property
    def bytes_per_value(self) -> int:
        """Bytes of a weight or activation inside a layer."""
        return self.engine.compute_dtype.bytes


class LayerCompute(Struct, frozen=True, kw_only=True):
    """Seconds that one GPU computes on one layer of one micro-batch."""

    forward: float
    backward: float  # with what checkpointing recomputes

    @property
    def both(self) -> float:
        """Seconds of the forward and the backward pass together."""
        return self.forward + self.backward


def layer_compute(job: TimedPasses, kernel: MaskKernel | None = None) -> LayerCompute:
    """Products, attention and element-wise kernels of one layer, forward and backward.

    Backward: twice the products (once when only adapters learn, since frozen weights need no
    gradient), 2.5 times the attention, twice the element-wise traffic, plus what is recomputed: the
    forward pass up to the MLP's last product, or the attention alone. Tensor parallelism divides everything.

    Args:
        job: the pass.
        kernel: of attention with a mask; None for the job's own.
    """
    engine, micro, gpu = job.engine, job.micro, job.cluster.gpu
    split = engine.parallel.tensor
    layer = job.layer
    dtype = engine.compute_dtype
    read = per_layer.weight_read_seconds(_weights_held(job), gpu, dtype)
    base = _product_seconds(job, backward=False)
    extra = _adapter_seconds(job)
    attention = _attention_seconds(job, kernel, backward=False) / split
    elementwise, back = (
        per_layer.elementwise_seconds(
            layer, micro.tokens, gpu, dtype, fused=job.fused, backward=is_backward, fused_gate=job.fused_gate
        )
        / split
        for is_backward in (False, True)
    )
    forward = max(base, read) + extra + attention + elementwise
    if not job.trains:
        return LayerCompute(forward=forward, backward=0.0)
    backward = (
        (1 if engine.lora is not None else 2) * max(_product_seconds(job, backward=True), read)
        + 2 * extra
        + _attention_seconds(job, kernel, backward=True) / split
        + back
    )
    recomputed = {
        Checkpointing.NONE: 0.0,
        Checkpointing.SELECTIVE: attention,
        Checkpointing.FULL: forward - _last_product_seconds(job),
    }[engine.checkpointing]
    return LayerCompute(forward=forward, backward=backward + recomputed)


def _attention_seconds(job: TimedPasses, kernel: MaskKernel | None, *, backward: bool) -> float:
    """One layer's attention: over sequences, or over rows, which packed is the whole micro-batch."""
    micro, gpu, engine = job.micro, job.cluster.gpu, job.engine
    of_row = job.row_tokens
    if job.masks_rows:
        rows = PairedRows(
            tokens=micro.tokens,
            row_tokens=of_row,
            heads=job.model.heads,
            key_heads=job.model.kv_heads,
            packed=engine.packed,
            of_booleans=engine.attention is Attention.MASKED_ROWS,
            eager=engine.attention is Attention.EAGER_ROWS,
        )
        return row_attention_seconds(
            job.layer, rows, gpu, engine.compute_dtype, kernel or job.mask_kernel, backward=backward
        )
    length = micro.sequence_tokens if engine.attention is Attention.SEQUENCES else of_row
    return per_layer.attention_seconds(job.layer, micro.tokens, length, gpu, backward=backward)


def _product_seconds(job: TimedPasses, *, backward: bool) -> float:
    """The layer's own products, once: forward, or for one of the gradients."""
    parallel = job.engine.parallel
    return per_layer.layer_product_seconds(
        job.layer,
        job.micro.tokens,
        job.cluster.gpu,
        job.engine.compute_dtype,
        split=parallel.tensor,
        expert_ranks=parallel.expert,
        backward=backward,
    )


def _last_product_seconds(job: TimedPasses) -> float:
    """The MLP's last product, before which PyTorch stops to recompute a layer: nothing after it is kept.

    Not where its output is kept as well, for a norm or an adapter's product behind it, nor of experts, whose
    products are weighted afterwards, nor under Megatron-Core, which computes the whole layer again. With
    activations on the host it is not known and counted.

    Source: torch ``utils/checkpoint.py`` (``_StopRecomputationError``).
    """
    engine, model, layer = job.engine, job.model, job.layer
    keeps_output = engine.lora is not None or layer_traits(model.architecture).norms_after
    if keeps_output or engine.backend is Backend.MEGATRON or engine.activation_offload:
        return 0.0
    dense = 1 - model.sparse_layers / model.layers
    return dense * per_layer.product_seconds(
        layer.hidden * layer.intermediate,
        job.micro.tokens,
        job.cluster.gpu,
        engine.compute_dtype,
        width=layer.width(1),
    )


def _adapter_seconds(job: TimedPasses) -> float:
    """The adapters' products, once; their narrow side is taken to be as wide as the layer's."""
    if job.lora is None:
        return 0.0
    parameters = job.lora.parameters / job.model.layers / job.engine.parallel.tensor
    return per_layer.product_seconds(
        parameters,
        job.micro.tokens,
        job.cluster.gpu,
        job.engine.compute_dtype,
        width=job.layer.width(job.engine.parallel.tensor),
    )


def _weights_held(job: TimedPasses) -> float:
    """Weights of one layer that one GPU multiplies with: its tensor-parallel share and its experts."""
    parallel = job.engine.parallel
    layer = job.layer
    shared = (layer.parameters - layer.routed_parameters) / parallel.tensor
    return shared + layer.routed_parameters / (parallel.expert * parallel.expert_tensor)


def head_of(job: TimedPasses, *, trains: bool) -> float:
    """Seconds of the output head for one micro-batch, forward or in both directions.

    Tensor parallelism divides the vocabulary. Of padded sequences verl's own workers take the logits of
    responses before they compute log-probabilities and entropy, see :class:`~tuner.workload.OutputHead`;
    a fused head has no logits to take them from. Where the loss goes token by token, the host may be slower.
    """
    head, batch = job.step_pass.head, job.batch
    slices = head.slices_response and head.kind is HeadKind.LOGITS
    on_gpu = head_seconds(
        head,
        tokens=job.micro.tokens,
        hidden=job.model.hidden,
        vocab=job.model.vocab / job.engine.parallel.tensor,
        gpu=job.cluster.gpu,
        dtype=job.engine.compute_dtype,
        entropy=job.step_pass.entropy,
        trains=trains,
        sliced=batch.max_response_tokens / batch.sequence_tokens if slices else 1.0,
    )
    if not head.loops_tokens or head.kind is not HeadKind.LOGITS:
        return on_gpu
    kernels = sum(assume.ROW_LOSS_KERNELS) if trains else assume.ROW_LOSS_KERNELS[0]
    launched = job.micro.tokens * kernels * assume.BARE_LAUNCH_S
    return max(on_gpu, launched / correction(job.cluster.gpu, OperatorFamily.HOST))


def micro_batch_seconds(job: TimedPasses) -> float:
    """Seconds of one micro-batch on the host outside the layers."""
    return assume.MICRO_BATCH_S / correction(job.cluster.gpu, OperatorFamily.HOST)


def kernels_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds in which the host launches one layer's kernels in one direction, with what FSDP's hooks add.

    Measured with so few tokens that the GPU waits for the host, with one rank and with several. Forward
    alone it builds no graph. The backward direction of a layer that is recomputed has its forward pass in it
    once more. Liger's functions and Megatron's modules launch fewer kernels and need more of Python for each.
    """
    _gpu, _ranks = job.cluster.gpu.name, job.engine.parallel.gpus
    if job.engine.backend is Backend.MEGATRON:
        seconds = _megatron_seconds(job, backward=backward)
    else:
        seconds = _plain_or_hooked_seconds(job, backward=backward) + _adapters_seconds(job, backward=backward)
    seconds += _experts_seconds(job, backward=backward)
    return seconds / correction(job.cluster.gpu, OperatorFamily.HOST)


def launched_late_share(job: TimedPasses) -> float:
    """The share of a layer's launches forward that are made behind its attention, as those of experts are."""
    whole = kernels_seconds(job, backward=False) * correction(job.cluster.gpu, OperatorFamily.HOST)
    experts = _experts_seconds(job, backward=False)
    return 1 - assume.LAUNCHED_BEFORE_ATTENTION * (1 - experts / whole)


def before_attention_seconds(job: TimedPasses) -> float:
    """Seconds in which the GPU computes what comes before a layer's attention forward.

    A norm, the products into queries, keys and values, their own norms and the rotation.
    """
    layer, model, gpu, tokens = job.layer, job.model, job.cluster.gpu, job.micro.tokens
    split, dtype = job.engine.parallel.tensor, job.engine.compute_dtype
    width = layer.query_key_values + model.kv_heads * model.head_dim
    products = per_layer.product_seconds(
        layer.hidden * width / split, tokens, gpu, dtype, width=layer.width(split)
    )
    moved = per_layer.before_attention_bytes(layer, tokens, gpu, fused=job.fused) / split
    return products + moved / elementwise_bytes_per_s(gpu)


def _experts_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds of launching a layer's routed experts, on a host that nobody measured."""
    moe = job.model.moe
    if moe is None:
        return 0.0
    sparse = job.model.sparse_layers / job.model.layers
    grouped = not job.engine.loops_experts
    launched = 1.0 if grouped else min(moe.experts, job.micro.tokens * job.layer.routed_copies)
    experts = host_of_experts(job.cluster.gpu.name, grouped=grouped, ranks=job.engine.parallel.gpus)
    return sparse * launched * _direction(experts, job, backward=backward)


def _plain_or_hooked_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds of launching a layer of transformers, under FSDP or without it."""
    engine = {Backend.FSDP: "fsdp", Backend.FSDP2: "fsdp2"}.get(job.engine.backend, "plain")
    gpu, ranks = job.cluster.gpu.name, job.engine.parallel.gpus
    norms = job.layer.normed_query_keys > 0
    hooked = host_seconds(gpu, engine, query_key_norms=norms, ranks=ranks)
    if not job.fused:
        return _direction(hooked, job, backward=backward)
    plain = host_seconds(gpu, "plain", query_key_norms=norms, ranks=ranks)
    fused = host_of_liger(gpu, query_key_norms=norms, ranks=ranks)
    of_hooks = _direction(hooked, job, backward=backward) - _direction(plain, job, backward=backward)
    return of_hooks + _direction(fused, job, backward=backward)


def _adapters_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds of launching one layer's adapters, as one of a plain layer's kernels each, and their units."""
    gpu, norms, ranks = job.cluster.gpu.name, job.layer.normed_query_keys > 0, job.engine.parallel.gpus
    if job.lora is None:
        return 0.0
    plain = _direction(host_seconds(gpu, "plain", query_key_norms=norms, ranks=ranks), job, backward=backward)
    unit = unit_seconds(gpu, ranks=ranks).of(
        recomputes=job.engine.checkpointing is Checkpointing.FULL, backward=backward
    )
    share = kernels_of_a_layer(job.lora, job.model.layers) / per_layer.plain_layer_kernels(job.layer)
    return plain * share + job.adapter_units * unit


def _megatron_seconds(job: TimedPasses, *, backward: bool) -> float:
    """Seconds of launching a layer of Megatron-Core, with collectives: of tensors and of experts."""
    engine, norms = job.engine, job.layer.normed_query_keys > 0
    host = host_of_megatron(job.cluster.gpu.name, query_key_norms=norms, ranks=engine.parallel.gpus)
    seconds = _direction(host, job, backward=backward)
    recomputes = engine.checkpointing is Checkpointing.FULL
    calls = 0.0
    if engine.parallel.tensor > 1:
        forward_calls, backward_calls = assume.TENSOR_COLLECTIVES
        calls += backward_calls + (forward_calls if recomputes else 0) if backward else forward_calls
    if job.model.moe is not None:
        calls += (job.model.sparse_layers / job.model.layers) * dispatch_calls(
            engine.dispatcher, engine.parallel, backward=backward, recomputes=recomputes
        )
    return seconds + calls * assume.COLLECTIVE_CALL_S


def _direction(host: LayerSeconds, job: TimedPasses, *, backward: bool) -> float:
    if not job.trains:
        return host.forward_s
    return host.half(recomputes=job.engine.checkpointing is Checkpointing.FULL, backward=backward)
