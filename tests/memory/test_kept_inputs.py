"""What micro-batches leave on the card under LoRA until the optimizer's step."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.trainers.launches import DYNAMIC, LORA, workload_of
from tuner import batching, memory
from tuner.workload import Phase, Workload

HIDDEN = 3_584


def kept(workload: Workload, phase: Phase = Phase.UPDATE_ACTOR) -> int:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    return sum(term.bytes for term in found.peak.terms if term.name == "kept_inputs")


def keeping(workload: Workload) -> Workload:
    return workload.with_actor_engine(keeps_inputs=True)


def test_embedded_tokens_and_their_gradient_of_all_micro_batches_but_the_last() -> None:
    job = keeping(workloads.grpo_lora_7b())
    update = job.actor_update
    whole = batching.step_tokens(job.batch, update.engine)
    last = batching.micro_batch_tokens(job.batch, update)
    assert batching.micro_batches(job.batch, update) > 1
    assert kept(job) == 2 * 2 * (whole - last) * HIDDEN


def test_nothing_is_kept_otherwise() -> None:
    job = workloads.grpo_lora_7b()
    assert kept(job) == 0
    assert kept(keeping(job.with_actor_engine(lora=None))) == 0
    assert kept(keeping(job), Phase.OLD_LOG_PROB) == 0
    one = replace(job.batch, mini_batch_prompts=1, responses_per_prompt=1)
    assert kept(keeping(replace(job, batch=one))) == 0


def test_a_larger_mini_batch_never_keeps_less() -> None:
    job = keeping(workloads.grpo_lora_7b())
    sizes = [kept(job.with_batch(mini_batch_prompts=size)) for size in (8, 32, 128)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


@pytest.mark.parametrize(
    ("version", "keeps"), [("0.6.1", False), ("0.7.1", False), ("0.8.0", True), ("0.9.1", False)]
)
def test_only_the_first_engine_workers_keep_it(version: str, keeps: bool) -> None:
    assert workload_of(LORA, version).actor.engine.keeps_inputs is keeps
    assert (kept(workload_of(LORA, version)) > 0) is keeps
    assert kept(workload_of(DYNAMIC, version)) == 0


def test_0_7_1_keeps_it_with_its_new_workers() -> None:
    preview = (*LORA, "trainer.use_legacy_worker_impl=disable")
    assert workload_of(preview, "0.7.1").actor.engine.keeps_inputs
