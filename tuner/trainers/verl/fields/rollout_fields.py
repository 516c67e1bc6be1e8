"""Fields of the rollout engine: its sizes, formats and switches."""

from tuner.dtypes import DType, parse_dtype
from tuner.errors import InputError
from tuner.hardware import Gpu
from tuner.model_shape import ModelShape
from tuner.serving import sglang, tensorrt_llm, vllm
from tuner.trainers.fields import (
    COUNT,
    FLAG,
    NEGATED_FLAG,
    SIZES,
    Assignments,
    Field,
    Plain,
    Ruled,
)
from tuner.trainers.verl import sglang_arguments, vllm_arguments
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.rollout_facts import sleeps_with_cache
from tuner.trainers.verl.sglang_arguments import has_server
from tuner.versions import at_least
from tuner.workload import Rollout, RolloutEngine

_DEFAULT_SEQUENCES = {  # vLLM's depend on its version
    RolloutEngine.SGLANG: sglang.DEFAULT_SEQUENCES,
    RolloutEngine.TENSORRT_LLM: tensorrt_llm.DEFAULT_SEQUENCES,
    RolloutEngine.TRANSFORMERS: 256,
}


class RolloutContext(ReleaseContext, frozen=True, kw_only=True):
    """What reading the rollout takes."""

    rollout_engine: RolloutEngine
    version: str  # of the rollout engine
    colocated: bool
    max_prompt_tokens: int
    max_response_tokens: int
    model: ModelShape
    gpu: Gpu


def _fraction(context: RolloutContext) -> float:
    source = context.source
    own = _fraction_of_engine(context)
    if own is not None:
        return source.number(own, default=0.5, minimum=0.0, maximum=1.0)
    shared = source.number("rollout.memory_fraction", default=0.5, minimum=0.0, maximum=1.0)
    alone = source.number("rollout.standalone_fraction", default=shared, minimum=0.0, maximum=1.0)
    return shared if context.colocated else alone


def _fraction_of_engine(context: RolloutContext) -> str | None:
    """The meaning of SGLang's own argument, where that is handed on; None where verl's keys decide."""
    if context.rollout_engine is not RolloutEngine.SGLANG:
        return None
    meaning = sglang_arguments.deciding_meaning(context.source, "rollout.sglang_fraction", "")
    return meaning or None


def _set_fraction(context: RolloutContext, rollout: Rollout) -> Assignments:
    own = _fraction_of_engine(context)
    if own is not None:
        return ((own, rollout.memory_fraction),)
    alone = not context.colocated and context.source.value("rollout.standalone_fraction") is not None
    meaning = "rollout.standalone_fraction" if alone else "rollout.memory_fraction"
    return ((meaning, rollout.memory_fraction),)


# -- sizes ------------------------------------------------------------------------------------


def serves(context: RolloutContext) -> bool:
    """Whether an engine of its own generates, not the trainer's own model."""
    return context.rollout_engine is not RolloutEngine.TRANSFORMERS


def _is_told(context: RolloutContext) -> bool:
    """Whether verl passes the engine its sizes; SGLang takes its own."""
    return context.rollout_engine is not RolloutEngine.SGLANG


def adjusts_sequences(context: RolloutContext) -> bool:
    """Whether a key limits the sequences that run at once; verl passes no limit before 0.6."""
    return context.source.key("rollout.max_sequences") is not None


def _sequences_meaning(context: RolloutContext) -> str:
    """The key that limits the sequences that run at once, before which SGLang's own argument comes."""
    if context.rollout_engine is not RolloutEngine.SGLANG:
        return "rollout.max_sequences"
    return sglang_arguments.deciding_meaning(
        context.source, "rollout.sglang_sequences", "rollout.max_sequences"
    )


def _default_sequences(context: RolloutContext) -> int:
    if context.rollout_engine is RolloutEngine.VLLM:
        return vllm.default_sequences(context.version, context.gpu)
    return _DEFAULT_SEQUENCES[context.rollout_engine]


