"""Rungs: single changes that free memory in a phase, as far as each goes.

A rung changes one thing and returns the workload unchanged where it does not apply. Which one is due
is decided by :mod:`tuner.rules.ladder`; the rule of a rung may propose less than the rung goes, never more.
"""

from math import ceil
from typing import Any

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.memory.rollout.capacity import rollout_memory
from tuner.rules.passes import site_of
from tuner.rules.reward_engine import least_reward_fraction
from tuner.rules.rollout_engine import least_fraction
from tuner.serving.graphs import capture_sizes
from tuner.units import MIB
from tuner.workload import (
    ENTROPY_CHUNK_TOKENS,
    Backend,
    Checkpointing,
    Engine,
    HeadKind,
    Phase,
    RolloutEngine,
    Workload,
)

LEAST_BUCKET_BYTES = 256 * MIB  # below this, handshakes take longer than the copies

_ACTOR_PHASES = (Phase.UPDATE_ACTOR, Phase.TRAIN, Phase.OLD_LOG_PROB, Phase.UPDATE_WEIGHTS)
CRITIC_PHASES = (Phase.VALUES, Phase.UPDATE_CRITIC)


# -- where a phase's engine stands -------------------------------------------------------


def engine_of(workload: Workload, phase: Phase) -> Engine:
    """The engine that works in a phase; the actor's for those of the rollout."""
    site = site_of(workload, phase)
    return workload.actor.engine if site is None else site.engine


def with_engine(workload: Workload, phase: Phase, engine: Engine) -> Workload:
    """The workload with another engine in a phase."""
    if phase in CRITIC_PHASES:
        return workload.with_critic(engine=engine)
    if phase is Phase.REF_LOG_PROB:
        return workload.with_reference(engine=engine)
    if phase is Phase.REWARD and workload.reward is not None and workload.reward.engine is not None:
        return workload.with_reward(engine=engine)
    return workload.with_actor(engine=engine)


def with_head(workload: Workload, **changes: Any) -> Workload:
    """The workload with a changed output head, in the actor and in its reference alike."""
    changed = workload.with_actor_head(**changes)
    if workload.reference is None:
        return changed
    return changed.with_reference(head=replace(workload.reference.head, **changes))


# -- rungs ---------------------------------------------------------------------------------


def fewer_graphs(workload: Workload, _phase: Phase) -> Workload:
    """CUDA graphs up to the sequences that run at once, and none for more."""
    rollout = workload.rollout
    if rollout is None:
        return workload
    if not (rollout.colocated and rollout.cuda_graphs) or rollout.capture_sizes is not None:
        return workload
    if rollout.engine is RolloutEngine.SGLANG:  # chooses its sizes itself
        return workload
    sizes = capture_sizes(rollout)
    running = ceil(rollout_memory(workload).running_sequences / rollout.data_parallel)
    largest = next((size for size in sizes if size >= running), None)
    if largest is None or largest == sizes[-1]:
        return workload
    return workload.with_rollout(capture_sizes=sizes[: sizes.index(largest) + 1])


def engine_asleep(workload: Workload, _phase: Phase) -> Workload:
    """The rollout engine gives its memory back while the trainer works."""
    rollout = workload.rollout
    if rollout is None or not (rollout.colocated and rollout.sleep_known):
        return workload
    # an engine that lets its cache go by a switch of its own keeps it beside CUDA graphs
    return workload.with_rollout(
        frees_memory=True, sleeps_with_cache=rollout.sleeps_with_cache and rollout.cuda_graphs
    )


def cache_asleep(workload: Workload, phase: Phase) -> Workload:
    """The engine's cache goes while the trainer works, for which one that keeps it beside graphs has none."""
    asleep = engine_asleep(workload, phase)
    rollout = asleep.rollout
    if rollout is None or not (rollout.colocated and rollout.sleep_known and rollout.sleeps_with_cache):
        return asleep
    return asleep.with_rollout(sleeps_with_cache=False, cuda_graphs=False)


def service_asleep(workload: Workload, _phase: Phase) -> Workload:
    """The engine of a reward model gives its memory back while it has nothing to judge."""
    reward = workload.reward
    if reward is None or reward.server is None or not reward.shares_gpus:
        return workload
    return workload.with_reward(server=replace(reward.server, frees_memory=True))


