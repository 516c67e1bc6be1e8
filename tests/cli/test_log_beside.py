"""A script together with the log of its run: what is read of each, and what the log decides."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import run
from tests.cli.test_logs import steps
from tests.cli.test_ran_out import ENDS
from tests.inputs.logs import TIMED, log
from tuner.render.schemas import schema

pytestmark = pytest.mark.sampled(12)

GPU = ("--gpu", "h100-sxm", "--verl-version", "0.7.1")
SCRIPT = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=4096 {batch} \\
    actor_rollout_ref.model.path=Qwen/Qwen3-4B \\
    actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 {gpus}
"""
LINE = (
    "(TaskRunner pid=4242) step:1 - global_seqlen/mean:18344.0 - actor/entropy:0.625 - "
    "actor/perf/max_memory_allocated_gb:np.float64(9.997) - response_length/mean:3301.0 - "
    "response_length/max:4096.0 - response_length/clip_ratio:0.4 - prompt_length/mean:812.0 - "
    "timing_s/gen:341.2 - timing_s/old_log_prob:31.0 - timing_s/update_actor:159.1 - "
    "timing_s/update_weights:4.1 - timing_s/step:541.6\n"
)
#: 128 responses of 3,301 and 812 tokens, in 541.6 s on 16 GPUs.
TOTAL = 128 * (3301 + 812)
OF_JOB = (
    f" - perf/total_num_tokens:{TOTAL} - perf/time_per_step:541.6"
    f" - perf/throughput:{TOTAL / 541.6 / 16:.6f}\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(SCRIPT.format(batch="data.train_batch_size=32", gpus=""))
    (tmp_path / "open.sh").write_text(SCRIPT.format(batch="", gpus=""))
    (tmp_path / "set.sh").write_text(
        SCRIPT.format(batch="data.train_batch_size=32", gpus="trainer.n_gpus_per_node=8 trainer.nnodes=1")
    )
    (tmp_path / "tail.log").write_text(LINE)
    return tmp_path


def report_of(*words: str) -> dict[str, Any]:
    result = run("advise", *words, *GPU, "-f", "json")
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    jsonschema.validate(report, schema("report"))
    return report


def seconds(report: dict[str, Any]) -> dict[str, float | None]:
    return {row["phase"]: row["observed_seconds"] for row in report["log"]["observed"]["phases"]}


def test_a_tail_gives_lengths_seconds_and_the_peak(folder: Path) -> None:
    report = report_of("run.sh", "--log", "tail.log")
    lengths = report["workload"]["batch"]["lengths"]
    assert (lengths["mean_prompt"], lengths["mean_response"], lengths["response_p95"]) == (812, 3301, 4096)
    assert seconds(report)["rollout"] == 341.2
    assert seconds(report)["update_actor"] == 159.1
    assert report["log"]["observed"]["memory"]["allocated_bytes"] == round(9.997 * 2**30)
    said = " ".join(run("advise", "run.sh", "--log", "tail.log", *GPU).out.split())
    assert "Observed beside modelled, in step 1 of the run" in said
    assert "mean response 3,301 (the run)" in said


@pytest.mark.sampled(6)
@pytest.mark.parametrize("before", ["", "(TaskRunner pid=4242) ", "\x1b[36m(TaskRunner pid=4242)\x1b[0m "])
@pytest.mark.parametrize("mark", [" - ", "- ", ""])
def test_metrics_over_several_lines_are_read_as_one_step(folder: Path, before: str, mark: str) -> None:
    head, *metrics = LINE.removeprefix("(TaskRunner pid=4242) ").strip().split(" - ")
    blocks = [
        before + f"{head}{' -' if not mark else ''}\n" + "".join(f"{before}{mark}{one}\n" for one in metrics),
        before + f"{head} - {metrics[0]}\n" + "".join(f"{before}  {mark}{one}\n" for one in metrics[1:]),
    ]
    for block in blocks:
        (folder / "tail.log").write_text("Some words before it.\n" + block + "Some words behind it.\n")
        assert seconds(report_of("run.sh", "--log", "tail.log"))["update_actor"] == 159.1
        alone = run("advise", "tail.log", *GPU)
        assert alone.code == 2 and "tuner advise run.sh --log tail.log" in alone.err


def test_a_tail_alone_says_what_to_give(folder: Path) -> None:
    result = run("advise", "tail.log", *GPU)
    assert result.code == 2
    assert "the log holds no configuration" in result.err
    assert "tuner advise run.sh --log tail.log" in result.err
    assert len(result.err.strip().splitlines()) <= 4


def test_what_the_script_leaves_open_comes_from_the_metrics(folder: Path) -> None:
    (folder / "tail.log").write_text(LINE.rstrip("\n") + OF_JOB)
    report = report_of("open.sh", "--log", "tail.log")
    assert (report["workload"]["cluster"]["gpus_per_node"], report["workload"]["cluster"]["nodes"]) == (8, 2)
    assert report["workload"]["batch"]["prompts"] == 32
    taken = [remark["text"] for remark in report["log"]["taken"]]
    assert any("trainer.nnodes=2" in text and "perf/throughput" in text for text in taken), taken
    assert any("data.train_batch_size=32" in text and "perf/total_num_tokens" in text for text in taken)
    said = " ".join(run("advise", "open.sh", "--log", "tail.log", *GPU).out.split())
    assert "trainer.nnodes=2" in said and "perf/throughput" in said


def test_what_the_script_or_an_option_says_stays(folder: Path) -> None:
    (folder / "tail.log").write_text(LINE.rstrip("\n") + OF_JOB)
    assert report_of("set.sh", "--log", "tail.log")["workload"]["cluster"]["nodes"] == 1
    said = " ".join(run("advise", "set.sh", "--log", "tail.log", *GPU).out.split())
    assert "perf/throughput shows trainer.nnodes=2" in said
    named = report_of("open.sh", "--log", "tail.log", "--gpus-per-node", "4", "--nodes", "1")
    assert named["workload"]["cluster"]["gpus_per_node"] == 4


def test_a_printed_configuration_is_what_ran(folder: Path) -> None:
    job = (
        "actor_rollout_ref.model.path=Qwen/Qwen3-4B",
        "actor_rollout_ref.rollout.name=vllm",
        "data.train_batch_size=64",
        "data.max_response_length=4096",
    )
    (folder / "run.log").write_text(log("0.7.1", job, steps()))
    report = report_of("run.sh", "--log", "run.log")
    assert report["workload"]["batch"]["prompts"] == 64
    assert any(
        "data.train_batch_size" in remark["text"] and "32" in remark["text"] and "64" in remark["text"]
        for remark in report["log"]["taken"]
    )
    places = {item["key"]: item["location"]["source"] for item in report["premises"]["settings"]}
    assert places["data.train_batch_size"] == "run.log"
    over = report_of("run.sh", "data.train_batch_size=128", "--log", "run.log")
    assert over["workload"]["batch"]["prompts"] == 128


def test_an_error_at_the_end_is_explained_with_the_script(folder: Path) -> None:
    (folder / "tail.log").write_text(LINE + ENDS)
    said = run("advise", "run.sh", "--log", "tail.log", *GPU).out
    assert said.startswith("RAN OUT  in update_actor of step 2 (line 7)"), said[:100]
    explained = run("explain-oom", "run.sh", "--log", "tail.log", *GPU)
    assert explained.code == 0, explained.err
    assert "Qwen3-4B" in explained.out or "The model says" in explained.out
    with_message = run("explain-oom", "run.sh", "--log", "tail.log", "--message", "tail.log", *GPU)
    assert with_message.out == explained.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("advise", "run.sh", "--log", "nothing.log"), "nothing.log"),
        (("advise", "run.sh", "--log", "run.sh"), "nothing in it is of a run"),
        (("advise", "-", "--log", "-"), "standard input"),
        (("explain-oom", "run.sh"), "--message"),
        (("explain-oom", "run.sh", "--log", "tail.log"), "nothing in it says that memory ran out"),
        (("advise", "whole.log", "--log", "tail.log"), "is itself"),
    ],
)
def test_what_cannot_be_used_ends_in_one_message(folder: Path, words: tuple[str, ...], message: str) -> None:
    (folder / "whole.log").write_text(log("0.7.1", ("data.train_batch_size=64",), [TIMED]))
    result = run(*words, *GPU)
    assert result.code == 2
    assert message in result.err, result.err
    assert "Traceback" not in result.err
