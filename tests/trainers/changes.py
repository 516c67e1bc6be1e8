"""Changes of a workload such as rules propose, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.units import MIB
from tuner.workload import Checkpointing, Engine, HeadKind, Pass, Workload

Change = Callable[[Workload], Workload]


def engines(**changes: Any) -> Change:
    """The actor and a reference of its own, whose switches verl shares."""

    def change(workload: Workload) -> Workload:
        return _on_reference(workload.with_actor_engine(**changes), lambda engine: replace(engine, **changes))

    return change


def actor(**changes: Any) -> Change:
    """The actor's engine."""
    return lambda workload: workload.with_actor_engine(**changes)


def critic(**changes: Any) -> Change:
    """The critic's engine, if there is one."""

    def change(workload: Workload) -> Workload:
        if workload.critic is None:
            return workload
        return workload.with_critic(engine=replace(workload.critic.engine, **changes))

    return change


def reference(**changes: Any) -> Change:
    """The engine of a reference of its own."""
    return lambda workload: _on_reference(workload, lambda engine: replace(engine, **changes))


def head(**changes: Any) -> Change:
    """The output head of the actor and its reference."""

    def change(workload: Workload) -> Workload:
        changed = workload.with_actor_head(**changes)
        if workload.reference is None:
            return changed
        return changed.with_reference(head=replace(workload.reference.head, **changes))

    return change


def rollout(**changes: Any) -> Change:
    """The rollout."""
    return lambda workload: workload.with_rollout(**changes)


def batching(*roles: str, **changes: Any) -> Change:
    """The batching of some passes, of those that there are."""

    def changed(one_pass: Pass) -> Pass:
        return replace(one_pass, batching=replace(one_pass.batching, **changes))

    def change(workload: Workload) -> Workload:
        if "actor" in roles:
            workload = workload.with_actor(update=changed(workload.actor.update))
        if "log_prob" in roles and workload.actor.log_prob is not None:
            workload = workload.with_actor(log_prob=changed(workload.actor.log_prob))
        if "ref" in roles and workload.reference is not None:
            workload = workload.with_reference(log_prob=changed(workload.reference.log_prob))
        if "critic" in roles and workload.critic is not None:
            workload = workload.with_critic(update=changed(workload.critic.update))
        if "values" in roles and workload.critic is not None:
            workload = workload.with_critic(values=changed(workload.critic.values))
        return workload

    return change


def ulysses(ranks: int) -> Change:
    """Ranks that share a sequence, in the actor and its reference."""

    def split(engine: Engine) -> Engine:
        return replace(engine, parallel=replace(engine.parallel, ulysses=ranks))

    return lambda workload: _on_reference(workload.with_actor(engine=split(workload.actor.engine)), split)


def shard(ranks: int) -> Change:
    """Ranks that share the model states, in the actor and its reference."""

    def divided(engine: Engine) -> Engine:
        return replace(engine, parallel=replace(engine.parallel, shard=ranks))

    return lambda workload: _on_reference(workload.with_actor(engine=divided(workload.actor.engine)), divided)


def sync(**changes: Any) -> Change:
    """The weight sync."""
    return lambda workload: replace(workload, sync=replace(workload.sync, **changes))


def _on_reference(workload: Workload, change: Callable[[Engine], Engine]) -> Workload:
    if workload.reference is None or not workload.reference.separate:
        return workload
    return workload.with_reference(engine=change(workload.reference.engine))


_TRAINED = ("actor", "log_prob", "ref")

CHANGES: Mapping[str, Change] = {
    "fraction": rollout(memory_fraction=0.73),
    "rollout tensor": rollout(tensor_parallel=1),
    "sequences": rollout(max_sequences=400),
    "batched tokens": rollout(max_batched_tokens=16384),
    "model tokens": rollout(max_model_tokens=8192),
    "graphs on": rollout(cuda_graphs=True),
    "graphs off": rollout(cuda_graphs=False),
    "capture sizes": rollout(capture_sizes=(1, 2, 4)),
    "chunked prefill": rollout(chunked_prefill=False),
    "prefix caching": rollout(prefix_caching=False),
    "sleep": rollout(frees_memory=False),
    "log stats": rollout(log_stats=True),
    "fp8 cache": rollout(kv_dtype=DType.FLOAT8),
    "fp8 weights": rollout(weight_dtype=DType.FLOAT8),
    "no recomputation": actor(checkpointing=Checkpointing.NONE),
    "recomputation": actor(checkpointing=Checkpointing.FULL),
    "padding": engines(packed=False),
    "activation offload": actor(activation_offload=True),
    "parameter offload": actor(param_offload=True),
    "optimizer offload": actor(optimizer_offload=True),
    "offload policy": actor(streamed_offload=True, param_offload=False, optimizer_offload=False),
    "host optimizer": actor(optimizer_offload_fraction=1.0),
    "no reshard": actor(reshard_after_forward=False),
    "prefetch": actor(forward_prefetch=True),
    "deferred sync": actor(deferred_gradient_sync=True),
    "liger": engines(fused_layers=True),
    "bfloat16 states": actor(stored_dtype=DType.BFLOAT16),
    "bfloat16 reference": reference(stored_dtype=DType.BFLOAT16),
    "bfloat16 reduction": actor(reduce_dtype=DType.BFLOAT16),
    "ulysses": ulysses(2),
    "hybrid sharding": shard(4),
    "fused torch": head(kind=HeadKind.FUSED_TORCH),
    "fused triton": head(kind=HeadKind.FUSED_TRITON),
    "eager entropy": head(compiled=False),
    "entropy chunks": head(chunk_tokens=2048),
    "small entropy chunks": head(chunk_tokens=512),
    "entropy checkpoint": head(checkpointed=True),
    "dynamic": batching(*_TRAINED, dynamic=True),
    "static": batching(*_TRAINED, dynamic=False, micro_batch_sequences=2),
    "all budgets": batching(*_TRAINED, token_budget=24576),
    "actor budget": batching("actor", token_budget=24576),
    "log-prob budget": batching("log_prob", token_budget=49152),
    "reference budget": batching("ref", token_budget=32768),
    "actor micro": batching("actor", micro_batch_sequences=8),
    "log-prob micro": batching("log_prob", micro_batch_sequences=8),
    "reference micro": batching("ref", micro_batch_sequences=8),
    "critic budget": batching("critic", token_budget=65536),
    "values budget": batching("values", token_budget=65536),
    "critic budgets": batching("critic", "values", token_budget=65536),
    "critic static": batching("critic", "values", dynamic=False, micro_batch_sequences=4),
    "critic recomputation": critic(checkpointing=Checkpointing.NONE),
    "critic offload": critic(param_offload=True, optimizer_offload=True),
    "critic padding": critic(packed=False),
    "critic no reshard": critic(reshard_after_forward=False),
    "mini-batch": lambda workload: workload.with_batch(mini_batch_prompts=64),
    "train batch": lambda workload: workload.with_batch(prompts=256),
    "responses": lambda workload: workload.with_batch(responses_per_prompt=4),
    "response tokens": lambda workload: workload.with_batch(max_response_tokens=2048),
    "unbalanced": lambda workload: workload.with_batch(balanced=False),
    "bucket": sync(bucket_bytes=256 * MIB),
    "tensor by tensor": sync(gathers_whole_model=False),
}