def gradients_synchronised(workload: Workload, phase: Phase) -> Workload:
    """Gradients are reduced after every micro-batch."""
    engine = engine_of(workload, phase)
    return with_engine(workload, phase, replace(engine, deferred_gradient_sync=False))


def optimizer_fused(workload: Workload, _phase: Phase) -> Workload:
    """AdamW's step is one kernel for each tensor, which allocates nothing."""
    changed = workload
    if workload.actor.engine.optimizer_fusable:
        changed = changed.with_actor_engine(fused_optimizer=True)
    critic = workload.critic
    if critic is not None and critic.engine.optimizer_fusable:
        changed = changed.with_critic(engine=replace(critic.engine, fused_optimizer=True))
    return changed


def resharded(workload: Workload, phase: Phase) -> Workload:
    """Gathered weights are dropped after the forward pass of their layer."""
    engine = engine_of(workload, phase)
    return with_engine(workload, phase, replace(engine, reshard_after_forward=True))


def fully_sharded(workload: Workload, phase: Phase) -> Workload:
    """All GPUs share one copy of the model states; a reference is sharded as its actor is."""
    if phase in CRITIC_PHASES:
        return (
            workload
            if workload.critic is None
            else workload.with_critic(engine=_shared(workload.critic.engine))
        )
    changed = workload.with_actor(engine=_shared(workload.actor.engine))
    if workload.reference is None:
        return changed
    return changed.with_reference(engine=_shared(workload.reference.engine))


def _shared(engine: Engine) -> Engine:
    if engine.backend is Backend.MEGATRON:
        return engine
    return replace(engine, parallel=replace(engine.parallel, shard=engine.parallel.gpus))


def base_in_compute_dtype(workload: Workload, _phase: Phase) -> Workload:
    """The frozen base of adapters in the dtype that it is computed with, where the numbers stay the same."""
    engine = workload.actor.engine
    lora = engine.lora
    exact = lora is not None and lora.stays_float32 and not lora.merged_for_rollout
    return base_stored_low(workload) if exact and engine.stored_dtype is DType.FLOAT32 else workload


def base_stored_low(workload: Workload) -> Workload:
    """The frozen base of adapters in the dtype that it is computed with, in a reference that is it as well."""
    dtype = workload.actor.engine.compute_dtype
    changed = workload.with_actor_engine(stored_dtype=dtype)
    reference = workload.reference
    if reference is not None and not reference.separate:
        changed = changed.with_reference(engine=replace(reference.engine, stored_dtype=dtype))
    return changed


def entropy_compiled(workload: Workload, phase: Phase) -> Workload:
    """Entropy in one compiled kernel that reads the logits once."""
    actor = workload.actor
    compilable = actor.engine.backend is not Backend.MEGATRON and actor.engine.packed
    if phase not in _ACTOR_PHASES or not compilable or actor.head.kind is not HeadKind.LOGITS:
        return workload
    return with_head(workload, compiled=True, chunk_tokens=None)


def checkpointed(workload: Workload, phase: Phase) -> Workload:
    """Every layer is recomputed from its input in the backward pass."""
    engine = engine_of(workload, phase)
    return with_engine(workload, phase, replace(engine, checkpointing=Checkpointing.FULL))


def one_sequence(workload: Workload, phase: Phase) -> Workload:
    """Micro-batches of one longest sequence."""
    site = site_of(workload, phase)
    if site is None or site.size(workload) <= 1:
        return workload
    return site.resized(workload, 1)


def optimizer_offloaded(workload: Workload, _phase: Phase) -> Workload:
    """Optimizer states wait on the host outside their own update."""
    changed = workload.with_actor_engine(optimizer_offload=True)
    if workload.critic is None:
        return changed
    return changed.with_critic(engine=replace(workload.critic.engine, optimizer_offload=True))


def parameters_offloaded(workload: Workload, _phase: Phase) -> Workload:
    """Weights of the trainer wait on the host while another engine works."""
    changed = workload.with_actor_engine(param_offload=True)
    if workload.critic is not None:
        changed = changed.with_critic(engine=replace(workload.critic.engine, param_offload=True))
    reference = workload.reference
    if reference is not None and reference.separate and not reference.engine.streamed_offload:
        changed = changed.with_reference(engine=replace(reference.engine, param_offload=True))
    reward = workload.reward
    if reward is not None and reward.engine is not None and reward.engine.backend is Backend.MEGATRON:
        changed = changed.with_reward(engine=replace(reward.engine, param_offload=True))
    return changed


