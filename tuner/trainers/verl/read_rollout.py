"""Reads the rollout engine and how new weights reach it."""

from tuner.dtypes import DType, parse_dtype
from tuner.errors import InputError
from tuner.hardware import Gpu
from tuner.model_shape import ModelShape
from tuner.serving import sglang, tensorrt_llm, vllm
from tuner.trainers.verl.rollout_engine_versions import newest_allowed
from tuner.trainers.verl.rollout_facts import (
    gathers_whole_model,
    memory_facts,
    sleep_facts,
    sleep_level,
    sync_facts,
)
from tuner.trainers.verl.source import Source
from tuner.units import MIB
from tuner.workload import (
    Batch,
    Engine,
    Rollout,
    RolloutEngine,
    WeightSync,
)

_ENGINES = {
    "vllm": RolloutEngine.VLLM,
    "sglang": RolloutEngine.SGLANG,
    "sglang_async": RolloutEngine.SGLANG,
    "trtllm": RolloutEngine.TENSORRT_LLM,
    "hf": RolloutEngine.TRANSFORMERS,
}
_DEFAULT_SEQUENCES = {  # vLLM's depend on its version
    RolloutEngine.SGLANG: sglang.DEFAULT_SEQUENCES,
    RolloutEngine.TENSORRT_LLM: tensorrt_llm.DEFAULT_SEQUENCES,
    RolloutEngine.TRANSFORMERS: 256,
}


def read_rollout(
    source: Source,
    model: ModelShape,
    batch: Batch,
    actor: Engine,
    gpu: Gpu,
    rollout_engine_version: str | None,
) -> Rollout:
    """The generation engine; ``rollout_engine_version`` None takes the newest that the release allows.

    Raises:
        InputError: an unknown rollout_engine is named, or one replica needs more GPUs than there are.
        UnsupportedError: this version of the engine cannot serve the model or its adapters.
    """
    rollout_engine = read_rollout_engine(source)
    version = rollout_engine_version or newest_allowed(rollout_engine, source.version)
    colocated, gpus = _placement(source, actor.parallel.gpus)
    tensor, data, pipeline = _replica(source, rollout_engine, gpus)
    return Rollout(
        engine=rollout_engine,
        engine_version=version,
        memory_fraction=_fraction(source, colocated=colocated),
        tensor_parallel=tensor,
        data_parallel=data,
        pipeline_parallel=pipeline,
        expert_parallel=source.integer("rollout.expert_parallel", default=1),
        weight_dtype=_weight_dtype(source, rollout_engine),
        kv_dtype=_kv_dtype(source, rollout_engine),
        max_sequences=_max_sequences(source, rollout_engine, version, gpu),
        sequences_adjustable=source.key("rollout.max_sequences") is not None,
        max_batched_tokens=_max_batched_tokens(source, rollout_engine),
        max_model_tokens=_max_model_tokens(source, batch),
        cuda_graphs=_cuda_graphs(source, rollout_engine),
        capture_sizes=_capture_sizes(source, rollout_engine, version),
        chunked_prefill=source.flag("rollout.chunked_prefill", default=True),
        prefix_caching=source.flag("rollout.prefix_caching", default=True),
        sleep_level=sleep_level(source, rollout_engine, version, actor),
        log_stats=not source.flag("rollout.disable_log_stats", default=True),
        colocated=colocated,
        gpus=gpus,
        **sleep_facts(source, rollout_engine, version),
        **memory_facts(source, rollout_engine, version, model, actor),
    )


def read_sync(source: Source, model: ModelShape, rollout: Rollout, actor: Engine) -> WeightSync:
    """How new weights travel. Up to 0.6 only SGLang gets them in buckets."""
    bucketed = rollout.engine is RolloutEngine.SGLANG or (
        source.since("0.7.0") and rollout.engine is not RolloutEngine.TRANSFORMERS
    )
    megabytes = source.integer("sync.bucket_megabytes", default=2048 if source.since("0.7.0") else 512)
    known = source.key("sync.bucket_megabytes") is not None
    return WeightSync(
        bucket_bytes=megabytes * MIB if bucketed and known else 0,
        gathers_whole_model=gathers_whole_model(source, rollout, actor),
        smallest_bucket_bytes=_largest_tensor(source, model, actor)
        if _asserts_bucket(source, rollout)
        else 0,
        **sync_facts(source, rollout, actor),
    )


def _asserts_bucket(source: Source, rollout: Rollout) -> bool:
    """0.7.1 refuses a tensor larger than vLLM's bucket; later releases send it on its own."""
    return rollout.engine is RolloutEngine.VLLM and source.since("0.7.0") and not source.since("0.8.0")


def _largest_tensor(source: Source, model: ModelShape, actor: Engine) -> int:
    # the embedding, as stored; the model engines cast to bfloat16 before they send
    dtype = DType.BFLOAT16 if source.engine_workers else actor.stored_dtype
    return model.embedding_parameters * dtype.bytes


def read_rollout_engine(source: Source) -> RolloutEngine:
    """The engine; vLLM where none is named, which a check reports."""
    return _ENGINES[source.choice("rollout.engine", tuple(_ENGINES), default="vllm")]


