"""How long a step's batch travels between driver and workers, against arithmetic by hand."""

from msgspec.structs import replace

from tests import workloads
from tuner.timing.assumptions import RECEIVED_BYTES_PER_S, SENT_BYTES_PER_S
from tuner.timing.dispatch import dispatch_seconds, returned_bytes, sent_bytes
from tuner.timing.job import Job
from tuner.workload import Phase, Travel, Workload


def job(workload: Workload, phase: Phase) -> Job:
    step_pass = next(one for one in workload.passes() if one.phase is phase)
    return Job(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


BASE = workloads.grpo_7b().with_batch(
    prompts=512,
    mini_batch_prompts=32,
    responses_per_prompt=16,
    max_prompt_tokens=2048,
    max_response_tokens=8192,
    travel=Travel.PADDED,
)


def test_bytes_are_those_of_the_padded_tensors() -> None:
    # Ids, mask, positions of 10,240; prompt; response and its mask: all int64.
    assert sent_bytes(job(BASE, Phase.OLD_LOG_PROB)) == 8192 * 8 * (3 * 10240 + 2048 + 2 * 8192)
    more = sent_bytes(job(BASE, Phase.UPDATE_ACTOR)) - sent_bytes(job(BASE, Phase.OLD_LOG_PROB))
    assert more == 8192 * 5 * 4 * 8192
    assert returned_bytes(job(BASE, Phase.OLD_LOG_PROB)) == 8192 * 2 * 4 * 8192
    assert returned_bytes(job(BASE, Phase.UPDATE_ACTOR)) == 0


def test_more_gpus_take_the_same_from_the_driver() -> None:
    one = job(BASE, Phase.OLD_LOG_PROB)
    wide = replace(one.engine, parallel=replace(one.engine.parallel, gpus=512))
    many = replace(one, step_pass=replace(one.step_pass, engine=wide))
    least = sent_bytes(one) / SENT_BYTES_PER_S + returned_bytes(one) / RECEIVED_BYTES_PER_S
    assert least < dispatch_seconds(many) < dispatch_seconds(one) < 1.5 * least


def test_a_store_of_its_own_is_read_by_the_workers() -> None:
    packed, stored = (BASE.with_batch(travel=travel) for travel in (Travel.PACKED, Travel.STORED))
    assert sent_bytes(job(packed, Phase.OLD_LOG_PROB)) < sent_bytes(job(BASE, Phase.OLD_LOG_PROB))
    assert dispatch_seconds(job(stored, Phase.UPDATE_ACTOR)) == 0