def entropy_in_chunks(workload: Workload, phase: Phase) -> Workload:
    """Entropy of a vocabulary-parallel head, which nothing compiles, in chunks of tokens."""
    actor = workload.actor
    if phase not in _ACTOR_PHASES or actor.engine.backend is not Backend.MEGATRON:
        return workload
    if actor.head.kind is not HeadKind.LOGITS or actor.head.chunk_tokens is not None:
        return workload
    if actor.update.entropy:  # chunks are views of one tensor that each backward step changes in place
        return workload
    return with_head(workload, chunk_tokens=ENTROPY_CHUNK_TOKENS)


def head_fused(workload: Workload, phase: Phase) -> Workload:
    """Log-probabilities and entropy without the logits ever existing."""
    kind = _fused_kind(workload)
    if phase in CRITIC_PHASES or workload.actor.head.kind is not HeadKind.LOGITS or kind is None:
        return workload
    return with_head(workload, kind=kind)


def fuses_exactly(workload: Workload) -> bool:
    """Whether the fused head that there is, if any, gives the log-probabilities that logits give."""
    return _fused_kind(workload) not in workload.actor.head.rounding


def _fused_kind(workload: Workload) -> HeadKind | None:
    ascend = workload.cluster.gpu.is_ascend  # Triton's kernel is CUDA's
    kinds = (kind for kind in workload.actor.head.fusable if not (ascend and kind is HeadKind.FUSED_TRITON))
    return next(kinds, None)


def activations_offloaded(workload: Workload, phase: Phase) -> Workload:
    """Layer inputs wait on the host from the forward to the backward pass."""
    engine = engine_of(workload, phase)
    if engine.backend is Backend.MEGATRON:
        return workload
    return with_engine(workload, phase, replace(engine, activation_offload=True))


def states_on_host(workload: Workload, phase: Phase) -> Workload:
    """Optimizer states never come to the card; the host makes the step. FSDP1 has no way to that."""
    engine = engine_of(workload, phase)
    if engine.backend is Backend.MEGATRON:
        return with_engine(workload, phase, replace(engine, optimizer_offload_fraction=1.0))
    if engine.backend is not Backend.FSDP2:
        return workload
    streamed = replace(engine, streamed_offload=True, param_offload=False, optimizer_offload=False)
    return with_engine(workload, phase, streamed)


def least_cache(workload: Workload, _phase: Phase) -> Workload:
    """The smallest memory fraction with which the rollout engine still starts."""
    return workload if workload.rollout is None else least_fraction(workload) or workload


def least_service_cache(workload: Workload, _phase: Phase) -> Workload:
    """The smallest memory fraction with which the engine of a reward model starts."""
    return least_reward_fraction(workload) or workload


def synced_by_tensor(workload: Workload, _phase: Phase) -> Workload:
    """New weights are gathered tensor by tensor."""
    if workload.sync is None:
        return workload
    return replace(workload, sync=replace(workload.sync, gathers_whole_model=False))


def small_bucket(workload: Workload, _phase: Phase) -> Workload:
    """The smallest bucket that the release accepts and that is worth a handshake."""
    sync = workload.sync
    least = LEAST_BUCKET_BYTES if sync is None else max(LEAST_BUCKET_BYTES, sync.smallest_bucket_bytes)
    if sync is None or sync.bucket_bytes <= least:
        return workload
    return replace(workload, sync=replace(sync, bucket_bytes=least))


def optimizer_in_shards(workload: Workload, _phase: Phase) -> Workload:
    """A checkpoint holds the optimizer as the ranks have it, put together on none of them."""
    actor, critic = workload.actor, workload.critic
    if actor.saving is not None:
        workload = workload.with_actor(saving=replace(actor.saving, gathers_optimizer=False))
    if critic is not None and critic.saving is not None:
        workload = workload.with_critic(saving=replace(critic.saving, gathers_optimizer=False))
    return workload
