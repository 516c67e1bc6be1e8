"""What the GPU does before a direction's layers, while the host launches them already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tests.timing.test_engines import update_job
from tuner.timing import fsdp
from tuner.timing.job import TimedPasses, head_of, micro_batch_seconds
from tuner.workload import Backend, Workload


def waiting_seconds(job: TimedPasses) -> list[float]:
    """How long the GPU would wait for the launches of one layer, forward and backward."""
    spans = [fsdp.forward_span(job), fsdp.backward_span(job, reduces=True)]
    return [span.parts()["launch"] - span.waits for span in spans]


def in_one_micro_batch(job: TimedPasses) -> dict[str, float]:
    """Seconds by cause of each of a pass's micro-batches, the first."""
    _, outside, span = next(fsdp.micro_batches(job))
    pieces = [outside, fsdp.layers_parts(job, fsdp.forward_span(job), backward=False)]
    if span is not None:
        pieces.append(fsdp.layers_parts(job, span, backward=True))
    return {name: sum(piece.get(name, 0.0) for piece in pieces) for name in outside}


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
    weights = fsdp.ahead_seconds(job, backward=False)
    root = fsdp.root_seconds(job, reduces=True)
    assert 0 < weights < root + fsdp.root_copies(job, reduces=True)
    head = head_of(job, trains=True) - head_of(job, trains=False)
    assert 0 < weights < forward and 0 < head < backward
    launch = in_one_micro_batch(job)["launch"]
    assert launch == pytest.approx(micro_batch_seconds(job) + forward - weights + backward - head)


def test_a_pass_without_gradients_has_its_weights_alone_before_it() -> None:
    job = update_job(few_tokens(), trains=False)
    forward = job.model.layers * fsdp.forward_span(job).parts()["launch"]
    weights = fsdp.root_seconds(job, reduces=True) + fsdp.root_copies(job, reduces=True)
    assert weights == fsdp.ahead_seconds(job, backward=False) > 0
    launch = in_one_micro_batch(job)["launch"]
    assert launch == pytest.approx(micro_batch_seconds(job) + forward - weights)


def test_no_more_than_one_layer_is_launched_ahead_where_the_host_waits_in_each() -> None:
    workload = few_tokens()
    engine = replace(workload.actor.engine, reads_positions=True)
    job = update_job(replace(workload, actor=replace(workload.actor, engine=engine)))
    layers = job.model.layers
    waited = waiting_seconds(job)
    ahead = [fsdp.ahead_seconds(job, backward=backward) for backward in (False, True)]
    assert ahead[0] > waited[0] > 0
    launch = in_one_micro_batch(job)["launch"]
    spans = [fsdp.forward_span(job), fsdp.backward_span(job, reduces=True)]
    lost = [sum(span.parts().values()) - sum(replace(span, launch=0.0).parts().values()) for span in spans]
    saved = [min(three) for three in zip(ahead, waited, lost, strict=True)]
    waits = [fsdp.position_seconds(job, backward=backward) for backward in (False, True)]
    assert sum(waits) > 0
    assert launch == pytest.approx(micro_batch_seconds(job) + layers * sum(waited + waits) - sum(saved))


def test_a_gpu_that_never_waits_has_nothing_to_save() -> None:
    job = update_job(workloads.grpo_7b())
    assert waiting_seconds(job) == [0, 0]
    assert in_one_micro_batch(job)["launch"] == pytest.approx(micro_batch_seconds(job))


def test_fsdp1_launches_two_layers_ahead_where_it_gathers_them() -> None:
    workload = few_tokens().with_actor_engine(backend=Backend.FSDP)
    job = update_job(workload, trains=False)
    span = fsdp.forward_span(job)
    assert fsdp.layers_ahead(job, span) == 2
    alone = update_job(workloads.grpo_7b(gpus_per_node=1).with_actor_engine(backend=Backend.FSDP))
    kept = update_job(workload.with_actor_engine(reshard_after_forward=False))
    assert fsdp.layers_ahead(alone, span) == fsdp.layers_ahead(kept, span) == job.model.layers


@given(
    prompt=st.integers(8, 4096), nodes=st.sampled_from([1, 4]), trains=st.booleans(), prefetch=st.booleans()
)
def test_no_pass_is_shorter_than_its_gpu_and_its_links_take(
    prompt: int, nodes: int, trains: bool, prefetch: bool
) -> None:
    """Where gathers decide, launching ahead saves nothing."""
    workload = workloads.grpo_7b(nodes=nodes).with_batch(
        prompts=8 * nodes,
        mini_batch_prompts=8 * nodes,
        responses_per_prompt=1,
        max_prompt_tokens=prompt,
        max_response_tokens=8,
    )
    job = update_job(workload.with_actor_engine(forward_prefetch=prefetch), trains=trains)
    spans = [fsdp.forward_span(job), *([fsdp.backward_span(job, reduces=True)] if trains else [])]
    unlaunched = [sum(replace(span, launch=0.0).parts().values()) for span in spans]
    root = fsdp.root_seconds(job, reduces=True) + fsdp.root_copies(job, reduces=True)
    least = root + job.model.layers * sum(unlaunched) + head_of(job, trains=trains)
    parts = in_one_micro_batch(job)
    assert sum(parts.values()) >= least * (1 - 1e-9)
    assert min(parts.values()) >= 0
