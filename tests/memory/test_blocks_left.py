"""Blocks that one pass has freed and the next one of its process still has."""

from msgspec.structs import replace

from tests import workloads
from tuner.memory import PhaseEstimate, StepMemory, estimate
from tuner.workload import Backend, Phase, Workload

PPO = workloads.ppo_7b()


def phases(workload: Workload) -> dict[Phase, PhaseEstimate]:
    return {phase.phase: phase for phase in estimate(workload).phases}


def alone(workload: Workload, phase: Phase) -> PhaseEstimate:
    """A pass as if nothing had run before it."""
    one = StepMemory(workload).phase(phase)
    assert one is not None
    return one


def test_a_pass_has_what_the_one_before_it_had():
    """Log-probabilities of many tokens, and values of few: the card shows the former's blocks in both."""
    assert PPO.critic is not None
    critic = replace(PPO.critic, values=workloads.dynamic(4_096))
    small = replace(PPO, critic=critic, reference=None).with_actor(log_prob=workloads.dynamic(65_536))
    made = phases(small)
    before, values = made[Phase.OLD_LOG_PROB], made[Phase.VALUES]
    assert before.before is None
    own = alone(small, Phase.VALUES).reserved_interval
    assert own[0] < before.reserved_interval[0]
    assert values.reserved_interval == before.reserved_interval
    assert values.shown_interval[0] > values.peak_bytes
    assert values.peak_bytes == alone(small, Phase.VALUES).peak_bytes  # what is judged


def test_blocks_go_with_weights_that_leave_for_the_host():
    """Behind a pass of an offloaded actor PyTorch's cache is empty; a reference's weights are streamed."""
    small = PPO.with_actor(log_prob=workloads.dynamic(65_536))
    offloaded = small.with_actor_engine(param_offload=True)
    assert phases(offloaded)[Phase.REF_LOG_PROB].before is None
    streamed = offloaded.with_actor_engine(backend=Backend.FSDP2, streamed_offload=True)
    assert phases(streamed)[Phase.REF_LOG_PROB].before is not None


def test_megatron_is_not_looked_at():
    engine = replace(PPO.actor.engine, backend=Backend.MEGATRON)
    assert phases(PPO.with_actor(engine=engine))[Phase.REF_LOG_PROB].before is None
