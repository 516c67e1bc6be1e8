"""Reads the rollout engine: which one, and where it runs."""

from collections.abc import Mapping
from typing import Any

from tuner.counted import counted
from tuner.hardware import Gpu
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    read_fields,
)
from tuner.trainers.verl.fields.rollout_fields import (
    BESIDE_FRACTION,
    FRACTION,
    RolloutContext,
    adjusts_sequences,
)
from tuner.trainers.verl.models_built import built_models
from tuner.trainers.verl.roles import trains_apart
from tuner.trainers.verl.rollout_engine_versions import newest_allowed
from tuner.trainers.verl.rollout_facts import has_own_positions, memory_facts, sleep_level
from tuner.trainers.verl.rollout_names import ENGINES, engine_of_own_rollout
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Batch, Engine, Rollout, RolloutEngine

#: Before, what generates puts the engine to sleep, whatever loop calls it.
#: Source: verl 0.7.0 ``experimental/agent_loop/agent_loop.py:958``, 0.7.1 ``trainer/ppo/ray_trainer.py``.
_LOOP_SLEEPS = "0.7.1"

_HANDED = 16  # prompts, where no key says how many

#: What a release makes of the other fields; a proposal need not say it.
FOLLOWING = (
    "least_unchunked_tokens",
    "sleep_level",
    "sleeps_with_weights",
    "sleeps_with_cache",  # as the engine of verl up to 0.4 does with CUDA graphs
    "quantizes_cache",
)

#: The files of releases whose rollouts call an engine in the worker: others of a copy may be left over.
_IN_WORKERS = {
    RolloutEngine.VLLM: ("/vllm_rollout/vllm_rollout.py", "/vllm_rollout/vllm_rollout_spmd.py"),
    RolloutEngine.SGLANG: ("/sglang_rollout/sglang_rollout.py",),
}
_BY_REQUEST = "req_level"  # in the name of the function that generates the turns of a conversation


def read_rollout(
    source: ReleaseSettings,
    model: ModelShape,
    batch: Batch,
    actor: Engine,
    gpu: Gpu,
    rollout_engine_version: str | None,
) -> Rollout:
    """The generation engine; ``rollout_engine_version`` None takes the newest that the release allows.

    Raises:
        InputError: an unknown engine is named, or one replica needs more GPUs than there are.
        UnsupportedError: this version of the engine cannot serve the model or its adapters.
    """
    rollout_engine = read_rollout_engine(source)
    version = rollout_engine_version or newest_allowed(rollout_engine, source.version)
    colocated, gpus, node_gpus = _placement(source, actor.parallel.gpus)
    context = RolloutContext(
        source=source,
        rollout_engine=rollout_engine,
        version=version,
        colocated=colocated,
        max_prompt_tokens=batch.max_prompt_tokens,
        max_response_tokens=batch.max_response_tokens,
        model=model,
        gpu=gpu,
    )
    fields = read_fields(FRACTION, context) | _beside_fraction(context)
    expect_gpus(context, fields, gpus)
    return Rollout(
        engine=rollout_engine,
        engine_version=version,
        **fields,
        sequences_adjustable=adjusts_sequences(context),
        least_unchunked_tokens=_least_unchunked_tokens(context, fields["max_model_tokens"], model),
        sleep_known=source.settings.own_loop is None or not source.since(_LOOP_SLEEPS),
        sleep_level=sleep_level(source, rollout_engine, version, actor),
        colocated=colocated,
        apart_with=_trainers_apart(source, rollout_engine),
        gpus=gpus,
        node_gpus=node_gpus,
        prompts_at_once=_prompts_at_once(source),
        **_chunks(source, rollout_engine),
        **memory_facts(source, rollout_engine, version, model, actor),
    )


def engine_tokens(source: ReleaseSettings, batch: Batch, rollout: Rollout, model: ModelShape) -> int | None:
    """Where the engine ends a sequence that prompt and response leave room for; None where it ends none.

    Servers since 0.7 give a response what its prompt leaves of ``max_model_len``, which is the model's own
    where it is not set; before, vLLM itself ends it there, and SGLang is never told. What was trained from a
    model whose name is contained in another may have more positions than it. A project that calls the engine
    for each turn, with the end of what there is, puts together longer sequences than the engine sees.

    Source: verl 0.7.1 ``workers/rollout/vllm_rollout/vllm_async_server.py`` and
    ``workers/rollout/sglang_rollout/async_sglang_server.py`` (``max_possible_tokens``), vLLM 0.11.0
    ``v1/core/sched/utils.py`` (``check_stop``); Search-R1 at commit a14dc3a
    ``search_r1/llm_agent/generation.py`` (``_update_rolling_state``, ``_update_right_side``).
    """
    program = source.settings.program
    if program is not None and program.turns_keys:
        return None
    built = rollout.max_model_tokens or model.max_positions
    if built >= batch.sequence_tokens:
        return None
    known = not (model.contained_in or has_own_positions(source.settings))
    if rollout.max_model_tokens is None and not known:
        return None
    told = rollout.engine is RolloutEngine.VLLM or source.since("0.7.0")
    return built if told and rollout.engine is not RolloutEngine.TRANSFORMERS else None


def _beside_fraction(context: RolloutContext) -> dict[str, Any]:
    """The other fields, which no more of the batch and nothing of the trainer's engine decides."""

    def fields(_source: ReleaseSettings, *_context: Any) -> dict[str, Any]:
        return read_fields(BESIDE_FRACTION, context)

    key = (context.rollout_engine, context.version, context.colocated, context.model, context.gpu)
    return context.source.part(
        "rollout.beside_fraction", fields, *key, context.max_prompt_tokens, context.max_response_tokens
    )


