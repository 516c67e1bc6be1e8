"""Host memory of the controller's node: the batch, and processes beside the GPUs'."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.trainers.launches import DYNAMIC, ROLLOUT, VERSIONS, workload_of
from tuner import memory
from tuner.memory.host.controller import PROCESS
from tuner.memory.ledger.terms import Term
from tuner.trainers.verl.batch_fields import HELD_BATCH
from tuner.workload import Controller, Workload

COPIES = HELD_BATCH.copies


def controlled(workload: Workload, workers: int = 8) -> Workload:
    return replace(workload, controller=Controller(agent_workers=workers, held=HELD_BATCH))


def terms(workload: Workload) -> dict[str, Term]:
    found = memory.estimate(workload).host_terms
    return {term.name: term for term in found if term.name.startswith("controller_")}


def test_the_batch_in_numbers_per_token() -> None:
    """Three int64 for each token, one more of a prompt's, and of a response's two and seven float32."""
    job = controlled(workloads.ppo_7b())
    batch = job.batch
    columns = 5 + (job.reference is not None) + 1
    response = (8 + 8 + 4 * columns) * batch.max_response_tokens
    each = 24 * batch.sequence_tokens + 8 * batch.max_prompt_tokens + response
    found = terms(job)["controller_batch"]
    assert found.bytes == COPIES[1] * batch.sequences * each
    assert (found.low, found.high) == (found.bytes // 3, 2 * found.bytes)


@pytest.mark.parametrize(("nodes", "near"), [(1, 8), (2, 4), (3, 3), (16, 1)])
def test_agent_workers_are_dealt_out_to_the_nodes(nodes: int, near: int) -> None:
    job = controlled(workloads.grpo_7b())
    job = replace(job, cluster=replace(job.cluster, nodes=nodes))
    assert terms(job)["controller_processes"].bytes == (1 + near) * PROCESS.typical


def test_a_job_without_a_controller_takes_nothing_for_it() -> None:
    assert terms(workloads.grpo_7b()) == {}


def test_a_larger_batch_never_takes_less() -> None:
    sizes = [
        terms(controlled(workloads.grpo_7b().with_batch(prompts=prompts)))["controller_batch"].bytes
        for prompts in (128, 512, 2048)
    ]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_agent_workers_of_each_release(version: str) -> None:
    workers = {True: 8, False: 0}[version >= "0.7"]
    polls = 2.0 if version >= "0.9" else 0.0  # the trainer of 0.9 looks for responses at intervals
    assert workload_of(DYNAMIC, version).controller == Controller(
        agent_workers=workers, held=HELD_BATCH, poll_s=polls
    )
    if version < "0.5":
        return
    more = (f"{ROLLOUT}.agent.num_workers=32", f"{ROLLOUT}.mode=async")
    assert workload_of((*DYNAMIC, *more), version).controller == Controller(
        agent_workers=32, held=HELD_BATCH, poll_s=polls
    )


def test_who_waits_for_responses_looks_for_them_at_intervals() -> None:
    """Not the trainer before, and not those that work on what was generated earlier."""
    older = (*DYNAMIC, "trainer.use_v1=False")
    others = (*DYNAMIC, "trainer.v1.trainer_mode=colocate_async")
    polls = [
        controller.poll_s
        for overrides in (DYNAMIC, older, others)
        if (controller := workload_of(overrides, "0.9.1").controller) is not None
    ]
    assert polls == [2.0, 0.0, 0.0]
