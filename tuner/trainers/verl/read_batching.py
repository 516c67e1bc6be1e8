"""Reads how many tokens a micro-batch brings: budgets, static sizes, and what exceeds a budget."""

from typing import Literal

from tuner.trainers.verl.source import Source
from tuner.workload import Backend, Batch, Batching, Engine

BatchRole = Literal["actor", "log_prob", "ref", "critic", "values"]

_DEFAULT_BUDGET = {"actor": 16384, "log_prob": 16384, "ref": 16384, "critic": 32768, "values": 32768}


def read_batch(source: Source) -> Batch:
    """Sizes of one step."""
    source.integer("batch.generated_prompts")  # prompts of one round of filtered generation: checked only
    mini_batch = source.integer("batch.mini_batch_prompts", default=256)
    return Batch(
        prompts=_prompts(source, mini_batch),
        responses_per_prompt=source.integer("batch.responses_per_prompt", default=1),
        mini_batch_prompts=mini_batch,
        epochs=source.integer("batch.epochs", default=1),
        max_prompt_tokens=source.integer("batch.max_prompt_tokens", default=512),
        max_response_tokens=source.integer("batch.max_response_tokens", default=512),
    )


def _prompts(source: Source, mini_batch: int) -> int:
    """Prompts of one step; 0 where the asynchronous recipe streams them in mini-batches."""
    if source.value("batch.prompts") == 0 and source.value("recipe.rollout_nodes") is not None:
        return mini_batch * source.integer("recipe.mini_batches", default=1)
    return source.integer("batch.prompts", default=1024)


def read_batching(source: Source, role: BatchRole, engine: Engine) -> Batching:
    """Batching of one pass.

    Args:
        source: the settings.
        role: whose keys count.
        engine: the engine that runs the pass.
    """
    return Batching(
        dynamic=_dynamic(source, role, engine),
        token_budget=_token_budget(source, role),
        micro_batch_sequences=_micro_batch(source, role, engine),
        hard_limit=source.since("0.9.1"),  # adds micro-batches until every one is within the budget
    )


def _dynamic(source: Source, role: BatchRole, engine: Engine) -> bool:
    if not source.engine_workers:
        return source.flag(f"{'critic' if role == 'values' else role}.dynamic")
    if role in ("critic", "values"):  # the engine's own default, which the critic's keys never reach
        return source.flag(f"critic.{_section(engine)}.use_dynamic_bsz", default=True)
    # the actor's flag holds for its log-probabilities too; verl asserts that the other key is equal
    return source.flag("ref.dynamic" if role == "ref" else "actor.dynamic")


def _token_budget(source: Source, role: BatchRole) -> int:
    # the V1 trainer gives the critic's inference budget to its training as well
    meaning = "values" if role == "critic" and source.v1_trainer else role
    return source.integer(f"{meaning}.token_budget", default=_DEFAULT_BUDGET[role])


def _micro_batch(source: Source, role: BatchRole, engine: Engine) -> int:
    """Sequences per micro-batch and data-parallel rank; 1 where nothing says.

    The deprecated global size, divided over the data-parallel ranks, wins where a release reads it.
    """
    if role in ("critic", "values") and source.engine_workers:
        name = "micro_batch_size_per_gpu" if role == "critic" else "infer_micro_batch_size_per_gpu"
        return source.integer(f"critic.{_section(engine)}.{name}", default=1)
    if role == "values" and engine.backend is Backend.MEGATRON:
        role = "critic"  # Megatron's critic has one size for both passes
    everywhere = source.integer(f"{role}.global_micro_batch")
    if everywhere is not None:
        return max(1, everywhere // engine.parallel.data)
    return source.integer(f"{role}.micro_batch", default=1)


def _section(engine: Engine) -> str:
    return "megatron" if engine.backend is Backend.MEGATRON else "fsdp"
