"""The tensors of a job that are allocated in one piece and grow with the model or the micro-batch.

An estimate adds up what exists at one moment; an allocator is asked for one tensor at a time.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tuner import batching
from tuner.memory.failed_allocation.pass_tensors import (
    activation_tensors,
    attention_score_tensors,
    head_tensors,
)
from tuner.memory.failed_allocation.state_tensors import sync_tensors, unit_tensors
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.workload import HeadKind, OutputHead, Phase, Workload

_TRAINING = (Phase.UPDATE_ACTOR, Phase.UPDATE_CRITIC)


def _pass_tensors(workload: Workload) -> Iterable[Tensor]:
    actor, reference, critic = workload.actor, workload.reference, workload.critic
    passes = [
        (Phase.OLD_LOG_PROB, workload.model, actor.engine, actor.head, actor.log_prob),
        (Phase.UPDATE_ACTOR, workload.model, actor.engine, actor.head, actor.update),
    ]
    if reference is not None:
        passes.append(
            (Phase.REF_LOG_PROB, workload.model, reference.engine, reference.head, reference.log_prob)
        )
    if critic is not None:
        head = OutputHead(kind=HeadKind.VALUE)
        passes += [
            (Phase.VALUES, critic.model, critic.engine, head, critic.values),
            (Phase.UPDATE_CRITIC, critic.model, critic.engine, head, critic.update),
        ]
    for phase, model, engine, head, one_pass in passes:
        if one_pass is None:
            continue
        training = phase in _TRAINING
        tokens = batching.micro_batch_tokens(workload.batch, engine, one_pass, optimizer_step=training)
        yield from (
            replace(tensor, phases=(phase,))
            for tensor in (
                *head_tensors(
                    model, engine, head, tokens=tokens, entropy=one_pass.entropy, training=training
                ),
                *activation_tensors(model, engine, tokens=tokens),
                *attention_score_tensors(model, engine, one_pass, workload.batch),
            )
        )


def _state_tensors(workload: Workload) -> Iterable[Tensor]:
    yield from unit_tensors(workload.model, workload.actor.engine, "actor")
    if workload.reference is not None and workload.reference.separate:
        yield from unit_tensors(workload.model, workload.reference.engine, "reference")
    if workload.critic is not None:
        yield from unit_tensors(workload.critic.model, workload.critic.engine, "critic")
    yield from sync_tensors(workload)


def tensors(workload: Workload) -> tuple[Tensor, ...]:
    """The tensors of a job; one that several phases make with as many tokens is listed once."""
    merged: dict[Tensor, list[Tensor]] = {}
    for tensor in (*_pass_tensors(workload), *_state_tensors(workload)):
        merged.setdefault(replace(tensor, phases=(), made_by="", kinds=()), []).append(tensor)
    return tuple(
        replace(
            tensor,
            kinds=tuple(dict.fromkeys(kind for one in same for kind in one.kinds)),
            made_by="; ".join(dict.fromkeys(one.made_by for one in same)),
            phases=tuple(dict.fromkeys(phase for one in same for phase in one.phases)),
        )
        for tensor, same in merged.items()
    )
