"""Blocks that PyTorch keeps when a pass has ended, for the next one or while another process wants the card.

PyTorch gives freed blocks back to the driver only when a request of its own would fail. The rollout
engine is another process: what the trainer's allocator still holds is missing when the engine maps
its weights again. A release that empties the cache first leaves nothing; verl 0.8.0, and the model
engines of 0.7.1, map the weights and empty the cache afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tuner.evidence import Evidence
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, PhaseEstimate, Term
from tuner.workload import Backend, Phase, Role, StepPass

SYMBOLS = {
    "M_u": "peak of the trainer's allocator in the update",
    "M_k": "what of that is still allocated after the update",
}


def freed_bytes(*, M_u: int, M_k: int) -> int:
    """What the update freed and PyTorch has not given back.

    The peak of the update's allocator, :math:`M_u`, less what is still allocated after it,
    :math:`M_k`. It is at least that;
    the most are the blocks of :func:`tuner.memory.ledger.terms.reserved_bytes`, or where the trainer has
    expandable segments the pages of :func:`tuner.memory.ledger.terms.paged_bytes`.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``release_cached_blocks``); verl 0.8.0
    ``workers/engine_workers.py`` (``update_weights``: ``resume`` comes before
    ``aggressive_empty_cache``; 0.9.0 empties the cache before it). Offloading the parameters
    empties it as well: ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``).
    """
    return M_u - M_k


def freed_blocks(update: PhaseEstimate, resident_terms: Sequence[Term], *, pages: bool) -> Term:
    """The blocks that are still reserved when the update is over, where ``resident_terms`` stay allocated.

    Args:
        update: the pass that has freed them.
        resident_terms: what stays allocated.
        pages: whether they are pages of expandable segments.
    """
    peak, resident_bytes = (
        update.allocated_bytes,
        sum(term.bytes for term in resident_terms if term.of_allocator),
    )
    size = max(0, peak - resident_bytes)
    most = update.most_paged_bytes if pages else update.reserved_interval[1]
    return stated(
        Item.FREED,
        "freed_blocks",
        freed_bytes,
        {"M_u": peak, "M_k": peak - size},
        evidence=Evidence.MODELLED,
        interval=(size, max(size, most - resident_bytes)),
    )


def with_blocks_before(
    phases: Iterable[PhaseEstimate], passes: Mapping[Phase, StepPass]
) -> Iterator[PhaseEstimate]:
    """Phases in order, each pass behind the one whose freed blocks are still there.

    Actor, reference and critic are in one process of a GPU. Under FSDP none of their passes empties PyTorch's
    cache; the first one of a step finds it empty, since the weight sync has emptied it.

    Source: verl 0.5.0 to 0.9.1 ``single_controller/ray/base.py`` (``create_colocated_worker_cls``),
    ``workers/fsdp_workers.py``, ``workers/engine_workers.py``, ``workers/engine/fsdp/transformer_impl.py``.
    """
    pass_before: PhaseEstimate | None = None
    for phase in phases:
        step_pass = passes.get(phase.phase)
        if step_pass is None:
            yield phase
            continue
        behind = phase if pass_before is None else phase.behind(pass_before)
        yield behind
        pass_before = None if _empties(step_pass) else behind


def _empties(step_pass: StepPass) -> bool:
    """Whether PyTorch's cache is empty when a pass has ended: where its weights go to the host.

    A reference's are streamed. Not looked at one by one: Megatron's workers, which empty it after most passes
    up to verl 0.7.

    Source: verl 0.5.0 to 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``),
    ``workers/megatron_workers.py``.
    """
    engine = step_pass.engine
    if engine.backend is Backend.MEGATRON:
        return True
    moves = engine.param_offload and not engine.streamed_offload
    return moves and step_pass.role in (Role.ACTOR, Role.CRITIC)
