"""Real jobs with a known end: what ran is not refused, what ran out of memory is not waved through."""

import re
from dataclasses import replace

import pytest
from msgspec import structs

from tests import workloads
from tests.corpus import outcomes
from tests.outcomes import FIT, LEFT_OUT, OUT_OF_HOST_MEMORY, OUT_OF_MEMORY, Job, report
from tuner.memory.failed_allocation.explanation import Confidence, matches, parse_failed_allocation
from tuner.memory.failed_allocation.tensors import tensors
from tuner.models import find_model
from tuner.workload import HeadKind, Lora

pytestmark = pytest.mark.sampled(6)

JUDGED = [*FIT, *OUT_OF_MEMORY, *OUT_OF_HOST_MEMORY]
FITS = {("fits", None), ("may_not_fit", "nothing_else"), ("may_not_fit", "doubt")}
SHORT = ("may_not_fit", "mean_length")

# Facts that decide and that the record lacks, with the largest value that the record leaves open. The
# answer must name them as resting on defaults, and give the range with which the job fits, which must end
# below.
MISSING = {
    "o141": (("data.max_prompt_length", "data.max_response_length"), 32768),  # max_model_len of the engine
}
# The same facts, as a later commit of the record's own repository tells them.
FOUND = {"o141": ("data.max_prompt_length=4096", "data.max_response_length=28672")}

PRODUCT = re.compile(r"([\d,]+) tokens x ([\d,]+)(?: vocab)? x (\d) B")


def _named(job: Job) -> str:
    return job.record


@pytest.mark.sampled(8)
@pytest.mark.parametrize("job", FIT, ids=_named)
def test_what_is_documented_to_run_is_not_refused(job: Job) -> None:
    found = report(job)
    said = found["memory_verdict"], found["memory_condition"]
    assert said in FITS | {SHORT}, found["memory"]
    if said == SHORT:
        longest = found["workload"]["batch"]
        assert found["mean_tokens"] < longest["max_prompt_tokens"] + longest["max_response_tokens"]


@pytest.mark.parametrize("job", FIT, ids=_named)
def test_what_is_documented_to_run_has_no_error(job: Job) -> None:
    findings = report(job)["findings"]
    assert [found for found in findings if found["severity"] == "error"] == []


def test_what_starts_with_one_core_of_its_engine_only_is_said_to() -> None:
    """0.2 of the card is 15.9 GiB: V1's sampler alone takes 4.1 beside weights of 14.2, V0's 1.2."""
    job = next(job for job in FIT if job.record == "o079")
    answer = report(job)
    memory = answer["memory"]
    assert ["V0 core" in doubt for doubt in memory["doubts"]] == [True]
    assert not memory["problems"]
    (finding,) = (finding for finding in answer["findings"] if finding["name"] == "kv-cache-too-small")
    assert finding["severity"] == "warning"
    assert finding["notes"] == memory["doubts"]


@pytest.mark.parametrize("job", OUT_OF_MEMORY, ids=_named)
def test_what_ran_out_of_memory_is_not_waved_through(job: Job) -> None:
    found = report(job)
    if (found["memory_verdict"], found["memory_condition"]) not in FITS:
        return
    premises = found["premises"]
    assert job.record in MISSING, f"{job.record}: {found['verdict']}, resting on {premises}"
    keys, largest = MISSING[job.record]
    for key in keys:
        assert key in premises["resting_on_defaults"]
        safe = premises["fitting_values"][key]["certain"]
        assert safe is None or safe < largest


def test_what_an_older_release_does_is_a_fact_that_is_missing() -> None:
    """The record has float32 logits: the answer names what the release does, and its range covers them."""
    found = report(next(job for job in OUT_OF_MEMORY if job.record == "o113"))
    assert (found["memory_verdict"], found["memory_condition"]) == ("may_not_fit", "release")
    assert found["release_range"]["release"] == "verl 0.2.0"
    ways = {one["name"]: one for one in found["release_range"]["considered"]}
    assert ways["as verl 0.3.0.post1"]["fits"]
    float32 = next(way for name, way in ways.items() if "float32 logits" in name)
    assert not float32["fits"]
    assert float32["worst_phase"] == "update_actor"
    assert found["release_range"]["mean_tokens"] < 2048 + 32768