def _least_unchunked_tokens(context: RolloutContext, built: int | None, model: ModelShape) -> int:
    """Tokens that a step is given where prompts are not computed in chunks; 0 where vLLM refuses fewer.

    Source: verl 0.9.1 ``workers/rollout/vllm_rollout/vllm_async_server.py`` (``_validate_configs``) raises
    ``max_num_batched_tokens`` to ``max_model_len``; releases before it hand both on as they are.
    """
    raises = context.rollout_engine is RolloutEngine.VLLM and context.source.since("0.9.1")
    return (built or model.max_positions) if raises else 0


def read_rollout_engine(source: ReleaseSettings) -> RolloutEngine:
    """The engine; vLLM where none is named, which a check reports."""
    built_on = engine_of_own_rollout(source.settings, source.text("rollout.engine", default=""))
    return built_on or ENGINES[source.choice("rollout.engine", tuple(ENGINES), default="vllm")]


def expect_gpus(context: RolloutContext, sizes: Mapping[str, int], gpus: int) -> None:
    """Refuse a replica that needs more GPUs than there are.

    Raises:
        InputError: it does.
    """
    tensor, data, pipeline = (sizes[f"{name}_parallel"] for name in ("tensor", "data", "pipeline"))
    if tensor * data * pipeline > gpus:
        raise context.source.error(
            "rollout.tensor_parallel",
            _(
                "a replica needs {needed} (tensor {tensor} x data {data} x pipeline {pipeline}), "
                "the rollout has {gpus}"
            ).format(
                needed=counted(tensor * data * pipeline, "GPU"),
                tensor=tensor,
                data=data,
                pipeline=pipeline,
                gpus=counted(gpus, "GPU"),
            ),
            hint=_("lower the parallel sizes, or set trainer.n_gpus_per_node and trainer.nnodes"),
        )


def _trainers_apart(source: ReleaseSettings, rollout_engine: RolloutEngine) -> tuple[str, ...]:
    """The trainers of the release's package that generate on GPUs of their own.

    Source: verl 0.8.0 ``experimental`` (0.7.1 has the configurations and no code), 0.9.0 ``trainer/ppo/v1``.
    """
    if rollout_engine not in (RolloutEngine.VLLM, RolloutEngine.SGLANG) or not source.since("0.8.0"):
        return ()
    recipes = ("one_step_off_policy", "fully_async_policy")
    return (*recipes, "separate_async") if source.since("0.9.0") else recipes


# -- where it runs ----------------------------------------------------------------------------


def _placement(source: ReleaseSettings, trainer_gpus: int) -> tuple[bool, int, int | None]:
    """Whether generation shares the trainer's GPUs, the GPUs it runs on, and those of a node of its own.

    The asynchronous trainers name GPUs of their own for it; ``hybrid_engine=False`` leaves it only those. The
    program of a copy may give it a pool of its own.
    """
    if trains_apart(source):
        per_node = source.integer("gpus_per_node", default=8)
        return False, per_node * source.integer("nodes", default=1), per_node
    nodes = source.integer("recipe.rollout_nodes", default=0, minimum=0)
    per_node = source.integer("recipe.rollout_gpus_per_node", default=0, minimum=0)
    if source.v1_trainer and source.text("v1_mode", default="sync") == "separate_async":
        nodes = source.integer("rollout.nodes", default=0, minimum=0)
        per_node = source.integer("rollout.gpus_per_node", default=0, minimum=0)
        if source.flag("hybrid_engine", default=True):
            return True, trainer_gpus + nodes * per_node, None
    if nodes * per_node:
        return False, nodes * per_node, per_node
    own = built_models(source.settings).rollout_gpus or 0
    return (False, own, None) if own else (True, trainer_gpus, None)


def _prompts_at_once(source: ReleaseSettings) -> int | None:
    """Prompts that the fully asynchronous trainer hands to a replica at a time; None of other trainers.

    Source: verl 0.8.0 ``experimental/fully_async_policy/fully_async_rollouter.py:541``, 0.9.0 and 0.9.1
    ``fully_async_rollouter.py:503`` (``concurrent_samples_per_replica``).
    """
    if source.settings.program is not None or source.value("recipe.mini_batches") is None:
        return None
    return source.integer("recipe.prompts_per_replica", default=_HANDED, minimum=1)


def _chunks(source: ReleaseSettings, engine: RolloutEngine) -> dict[str, Any]:
    """How many sequences a copy's own loop hands to an engine at a time; nothing where there is no such loop.

    An engine that serves requests gets all of them, whatever the loop in the worker does.

    Source: verl 0.6.1 ``workers/rollout/sglang_rollout/sglang_rollout.py`` (``generate_sequences``): by
    requests where ``multi_turn.enable`` is set.
    """
    settings = source.settings
    if engine not in _IN_WORKERS or source.text("rollout.mode", default="sync") != "sync":
        return {}
    turns = source.flag("conversation.enable", default=False)
    for chunks in source.copy.rollout_chunks:
        if not chunks.file.endswith(_IN_WORKERS[engine]) or (_BY_REQUEST in chunks.function) is not turns:
            continue
        value = settings.get(chunks.key) if chunks.key else None
        number = value if isinstance(value, int) and value > 0 else chunks.number
        return {"chunks_unknown": True} if number is None else {"sequences_at_once": max(1, number)}
    return {}
