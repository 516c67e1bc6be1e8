"""An Ascend card: nothing that was recorded of CUDA and NCCL is counted, and what is not known widens."""

from msgspec.structs import replace

from tests import workloads
from tuner.gpus import find_gpu
from tuner.memory import Term, estimate
from tuner.memory.process import overhead
from tuner.units import GIB, MIB
from tuner.workload import Phase, Workload

ASCEND = find_gpu("ascend-910b")


def on_ascend(workload: Workload) -> Workload:
    return replace(workload, cluster=replace(workload.cluster, gpu=ASCEND))


def terms(workload: Workload) -> dict[str, Term]:
    """The terms of the update's peak, by name, with those of the sleeping engine."""
    phase = estimate(workload).phase(Phase.UPDATE_ACTOR)
    assert phase is not None
    return {term.name: term for term in phase.peak.terms}


CARD, NPU = terms(workloads.grpo_7b()), terms(on_ascend(workloads.grpo_7b()))


def test_the_card_has_what_its_allocator_can_have() -> None:
    assert ASCEND.memory_bytes == 64 * GIB
    assert round(ASCEND.capacity_bytes / GIB, 2) == 60.97


def test_graphs_are_not_those_of_cuda() -> None:
    assert NPU["engine_graphs"].bytes < CARD["engine_graphs"].bytes
    widths = [term.high - term.low for term in (NPU["engine_graphs"], CARD["engine_graphs"])]
    assert widths[0] / NPU["engine_graphs"].bytes > widths[1] / CARD["engine_graphs"].bytes


def test_the_context_is_its_own_and_wider() -> None:
    context = overhead.context(ASCEND)
    assert context is overhead.ASCEND_CONTEXT
    assert context.high - context.low > overhead.CONTEXT.high - overhead.CONTEXT.low


def test_communicators_are_two_buffers_of_hccl() -> None:
    assert overhead.communicator(ASCEND).typical == 400 * MIB
    assert overhead.lone_communicator(ASCEND) is overhead.communicator(ASCEND)
    assert overhead.library(ASCEND, overhead.NCCL_CODE).high == 0
    assert overhead.library(find_gpu("h100"), overhead.NCCL_CODE) is overhead.NCCL_CODE


def test_what_is_not_known_widens_the_peak() -> None:
    def width(workload: Workload) -> int:
        low, high = estimate(workload).worst.interval
        return high - low

    assert width(on_ascend(workloads.grpo_7b())) > width(workloads.grpo_7b())
