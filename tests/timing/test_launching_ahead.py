"""What the GPU does before a direction's layers, while the host launches them already."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.timing.test_engines import update_job
from tuner.timing import fsdp
from tuner.timing.job import Job, head_of, micro_batch_seconds
from tuner.workload import Workload


def waiting_seconds(job: Job) -> list[float]:
    """How long the GPU would wait for the launches of one layer, forward and backward."""
    spans = [fsdp.forward_span(job), fsdp.backward_span(job, reduces=True)]
    return [span.parts()["launch"] - span.waits for span in spans]


def few_tokens(responses: int = 8) -> Workload:
    return workloads.grpo_7b().with_batch(
        prompts=responses,
        mini_batch_prompts=responses,
        responses_per_prompt=1,
        max_prompt_tokens=16,
        max_response_tokens=16,
    )


def test_waiting_for_launches_is_less_by_what_the_gpu_has_to_do_before() -> None:
    job = update_job(few_tokens())
    forward, backward = (job.model.layers * seconds for seconds in waiting_seconds(job))
    weights = fsdp.root_seconds(job, reduces=False) + fsdp.root_copies(job, reduces=False)
    head = head_of(job, trains=True) - head_of(job, trains=False)
    assert 0 < weights < forward and 0 < head < backward
    launch = fsdp.micro_batch_parts(job, reduces=True)["launch"]
    assert launch == pytest.approx(micro_batch_seconds(job) + forward - weights + backward - head)


def test_a_pass_without_gradients_has_its_weights_alone_before_it() -> None:
    job = update_job(few_tokens(), trains=False)
    forward = job.model.layers * fsdp.forward_span(job).parts()["launch"]
    weights = fsdp.root_seconds(job, reduces=False) + fsdp.root_copies(job, reduces=False)
    launch = fsdp.micro_batch_parts(job, reduces=True)["launch"]
    assert launch == pytest.approx(micro_batch_seconds(job) + forward - weights)


def test_no_more_than_one_layer_is_launched_ahead_where_the_host_waits_in_each() -> None:
    workload = few_tokens()
    engine = replace(workload.actor.engine, reads_positions=True)
    job = update_job(replace(workload, actor=replace(workload.actor, engine=engine)))
    layers = job.model.layers
    waited = waiting_seconds(job)
    ahead = [fsdp.ahead_seconds(job, backward=backward) for backward in (False, True)]
    assert ahead[0] > waited[0] > 0
    launch = fsdp.micro_batch_parts(job, reduces=True)["launch"]
    saved = [min(one, other) for one, other in zip(ahead, waited, strict=True)]
    waits = [fsdp.position_seconds(job, backward=backward) for backward in (False, True)]
    assert sum(waits) > 0
    assert launch == pytest.approx(micro_batch_seconds(job) + layers * sum(waited + waits) - sum(saved))


def test_a_gpu_that_never_waits_has_nothing_to_save() -> None:
    job = update_job(workloads.grpo_7b())
    assert waiting_seconds(job) == [0, 0]
    assert fsdp.micro_batch_parts(job, reduces=True)["launch"] == pytest.approx(micro_batch_seconds(job))
