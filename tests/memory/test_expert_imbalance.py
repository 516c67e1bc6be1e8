"""What a router that is not balanced may add to the activations of a Megatron stage."""

from msgspec.structs import replace

from tests import workloads
from tuner import memory
from tuner.memory import Term
from tuner.memory.megatron.layers import MAX_VIOLATION
from tuner.rules.case import Case
from tuner.rules.memory import recomputation_not_needed
from tuner.workload import Checkpointing, Phase, Workload

SPARSE_LAYERS, EXPERTS_PER_TOKEN, HIDDEN, WIDTH = 48, 8, 2048, 768  # of Qwen3-30B-A3B


def sparse(*, expert: int = 8, checkpointing: Checkpointing = Checkpointing.NONE) -> Workload:
    workload = workloads.grpo_moe_30b()
    parallel = replace(workload.actor.engine.parallel, expert=expert)
    return workload.with_actor_engine(parallel=parallel, checkpointing=checkpointing)


def activations(workload: Workload, name: str) -> Term:
    phase = memory.estimate(workload).phase(Phase.UPDATE_ACTOR)
    assert phase is not None
    return next(term for moment in phase.moments for term in moment.terms if term.name == name)


def test_a_rank_whose_experts_are_chosen_more_often_keeps_more_of_every_layer() -> None:
    workload = sparse()
    term = activations(workload, "saved_activations")
    numbers = dict(term.symbols)
    tensors = 3 if workload.actor.engine.fused_layers else 5
    routed = EXPERTS_PER_TOKEN * (2 * HIDDEN + tensors * 2 * WIDTH + 4)
    most = MAX_VIOLATION * SPARSE_LAYERS * routed * numbers["T_f"] / (numbers["v_p"] * numbers["T_p"])
    assert term.low == term.bytes
    assert abs(term.high - term.bytes - most) < 1e-4 * most


def test_experts_that_every_rank_has_take_what_it_sends() -> None:
    term = activations(sparse(expert=1), "saved_activations")
    assert term.low == term.bytes == term.high


def test_two_ranks_hold_no_more_than_all_copies() -> None:
    eight, two = (activations(sparse(expert=ranks), "saved_activations") for ranks in (8, 2))
    assert two.high == eight.high  # 0.72 is below what the other rank could add


def test_one_layer_that_is_recomputed_is_as_uncertain() -> None:
    term = activations(sparse(checkpointing=Checkpointing.FULL), "recomputed_layers")
    assert term.low == term.bytes < term.high


def test_recomputation_is_dropped_only_where_the_fullest_rank_has_room() -> None:
    workload = sparse(checkpointing=Checkpointing.FULL)
    card = workload.cluster.gpu
    spoken = []
    for gib in range(60, 400, 4):
        cluster = replace(workload.cluster, gpu=replace(card, memory_bytes=gib << 30))
        case = Case.of(replace(workload, cluster=cluster), headroom=0.1)
        finding = recomputation_not_needed.check(case)
        if finding is None or finding.proposal is None:
            continue
        phase = case.with_workload(finding.proposal).estimate.phase(Phase.UPDATE_ACTOR)
        assert phase is not None
        assert phase.interval[1] <= case.limit_bytes
        spoken.append(gib)
    assert spoken