def _replica(source: Source, rollout_engine: RolloutEngine, gpus: int) -> tuple[int, int, int]:
    """Tensor, data and pipeline size of one replica."""
    tensor = source.integer("rollout.tensor_parallel", default=2)
    data = source.integer("rollout.data_parallel", default=1)
    pipeline = source.integer("rollout.pipeline_parallel", default=1)
    if rollout_engine is RolloutEngine.TRANSFORMERS:
        return 1, 1, 1  # generates with the trainer's own model
    if tensor * data * pipeline > gpus:
        raise source.error(
            "rollout.tensor_parallel",
            f"a replica needs tensor {tensor} x data {data} x pipeline {pipeline} GPUs, there are {gpus}",
            hint="lower the parallel sizes, or set trainer.n_gpus_per_node and trainer.nnodes",
        )
    return tensor, data, pipeline


def _placement(source: Source, trainer_gpus: int) -> tuple[bool, int]:
    """Whether generation shares the trainer's GPUs, and the GPUs it runs on.

    The asynchronous trainers name GPUs of their own for it; ``hybrid_engine=False`` leaves it only those.
    """
    nodes = source.integer("recipe.rollout_nodes", default=0, minimum=0)
    per_node = source.integer("recipe.rollout_gpus_per_node", default=0, minimum=0)
    if source.v1_trainer and source.text("v1_mode", default="sync") == "separate_async":
        nodes = source.integer("rollout.nodes", default=0, minimum=0)
        per_node = source.integer("rollout.gpus_per_node", default=0, minimum=0)
        if source.flag("hybrid_engine", default=True):
            return True, trainer_gpus + nodes * per_node
    own = nodes * per_node
    return (False, own) if own else (True, trainer_gpus)


def _fraction(source: Source, *, colocated: bool) -> float:
    shared = source.number("rollout.memory_fraction", default=0.5, minimum=0.0, maximum=1.0)
    alone = source.number("rollout.standalone_fraction", default=shared, minimum=0.0, maximum=1.0)
    return shared if colocated else alone


def _weight_dtype(source: Source, rollout_engine: RolloutEngine) -> DType:
    """The weights' dtype; fp8 when verl or the engine quantises them."""
    stored = source.dtype("rollout.dtype", default=DType.BFLOAT16)
    asked = {source.text("rollout.quantization", default="")}
    if rollout_engine in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        asked.add(source.text(f"rollout.{rollout_engine.value}_quantization", default=""))
    return DType.FLOAT8 if any("fp8" in word for word in asked) else stored


def _kv_dtype(source: Source, rollout_engine: RolloutEngine) -> DType:
    """The cache's dtype: the weights' before quantisation unless the rollout_engine is told otherwise."""
    stored = source.dtype("rollout.dtype", default=DType.BFLOAT16)
    if rollout_engine not in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        return stored
    meaning = f"rollout.{rollout_engine.value}_kv_dtype"
    word = source.text(meaning, default="auto")
    if word == "auto":
        return stored
    if word.startswith("fp8"):  # fp8, fp8_e4m3, fp8_e5m2, fp8_inc
        return DType.FLOAT8
    try:
        return parse_dtype(word)
    except InputError as error:
        raise source.error(meaning, error.message, hint=error.hint) from None


def _capture_sizes(source: Source, rollout_engine: RolloutEngine, version: str) -> tuple[int, ...] | None:
    """Batch sizes of CUDA graphs; SGLang is never told, and None is the engine's own list."""
    if rollout_engine is RolloutEngine.SGLANG:
        return None
    sizes = source.sizes("rollout.capture_sizes")
    if sizes is None and rollout_engine is RolloutEngine.VLLM:
        return vllm.default_capture_sizes(version)
    return sizes


def _max_sequences(source: Source, rollout_engine: RolloutEngine, version: str, gpu: Gpu) -> int:
    """Sequences an engine runs at once; verl passes no limit before 0.6."""
    if source.key("rollout.max_sequences") is None:
        if rollout_engine is RolloutEngine.VLLM:
            return vllm.default_sequences(version, gpu)
        return _DEFAULT_SEQUENCES[rollout_engine]
    return source.integer("rollout.max_sequences", default=256 if source.since("0.9.0") else 1024)


def _max_batched_tokens(source: Source, rollout_engine: RolloutEngine) -> int:
    """Tokens of one engine step; SGLang is never told and prefills in chunks of its own size."""
    given = source.integer("rollout.max_batched_tokens", default=8192)
    return sglang.PREFILL_TOKENS if rollout_engine is RolloutEngine.SGLANG else given


def _max_model_tokens(source: Source, batch: Batch) -> int | None:
    """The longest sequence the rollout_engine is built for.

    Prompt and response up to 0.6 (0.6.1's server whatever the key says), the model's limit later.
    """
    given = source.integer("rollout.max_model_tokens")
    if source.since("0.7.0"):
        return given
    both = source.integer("rollout.prompt_length", default=batch.max_prompt_tokens) + source.integer(
        "rollout.response_length", default=batch.max_response_tokens
    )
    serves = source.since("0.6.0") and _is_async(source)
    return both if given is None or serves else given


def _is_async(source: Source) -> bool:
    return source.text("rollout.mode", default="async" if source.since("0.7.0") else "sync") != "sync"


def _cuda_graphs(source: Source, rollout_engine: RolloutEngine) -> bool:
    """SGLang captures graphs whatever the key says until its server came."""
    eager = source.flag("rollout.enforce_eager")
    if rollout_engine is RolloutEngine.SGLANG and not (source.since("0.6.0") and _is_async(source)):
        return True
    return not eager