def _max_batched_tokens(context: RolloutContext) -> int:
    """What SGLang takes, which verl does not tell."""
    return sglang_arguments.prefill_tokens(context.source, context.version, context.gpu)


def _default_capture_sizes(context: RolloutContext) -> tuple[int, ...] | None:
    if context.rollout_engine is RolloutEngine.SGLANG:
        return sglang_arguments.capture_sizes(context.source, context.version, context.gpu)
    if context.rollout_engine is not RolloutEngine.VLLM:
        return None
    return vllm.default_capture_sizes(context.version)


def _capture_sizes(context: RolloutContext) -> tuple[int, ...] | None:
    """As verl tells the engine, which it does not tell SGLang."""
    default = _default_capture_sizes(context)
    if not _is_told(context):
        return default
    own = vllm_arguments.capture_sizes(context.source, context.rollout_engine)
    sizes: tuple[int, ...] | None = SIZES.decode(context.source, "rollout.capture_sizes", own or default)
    return sizes


def _set_capture_sizes(context: RolloutContext, rollout: Rollout) -> Assignments:
    """SGLang is told the largest by an argument of its own, and vLLM refuses two lists."""
    if _is_told(context):
        own = vllm_arguments.capture_sizes(context.source, context.rollout_engine) is not None
        meaning = "rollout.vllm_capture_sizes" if own else "rollout.capture_sizes"
        return ((meaning, SIZES.encode(rollout.capture_sizes)),)
    largest = None if rollout.capture_sizes is None else max(rollout.capture_sizes)
    return (("rollout.sglang_largest_graph", largest),)


def _max_model_tokens(context: RolloutContext) -> int | None:
    """The longest sequence the engine is built for.

    Prompt and response up to 0.6 (its servers whatever the key says), the model's limit later.
    """
    source = context.source
    limit = source.integer("rollout.max_model_tokens")
    if source.since("0.7.0"):
        return limit
    both = source.integer("rollout.prompt_length", default=context.max_prompt_tokens) + source.integer(
        "rollout.response_length", default=context.max_response_tokens
    )
    is_set = not has_server(source)
    return limit if is_set and limit is not None else both


def _set_max_model_tokens(context: RolloutContext, rollout: Rollout) -> Assignments:
    return (("rollout.max_model_tokens", rollout.max_model_tokens),)


def _logs_stats(context: RolloutContext) -> bool:
    """Whether a switch makes the engine log its statistics.

    verl hands it to vLLM alone. Without a server there is the ``LLM`` class of vLLM, which logs nothing by
    itself since 0.8.

    Source: verl 0.3.0.post1 to 0.9.1 ``workers/rollout/vllm_rollout`` (``disable_log_stats``); vLLM 0.9.1
    ``vllm/v1/engine/llm_engine.py``, against ``vllm/engine/llm_engine.py`` (``LoggingStatLogger``).
    """
    if context.rollout_engine is not RolloutEngine.VLLM:
        return False
    default = "async" if context.source.since("0.7.0") else "sync"
    served = context.source.text("rollout.mode", default=default) != "sync"
    return served or not at_least(context.version, "0.8.0")


# -- formats ----------------------------------------------------------------------------------


def _is_told_formats(context: RolloutContext) -> bool:
    """Whether arguments of the engine's own reach it."""
    if context.rollout_engine is RolloutEngine.SGLANG:
        return sglang_arguments.hands_on_arguments(context.source)
    return context.rollout_engine is RolloutEngine.VLLM


def _weight_dtype(context: RolloutContext) -> DType:
    """The weights' dtype; fp8 when verl or the engine quantises them."""
    source, rollout_engine = context.source, context.rollout_engine
    stored = source.dtype("rollout.dtype", default=DType.BFLOAT16)
    quantizations = {source.text("rollout.quantization", default="")}
    if _is_told_formats(context):
        quantizations.add(source.text(f"rollout.{rollout_engine.value}_quantization", default=""))
    return DType.FLOAT8 if any("fp8" in word for word in quantizations) else stored


