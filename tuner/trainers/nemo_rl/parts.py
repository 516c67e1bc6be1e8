"""The fields of a workload that keys of NeMo-RL decide and that advice may change."""

from collections.abc import Iterator
from math import ceil

from tuner.trainers.fields import COUNT, FLAG, NEGATED_FLAG, Context, Form, Plain
from tuner.trainers.nemo_rl.tied_batches import are_tied
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.trainers.workload_part import WorkloadPart
from tuner.workload import Backend, Checkpointing, Quantity, Workload

_FRACTION = Form(
    decode=lambda source, meaning, default: source.number(meaning, default=default, minimum=0.0, maximum=1.0)
)
_RECOMPUTED = Form(
    decode=lambda source, meaning, default: Checkpointing.FULL if source.flag(meaning) else default,
    encode=lambda value: value is not Checkpointing.NONE,
)
_ROLLOUT = (
    Plain[Context]("memory_fraction", "rollout.fraction", _FRACTION, default=0.6),
    Plain[Context]("tensor_parallel", "rollout.tensor", COUNT, default=1),
    Plain[Context]("cuda_graphs", "rollout.eager", NEGATED_FLAG, default=True),
    Plain[Context]("max_sequences", "rollout.sequences", COUNT),
    Plain[Context]("max_batched_tokens", "rollout.batched_tokens", COUNT),
)
_DTENSOR = (
    Plain[Context]("checkpointing", "dtensor.checkpointing", _RECOMPUTED, default=Checkpointing.NONE),
    Plain[Context]("streamed_offload", "dtensor.offload", FLAG, default=False),
)
_MEGATRON = (
    Plain[Context]("checkpointing", "megatron.checkpointing", _RECOMPUTED, default=Checkpointing.NONE),
    Plain[Context]("parallel.tensor", "megatron.tensor", COUNT, default=1),
    Plain[Context]("parallel.pipeline", "megatron.pipeline", COUNT, default=1),
    Plain[Context]("parallel.context", "megatron.context", COUNT, default=1),
    Plain[Context]("parallel.expert", "megatron.expert", COUNT, default=1),
    Plain[Context]("fused_rotary", "megatron.fused_rotary", FLAG, default=False),
)
#: What the release makes of other settings; a proposal need not say it.
_OF_ENGINE = (
    "bucket_tokens",
    "attention",
    "reads_positions",
    "main_weight_bytes",
)


def parts(
    source: SettingsByMeaning, workload: Workload, *, tied: bool | None = None
) -> Iterator[WorkloadPart]:
    """The parts, each with the keys that are read for it.

    Args:
        source: the settings.
        workload: what they are to be read as.
        tied: whether micro-batches of log-probabilities follow those of training; None: as the settings are.
    """
    tied = are_tied(source) if tied is None else tied
    context = Context(source=source)
    megatron = workload.actor.engine.backend is Backend.MEGATRON
    if workload.rollout is not None:
        yield WorkloadPart(path=("rollout",), fields=_ROLLOUT, context=context, following=("capture_sizes",))
        yield WorkloadPart(path=("sync",), following=("bucket_bytes",))
    yield WorkloadPart(
        path=("actor", "engine"),
        fields=_MEGATRON if megatron else _DTENSOR,
        context=context,
        following=_OF_ENGINE,
    )
    way = "packed" if source.flag("packed") else "dynamic" if source.flag("dynamic") else ""
    ranks = workload.actor.engine.parallel.context
    budget = f"{way}.budget" if way else "micro_batch"
    yield _batching(context, ("actor", "update", "batching"), budget, ranks)
    log_prob = f"{way}.log_prob_budget" if way else "log_prob_micro_batch"
    if workload.actor.log_prob is not None and not way and tied:
        both = ("micro_batch_sequences", "token_budget", "fills_budget")
        yield WorkloadPart(path=("actor", "log_prob", "batching"), following=both)
    elif workload.actor.log_prob is not None:
        yield _batching(context, ("actor", "log_prob", "batching"), log_prob, ranks)
    if workload.reference is not None:
        yield WorkloadPart(path=("reference",), following=("engine", "head", "log_prob"))


def free_fields(before: Workload, after: Workload) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Fields that another change brings along: what streams its weights from the host needs not move them."""
    streams = before.actor.engine.streamed_offload != after.actor.engine.streamed_offload
    return {("actor", "engine"): ("param_offload", "optimizer_offload")} if streams else {}


def _batching(context: Context, path: tuple[str, ...], meaning: str, ranks: int) -> WorkloadPart:
    """How a pass is cut: by a budget where sequences are packed, else by their number.

    A budget is that of all ranks that share a sequence.
    """
    static = meaning.endswith("micro_batch")
    field = "micro_batch_sequences" if static else "token_budget"
    other = "token_budget" if static else "micro_batch_sequences"
    form = COUNT if static else _budget(ranks)
    return WorkloadPart(
        path=path,
        fields=(Plain[Context](field, meaning, form),),
        context=context,
        following=(other, "fills_budget"),
    )


def _budget(ranks: int) -> Form:
    return Form(
        decode=lambda source, meaning, default: ceil(source.integer(meaning, default=default) / ranks),
        encode=lambda tokens: tokens * ranks,
    )


_OF_GENERATION = {
    "data.max_input_seq_length": Quantity.MAX_PROMPT_TOKENS,
    "policy.generation.max_new_tokens": Quantity.MAX_RESPONSE_TOKENS,
    "policy.generation.vllm_cfg.gpu_memory_utilization": Quantity.MEMORY_FRACTION,
}
_OF_GIVEN = {"policy.max_total_sequence_length": Quantity.MAX_RESPONSE_TOKENS}
_OF_TRAINING = {
    "policy.train_micro_batch_size": Quantity.MICRO_BATCH_SEQUENCES,
    "policy.sequence_packing.train_mb_tokens": Quantity.TOKEN_BUDGET,
    "policy.dtensor_cfg.activation_checkpointing": Quantity.CHECKPOINTING,
    "policy.megatron_cfg.activation_checkpointing": Quantity.CHECKPOINTING,
    "policy.sequence_packing.enabled": Quantity.PACKED,
}
QUANTITIES = {**_OF_GENERATION, **_OF_TRAINING}


def quantities_of(*, generates: bool) -> dict[str, Quantity]:
    """The keys behind which a quantity stands, in a job that generates or in one that learns from data."""
    return QUANTITIES if generates else {**_OF_GIVEN, **_OF_TRAINING}
