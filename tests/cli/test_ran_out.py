"""The log of a job that ended out of memory: what is said first, and what is no longer offered."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import run
from tests.cli.test_logs import steps
from tests.inputs.logs import log
from tests.trainers.launches import DYNAMIC
from tuner.render.schemas import schema
from tuner.units import GIB

pytestmark = pytest.mark.sampled(12)

GPU = ("--gpu", "h100-sxm")
JOB = (
    *DYNAMIC,
    "trainer.n_gpus_per_node=8",
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
)
WORKER = "(WorkerDict pid=99) "
STACK = """\
Traceback (most recent call last):
  File "/opt/verl/verl/workers/fsdp_workers.py", line 980, in update_actor
    metrics = self.actor.update_policy(data=data)
  File "/opt/verl/verl/workers/actor/dp_actor.py", line 612, in update_policy
    loss.backward()
"""
MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. GPU 0 has a total capacity of "
    "79.11 GiB of which 6.10 GiB is free. Process 12 has 73.00 GiB memory in use. Of the allocated memory "
    "60.10 GiB is allocated by PyTorch, and 11.05 GiB is reserved by PyTorch but unallocated."
)
ENDS = "".join(f"{WORKER}{line}\n" for line in (STACK + MESSAGE).splitlines())


def ended(*overrides: str, end: str = ENDS, count: int = 1) -> str:
    return log("0.7.0", (*JOB, *overrides), steps(count) if count else (), tail=end)


@cache
def report_of(text: str) -> dict[str, Any]:
    result = run("advise", "-", *GPU, "-f", "json", stdin=text)
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


def words_of(text: str, *options: str, code: int = 0) -> str:
    result = run("advise", "-", *GPU, *options, stdin=text)
    assert result.code == code, result.err
    return " ".join(result.out.split())


def test_the_headline_says_that_the_job_ran_out_and_where() -> None:
    text = ended()
    line = 1 + next(place for place, line in enumerate(text.split("\n")) if "OutOfMemoryError" in line)
    said = words_of(text)
    assert said.startswith("RAN OUT in update_actor of step 2"), said[:200]
    head = said.partition("verl 0.7.0")[0]
    for fact in (f"line {line}", "9.27 GiB were asked for, 6.1 GiB were free", "vocabulary"):
        assert fact in head, fact
    assert "60.1 GiB in tensors" in head and "the model has 39.4 GiB" in head
    assert "What makes room" in said and "Paste this" not in said and "FITS " not in said


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_every_form_says_so_first(form: str) -> None:
    said = run("advise", "-", *GPU, "-f", form, stdin=ended()).out
    assert said.partition("RAN OUT")[0].count("FIT") == 0 < said.count("RAN OUT")
    assert "gpu_memory_utilization=0.6" not in said
    assert "What makes room" in said


def test_nothing_is_offered_that_takes_more_memory() -> None:
    ran, out = report_of(log("0.7.0", JOB, steps(1))), report_of(ended())
    assert ran["additions"]
    more = [finding for finding in ran["findings"] if _takes_more(finding)]
    assert more, "the same job, had it not run out, is offered a larger share for the engine"
    assert not [finding["name"] for finding in out["findings"] if _takes_more(finding)]
    assert out["combination"] is None
    assert not out["additions"]


def _grown(finding: dict[str, Any]) -> str | None:
    price = finding["price"]
    grows = price is not None and price["after_bytes"] > price["before_bytes"]
    return price["phase"] if grows else None


def _takes_more(finding: dict[str, Any]) -> bool:
    price = finding["price"]
    return price is not None and (
        price["after_bytes"] > price["before_bytes"]
        or price["worst_after_bytes"] > price["worst_before_bytes"]
    )


def test_what_fits_beneath_what_was_observed_is_still_offered() -> None:
    """An error whose figures are below the model's leaves room for the engine, not for what ran out."""
    small = ENDS.replace("60.10 GiB is", "30.10 GiB is").replace("11.05 GiB is", "41.05 GiB is")
    long = {"response_length__mean": 2000.0, "prompt_length__mean": 900.0}
    share = "actor_rollout_ref.rollout.gpu_memory_utilization=0.4"
    for end, offered in ((small, True), (ENDS, False)):
        report = report_of(log("0.7.0", (*JOB, share), steps(1, **long), tail=end))
        grown = {phase for item in report["findings"] if (phase := _grown(item)) is not None}
        assert ("rollout" in grown) is offered, report["findings"]
        assert "update_actor" not in grown