def _set_weight_dtype(context: RolloutContext, rollout: Rollout) -> Assignments:
    return (("rollout.quantization", "fp8" if rollout.weight_dtype is DType.FLOAT8 else None),)


def _kv_dtype(context: RolloutContext) -> DType:
    """The cache's dtype: the weights' before quantisation unless the engine is told otherwise."""
    source = context.source
    stored = source.dtype("rollout.dtype", default=DType.BFLOAT16)
    if not _is_told_formats(context):
        return stored
    meaning = f"rollout.{context.rollout_engine.value}_kv_dtype"
    word = source.text(meaning, default="auto")
    if word == "auto":
        return stored
    if word.startswith("fp8"):  # fp8, fp8_e4m3, fp8_e5m2, fp8_inc
        return DType.FLOAT8
    try:
        return parse_dtype(word)
    except InputError as error:
        raise source.error(meaning, error.message, hint=error.hint) from None


def _set_kv_dtype(context: RolloutContext, rollout: Rollout) -> Assignments:
    """The engine can be told fp8, and to do as with the weights."""
    if context.rollout_engine not in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        return ()
    eight_bits = "fp8" if context.rollout_engine is RolloutEngine.VLLM else sglang.EIGHT_BIT_CACHE
    word = eight_bits if rollout.kv_dtype is DType.FLOAT8 else "auto"
    return ((f"rollout.{context.rollout_engine.value}_kv_dtype", word),)


# -- switches ---------------------------------------------------------------------------------


_SLEEP_MODE = "rollout.sleep_mode"


def _frees_memory(context: RolloutContext) -> bool:
    return all(context.source.flag(meaning, default=True) for meaning in ("rollout.free_cache", _SLEEP_MODE))


def _set_frees_memory(context: RolloutContext, rollout: Rollout) -> Assignments:
    """Both switches have to be on; one that the job has off is not seen where the other is told."""
    off = rollout.frees_memory and not context.source.flag(_SLEEP_MODE, default=True)
    return (("rollout.free_cache", rollout.frees_memory), *(((_SLEEP_MODE, True),) if off else ()))


def _sleeps_with_cache(context: RolloutContext) -> bool:
    return sleeps_with_cache(context.source, context.rollout_engine, context.version)


def _set_sleeps_with_cache(_context: RolloutContext, rollout: Rollout) -> Assignments:
    """By the key that decides it for the vLLM of verl up to 0.4; no release has one for others."""
    return (("rollout.unused_free_cache", not rollout.sleeps_with_cache),)


def _switch_told(context: RolloutContext, meaning: str) -> bool | None:
    """What the engine is told by a switch that is on by default; None where it is told nothing.

    The command line of vLLM's server, which verl makes since 0.6.0, has no word for False before 0.9.1.

    Source: verl 0.6.0 ``workers/rollout/vllm_rollout/vllm_async_server.py:249``, 0.7.1
    ``workers/rollout/vllm_rollout/utils.py`` (``build_cli_args_from_config``), 0.9.1 there.
    """
    is_on = context.source.flag(meaning, default=True)
    said = is_on or context.source.since("0.9.1") or not has_server(context.source)
    return is_on if said else None


def _core(context: RolloutContext) -> str:
    """The version of vLLM whose core runs: the older one of two does what the last does that had no other."""
    older = vllm_arguments.runs_older_core(context.source, context.version)
    return vllm.LAST_WITH_OLDER_CORE if older else context.version


def _chunked_prefill(context: RolloutContext) -> bool:
    meaning = "rollout.chunked_prefill"
    if context.rollout_engine is RolloutEngine.VLLM:
        return vllm.chunks_prefill(_core(context), _switch_told(context, meaning))
    if context.rollout_engine is RolloutEngine.SGLANG:
        return sglang_arguments.divides_prompts(context.source)
    return context.source.flag(meaning, default=True)


