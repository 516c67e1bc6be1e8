"""A job whose layout divides it in many ways: its plan is that of the same job less divided."""

import pytest

from tests.plan import jobs
from tests.plan.jobs import ACTOR, HEADROOM, MEGATRON, ROLLOUT, SmallJob
from tuner.plan import planning
from tuner.plan.planning import PlanRequest, plan

SPARSE = (
    *MEGATRON,
    f"{ACTOR}.megatron.expert_model_parallel_size=8",
    f"{ACTOR}.use_kl_loss=False",
    f"{ACTOR}.ppo_max_token_len_per_gpu=16384",
    f"{ROLLOUT}.tensor_model_parallel_size=4",
    f"{ROLLOUT}.gpu_memory_utilization=0.6",
    f"{ROLLOUT}.n=8",
    "data.train_batch_size=256",
    "data.max_response_length=8192",
)


def seconds(*overrides: str) -> float:
    """The fastest step of a sparse job whose settings are gone through step by step."""
    job = SmallJob(
        name="sparse",
        model="qwen3-30b-a3b",
        gpu="8xh100-sxm",
        nodes=2,
        overrides=(*SPARSE, *overrides),
        options=(),
    )
    best = plan(jobs.reading_of(job), PlanRequest(headroom=HEADROOM, largest_whole=0)).best
    assert best is not None
    return best.time.seconds


@pytest.mark.sampled(4)
def test_a_divided_layout_is_no_way_that_nothing_leads_back_from(monkeypatch: pytest.MonkeyPatch) -> None:
    megatron = f"{ACTOR}.megatron"
    divided = f"{megatron}.tensor_model_parallel_size=2", f"{megatron}.expert_tensor_parallel_size=1"
    after = seconds(*divided)
    assert after <= 1.1 * seconds()
    monkeypatch.setattr(planning, "whole_starts", lambda *_given: ())
    assert seconds(*divided) > 1.05 * after
