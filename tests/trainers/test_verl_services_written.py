"""A proposal for a reward model is written into the section that its engine reads."""

import pytest
from msgspec.structs import replace

from tests.trainers.launches import DYNAMIC, MEGATRON, settings_of
from tests.trainers.test_verl_services import NEW, OLD, SERVED, reward_of, workload_of
from tuner.trainers.verl.write import override_writer


@pytest.mark.parametrize("version", SERVED)
def test_the_fraction_goes_where_it_is_read(version: str) -> None:
    own = reward_of(version, "rollout.name=vllm")
    for overrides, section in (
        ((*DYNAMIC, *own), OLD if version == "0.7.0" else NEW),
        (  # which later releases take until 0.9.0
            (*DYNAMIC, *own, f"++{OLD}.rollout.gpu_memory_utilization=0.4"),
            NEW if version >= "0.9" else OLD,
        ),
    ):
        workload = workload_of(overrides, version)
        assert workload.reward is not None and workload.reward.server is not None
        proposal = workload.with_reward(server=replace(workload.reward.server, memory_fraction=0.3))
        written = override_writer(workload, settings_of(overrides, version), version=version)(proposal)
        assert written.overrides == (f"{section}.rollout.gpu_memory_utilization=0.3",)
        assert written.workload == proposal


@pytest.mark.parametrize("version", ["0.4.1", "0.6.1"])
def test_its_weights_can_leave_the_card_under_megatron(version: str) -> None:
    overrides = (*MEGATRON, *reward_of(version, "strategy=megatron", "micro_batch_size_per_gpu=2"))
    workload = workload_of(overrides, version)
    assert workload.reward is not None and workload.reward.engine is not None
    proposal = workload.with_reward(engine=replace(workload.reward.engine, param_offload=True))
    written = override_writer(workload, settings_of(overrides, version), version=version)(proposal)
    assert [override.lstrip("+") for override in written.overrides] == [f"{OLD}.megatron.param_offload=True"]
