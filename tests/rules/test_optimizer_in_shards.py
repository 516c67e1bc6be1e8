"""A checkpoint that puts the optimizer together can lack the host's memory alone."""

from msgspec.structs import replace

from tests.workloads import cluster, grpo_7b, megatron_engine
from tuner.rules.case import Case
from tuner.rules.memory import optimizer_in_shards
from tuner.units import GIB
from tuner.workload import Saving, Workload


def saved(**saving: bool) -> Workload:
    job = grpo_7b()
    job = job.with_actor(engine=megatron_engine(gpus=8, tensor=8), saving=Saving(**saving))
    return replace(job, cluster=replace(cluster(gpus_per_node=8), host_memory_bytes=150 * GIB))


def test_the_hosts_memory_is_reason_enough() -> None:
    job = saved(gathers_optimizer=True)
    found = optimizer_in_shards.check(Case.of(job, headroom=0.1))
    assert found is not None and "host memory" in found.message
    assert found.proposal == saved(gathers_optimizer=False)
    assert "data-parallel ranks may change" in found.notes[0]


def test_with_enough_of_it_there_is_nothing_to_say() -> None:
    job = saved(gathers_optimizer=True)
    roomy = replace(job, cluster=replace(job.cluster, host_memory_bytes=2000 * GIB))
    assert optimizer_in_shards.check(Case.of(roomy, headroom=0.1)) is None
    assert optimizer_in_shards.check(Case.of(saved(gathers_optimizer=False), headroom=0.1)) is None
