"""The tensors of a job that are allocated in one piece and grow with the model or the micro-batch.

An estimate adds up what exists at one moment; an allocator is asked for one tensor at a time.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tuner import batching
from tuner.language import _
from tuner.memory.batch.padded_response import padded_response
from tuner.memory.failed_allocation.pass_tensors import (
    activation_tensors,
    attention_score_tensors,
    head_tensors,
)
from tuner.memory.failed_allocation.state_tensors import sync_tensors, unit_tensors
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.workload import Role, StepPass, Workload

#: Whose passes an answer names first, where those of several models make a tensor.
_NAMED_FIRST = (Role.ACTOR, Role.REFERENCE, Role.CRITIC, Role.REWARD)


def _pass_tensors(workload: Workload) -> Iterable[Tensor]:
    for step_pass in sorted(workload.passes(), key=lambda step_pass: _NAMED_FIRST.index(step_pass.role)):
        yield from (replace(tensor, phases=(step_pass.phase,)) for tensor in _tensors_of(workload, step_pass))


def _tensors_of(workload: Workload, step_pass: StepPass) -> Iterable[Tensor]:
    model, engine = step_pass.model, step_pass.engine
    tokens = batching.micro_batch_tokens(workload.batch, step_pass)
    yield from head_tensors(
        model,
        engine,
        step_pass.head,
        tokens=tokens,
        entropy=step_pass.entropy,
        training=step_pass.training,
        response=padded_response(step_pass.head, workload.batch),
    )
    yield from activation_tensors(model, engine, tokens=tokens)
    yield from attention_score_tensors(model, engine, step_pass.settings, workload.batch)


def _state_tensors(workload: Workload) -> Iterable[Tensor]:
    yield from unit_tensors(workload.model, workload.actor.engine, "actor")
    reference = workload.reference
    if reference is not None and reference.separate:
        yield from unit_tensors(reference.model or workload.model, reference.engine, "reference")
    if workload.critic is not None:
        yield from unit_tensors(workload.critic.model, workload.critic.engine, "critic")
    for step_pass in workload.passes():
        if step_pass.role is Role.REWARD:
            yield from unit_tensors(step_pass.model, step_pass.engine, "reward model")
    if workload.rollout is not None:
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
            made_by=_("; ").join(dict.fromkeys(one.made_by for one in same)),
            phases=tuple(dict.fromkeys(phase for one in same for phase in one.phases)),
        )
        for tensor, same in merged.items()
    )