def test_no_value_of_a_key_is_said_to_fit_that_may_be_larger() -> None:
    assert "fits up to" in words_of(log("0.7.0", JOB, steps(1)))
    assert "fits up to" not in words_of(ended())
    assert not report_of(ended())["premises"]["fitting_values"]


@pytest.mark.parametrize(
    ("changed", "offered"),
    [
        ({"timing_s__agent_loop__num_preempted__mean": 0.5}, "Give it more memory"),
        ({"perf__max_memory_allocated_gb": 1.0}, "there is room for"),
    ],
)
def test_no_sign_of_the_run_offers_more_memory(changed: dict[str, float], offered: str) -> None:
    assert offered not in words_of(log("0.7.0", JOB, steps(2, **changed), tail=ENDS))


def test_what_makes_room_takes_less_in_the_phase() -> None:
    error = report_of(ended())["log"]["out_of_memory"]
    assert error["remedies"]
    for remedy in error["remedies"]:
        assert remedy["phase"] == "update_actor"
        assert remedy["after_bytes"] < remedy["before_bytes"]


def test_the_report_has_the_fact() -> None:
    text = ended()
    report = report_of(text)
    jsonschema.validate(report, schema("report"))
    error = report["log"]["out_of_memory"]
    assert report["verdict"] == "ran_out"
    assert report["memory_verdict"] == "fits"
    assert error["phases"] == ["update_actor"]
    assert error["step"] == 2
    assert error["requested_bytes"] == round(9.27 * GIB)
    assert error["tensor_bytes"] == round(60.1 * GIB)
    assert error["modelled_tensor_bytes"] < error["tensor_bytes"]


def test_the_exit_code_is_that_of_a_job_that_does_not_fit() -> None:
    assert run("advise", "-", *GPU, "--fail-on", "error", stdin=ended()).code == 1
    result = run("check", "-", *GPU, stdin=ended())
    assert result.code == 1
    said = " ".join(result.out.split())
    assert " error MEM001 does-not-fit: RAN OUT: in update_actor of step 2 (line " in said
    assert run("check", "-", *GPU, "--select", "MEM001", stdin=log("0.7.0", JOB, steps(1))).code == 0


def test_a_job_that_went_on_behind_an_error_did_not_end_in_it() -> None:
    text = ended() + "step:2 - timing_s/step:118.0 - timing_s/gen:60.0\n"
    report = report_of(text)
    assert report["verdict"] != "ran_out"
    assert report["log"]["out_of_memory"] is not None


def test_an_error_before_the_first_step_says_so() -> None:
    said = words_of(ended(count=0))
    assert said.startswith("RAN OUT in update_actor, before any step ended"), said[:200]


def test_an_error_without_figures_offers_nothing_that_takes_more() -> None:
    bare = f"{WORKER}RuntimeError: CUDA error: out of memory\n"
    report = report_of(ended(end=bare))
    assert report["verdict"] == "ran_out"
    assert not [finding["name"] for finding in report["findings"] if _takes_more(finding)]


def test_an_engine_that_did_not_start_is_offered_a_larger_share() -> None:
    """Its cure is more memory for the engine, and what takes from it is left out."""
    message = "ValueError: No available memory for the cache blocks. Try increasing gpu_memory_utilization."
    text = ended("actor_rollout_ref.rollout.gpu_memory_utilization=0.3", end=f"{WORKER}{message}\n", count=0)
    report = report_of(text)
    assert report["verdict"] == "ran_out"
    assert any("gpu_memory_utilization" in one for one in _overrides(report))


def _overrides(report: dict[str, Any]) -> list[str]:
    remedies = report["log"]["out_of_memory"]["remedies"]
    return [override for remedy in remedies for override in remedy["overrides"]]


def test_a_log_alone_tells_its_job_to_explain_oom(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("log") / "run.log"
    file.write_text(ended())
    alone = run("explain-oom", "--message", str(file), *GPU)
    both = run("explain-oom", str(file), "--message", str(file), *GPU)
    assert (alone.code, alone.out) == (0, both.out)
    assert "Qwen3-8B" not in alone.out or "to know" not in alone.out
    assert "The model says" in alone.out