def _set_chunked_prefill(context: RolloutContext, rollout: Rollout) -> Assignments:
    return (("rollout.chunked_prefill", rollout.chunked_prefill),)


def _prefix_caching(context: RolloutContext) -> bool:
    meaning = "rollout.prefix_caching"
    if context.rollout_engine is RolloutEngine.VLLM:
        return vllm.caches_prefixes(_core(context), context.model, _switch_told(context, meaning))
    if context.rollout_engine is RolloutEngine.SGLANG:
        return sglang_arguments.keeps_prefixes(context.source, context.version, context.model)
    return context.source.flag(meaning, default=True)


def _set_prefix_caching(context: RolloutContext, rollout: Rollout) -> Assignments:
    return (("rollout.prefix_caching", rollout.prefix_caching),)


def _cuda_graphs(context: RolloutContext) -> bool:
    """SGLang captures graphs whatever the key says until its server came."""
    if vllm_arguments.captures_none(context.source, context.rollout_engine, context.version):
        return False
    eager = context.source.flag("rollout.enforce_eager")
    if context.rollout_engine is RolloutEngine.SGLANG and not has_server(context.source):
        return True
    return not eager


def _set_cuda_graphs(context: RolloutContext, rollout: Rollout) -> Assignments:
    unused = "rollout.unused_free_cache"  # 0.4 asserts that it is off together with enforce_eager
    freed = rollout.cuda_graphs and context.source.key(unused) is not None
    return (
        ("rollout.enforce_eager", not rollout.cuda_graphs),
        *(((unused, False),) if freed else ()),
    )


# -- the table --------------------------------------------------------------------------------


def _parallel(path: str, default: int) -> Plain[RolloutContext]:
    return Plain(path, f"rollout.{path}", COUNT, default, heeded=serves, otherwise=1, checked=True)


#: Stands apart: configurations that are alike often differ in it, and nothing else follows from it.
FRACTION: tuple[Field[RolloutContext], ...] = (Ruled("memory_fraction", _fraction, _set_fraction),)
BESIDE_FRACTION: tuple[Field[RolloutContext], ...] = (
    _parallel("tensor_parallel", 2),
    _parallel("data_parallel", 1),
    _parallel("pipeline_parallel", 1),
    Plain("expert_parallel", "rollout.expert_parallel", COUNT, 1),
    Plain(
        "max_sequences",
        _sequences_meaning,
        COUNT,
        lambda context: 256 if context.source.since("0.9.0") else 1024,
        heeded=adjusts_sequences,
        otherwise=_default_sequences,
    ),
    Plain(
        "max_batched_tokens",
        "rollout.max_batched_tokens",
        COUNT,
        8192,
        heeded=_is_told,
        otherwise=_max_batched_tokens,
        checked=True,
    ),
    Ruled("max_model_tokens", _max_model_tokens, _set_max_model_tokens),
    Ruled("chunked_prefill", _chunked_prefill, _set_chunked_prefill),
    Ruled("prefix_caching", _prefix_caching, _set_prefix_caching),
    Ruled("frees_memory", _frees_memory, _set_frees_memory),
    # before the graphs: turning these on keeps the cache
    Ruled("sleeps_with_cache", _sleeps_with_cache, _set_sleeps_with_cache),
    Ruled("capture_sizes", _capture_sizes, _set_capture_sizes),
    Plain("log_stats", "rollout.disable_log_stats", NEGATED_FLAG, False, heeded=_logs_stats),
    Plain("returns_log_probs", "rollout.calculate_log_probs", FLAG, False),
    Ruled("cuda_graphs", _cuda_graphs, _set_cuda_graphs),
    Ruled("weight_dtype", _weight_dtype, _set_weight_dtype),
    Ruled("kv_dtype", _kv_dtype, _set_kv_dtype),
)
ROLLOUT = (*FRACTION, *BESIDE_FRACTION)