@pytest.mark.parametrize("record", FOUND)
def test_with_the_missing_facts_no_job_that_ran_out_of_memory_fits(record: str) -> None:
    """What decides is the update's logits, whose freed blocks PyTorch holds while the engine wakes."""
    job = next(job for job in OUT_OF_MEMORY if job.record == record)
    found = report(replace(job, overrides=(*job.overrides, *FOUND[record])))
    assert found["memory_verdict"] != "fits"
    assert found["memory"]["worst_phase"] == "update_weights"
    phase = next(one for one in found["memory"]["phases"] if one["phase"] == "update_weights")
    assert phase["peak_moment"] == "weights_back"
    assert phase["peak_bytes"] > 0.95 * found["memory"]["capacity_bytes"]
    assert phase["interval_bytes"][1] > found["memory"]["capacity_bytes"]


@pytest.mark.parametrize("job", OUT_OF_HOST_MEMORY, ids=_named)
def test_what_ran_out_of_host_memory_is_not_waved_through(job: Job) -> None:
    found = report(job)
    assert found["memory_verdict"] == "does_not_fit"
    assert job.host_memory is not None
    assert found["memory"]["host_bytes"] > job.host_memory * 2**30
    assert any("host memory" in problem for problem in found["memory"]["problems"])


def test_every_record_is_judged_or_left_out_with_a_reason() -> None:
    judged = [job.record for job in JUDGED]
    left_out = [record for named in LEFT_OUT.values() for record in named]
    assert sorted(judged + left_out) == sorted(outcomes())  # none twice, none missing


def test_no_job_with_settings_that_verl_reads_is_left_out() -> None:
    """What has overrides of verl's own is judged, whatever came of it."""
    with_settings = {
        name for name, record in outcomes().items() if "overrides" in record["config"] and record["model"]
    }
    assert with_settings <= {job.record for job in JUDGED}


def _quoted(record: str) -> str:
    """The allocation that failed, as torch wrote it."""
    seen = outcomes()[record]["observed"]
    if "tried_to_allocate_gib" in seen:
        return f"CUDA out of memory. Tried to allocate {seen['tried_to_allocate_gib']:.2f} GiB."
    return f"CUDA out of memory. Tried to allocate {seen['tried_to_allocate_mib']:.2f} MiB."


LOGITS = [name for name, record in outcomes().items() if PRODUCT.search(record["explanation"] or "")]


def test_the_records_that_quote_logits_are_known() -> None:
    assert LOGITS == ["o111", "o113"]


@pytest.mark.parametrize("record", LOGITS)
def test_an_allocation_of_logits_is_explained_as_its_record_does(record: str) -> None:
    """Tokens, vocabulary and bytes are those of the record's own explanation."""
    said = PRODUCT.search(outcomes()[record]["explanation"])
    assert said is not None
    tokens, vocab, size = (int(part.replace(",", "")) for part in said.groups())
    job = next(job for job in JUDGED if job.record == record)
    first = report(job, "--failed-allocation", _quoted(record))["failed_allocation"]["candidates"][0]
    assert first["item"] == "logits"
    assert first["formula"] == f"{tokens:,} tokens x {vocab:,} vocabulary entries x {size} bytes"
    assert first["low_tokens"] <= tokens <= first["high_tokens"]
    assert first["made_by"]


def test_an_allocation_of_states_is_not_taken_for_logits() -> None:
    """98 MiB on a GPU of four: a layer's 100,669,440 parameters / 4 x 4 bytes, rounded up to 2 MiB."""
    job = next(job for job in JUDGED if job.record == "o119")
    found = report(job, "--failed-allocation", _quoted("o119"))["failed_allocation"]["candidates"]
    exact = [one["name"] for one in found if one["confidence"] == "exact"]
    assert exact == ["actor_layer_shard_4", "critic_layer_shard_4"]
    assert found[0]["formula"] == "100,669,440 parameters of a decoder layer / 4 ranks x 4 bytes"


def test_an_allocation_of_routed_tokens_is_not_taken_for_logits() -> None:
    """8.00 GiB of a sparse model: 65,536 tokens x 8 experts x 4,096 hidden entries x 4 bytes."""
    workload = workloads.grpo_7b().with_batch(max_prompt_tokens=1024, max_response_tokens=64512)
    workload = structs.replace(workload, model=find_model("Qwen3-235B-A22B"), reference=None)
    workload = workload.with_actor(update=workloads.dynamic(65536), log_prob=None)
    workload = workload.with_actor_engine(lora=Lora(rank=16, parameters=10_000_000))
    workload = workload.with_actor_head(kind=HeadKind.FUSED_TORCH)
    line = outcomes()["o025"]["observed"]["error"]
    found = matches(parse_failed_allocation(line), tensors(workload))
    exact = [one.tensor.name for one in found if one.confidence is Confidence.EXACT]
    assert exact == ["routed_float32"]
    assert found[0].tokens == 65536
