"""The record of a job with verl's shape: what is written, what verl sees meanwhile, what breaks nothing."""

import asyncio
import importlib
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.cli.golden import expect
from tests.cli.runner import run
from tests.inside_verl.recorded_job import STEPS, FakeCuda, Job, batch, configuration
from tuner.cli import watching
from tuner.inputs.record.read import read_record
from tuner.inside_verl.record import meter, process, table
from tuner.inside_verl.record.worker import VerlWorker
from tuner.units import GIB
from tuner.workload import Phase

pytestmark = pytest.mark.sampled(6)

GOLDEN = Path(__file__).parent / "golden"
METRICS = {
    "prompt_length/mean": 125.0,
    "response_length/mean": 375.0,
    "timing_s/gen": 4.0,
    "timing_s/old_log_prob": 0.5,
    "timing_s/ref": 0.5,
    "timing_s/update_actor": 1.0,
    "timing_s/update_weights": 0.25,
    "timing_s/step": 6.5,
    "perf/max_memory_allocated_gb": 12.0,
    "perf/max_memory_reserved_gb": 13.0,
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_verl: Callable[..., None]) -> Job:
    monkeypatch.chdir(tmp_path)
    made = Job(tmp_path / "record", monkeypatch, fake_verl)
    monkeypatch.setattr(watching, "time", made.torch.clock)
    return made


@pytest.fixture
def recorded(job: Job) -> Job:
    job.log(METRICS, config=configuration())
    for rank in (0, 1):
        job.run(rank)
    return job


class Asked(dict[str, Any]):
    """A batch that says further things beside its content."""


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_phase_of_every_step_of_every_rank_is_a_line(recorded: Job) -> None:
    record = read_record(recorded.folder)
    assert [worker.process.rank for worker in record.workers] == [0, 1]
    for worker in record.workers:
        assert worker.running is None
        assert [(line.step, line.phase) for line in worker.phases] == [
            (0, Phase.UPDATE_WEIGHTS),
            *(
                (step, phase)
                for step in range(1, STEPS + 1)
                for phase in (
                    Phase.OLD_LOG_PROB,
                    Phase.REF_LOG_PROB,
                    Phase.UPDATE_ACTOR,
                    Phase.UPDATE_WEIGHTS,
                )
            ),
        ]
        update = next(line for line in worker.phases if line.phase is Phase.UPDATE_ACTOR)
        assert (update.sequences, update.tokens, update.response_tokens) == (64, 32_000, 24_000)
        assert (update.allocated_bytes, update.reserved_bytes) == (12 * GIB, 13 * GIB)
        assert update.seconds == 1.0
        log_prob = next(line for line in worker.phases if line.phase is Phase.OLD_LOG_PROB)
        assert log_prob.allocated_bytes == 8 * GIB
    assert [step.step for step in record.steps] == list(range(1, STEPS + 1))
    assert record.steps[0].values == METRICS


def test_the_peak_that_verl_logs_is_still_the_highest_since_the_process_began(job: Job) -> None:
    first, *_others = job.run(0, steps=1)
    assert first == {"perf/max_memory_allocated_gb": 12.0}
    cuda = job.torch.cuda
    assert cuda.resets > 0
    assert cuda.max_memory_allocated() == 12 * GIB  # of the phase before the last one
    cuda.reset_peak_memory_stats()  # verl's memory profiler
    assert cuda.max_memory_allocated() == cuda.held


def test_the_highest_peak_is_not_forgotten_over_lower_ones() -> None:
    cuda = FakeCuda()
    counters = meter.CudaMeter(cuda)
    for peak in (12, 6, 5):
        counters.begin()
        cuda.peak = peak * GIB
    counters.begin()
    assert cuda.max_memory_allocated() == 12 * GIB and cuda.max_memory_reserved() == 13 * GIB


def test_a_reset_of_verls_within_a_phase_takes_nothing_from_its_peak(job: Job) -> None:
    module = importlib.import_module("verl.workers.engine_workers")

    def update(self: Any, data: Any) -> None:
        job.torch.take(12.0, 1.0)
        job.torch.cuda.reset_peak_memory_stats()

    module.TrainingWorker.train_mini_batch = update
    job.run(0, steps=1)
    peaks = [line for line in read_record(job.folder).workers[0].phases if line.phase is Phase.UPDATE_ACTOR]
    assert peaks[0].allocated_bytes == 12 * GIB


@pytest.mark.parametrize(("other", "held"), [(0, 15 * GIB), (1, None)], ids=["its own", "another's"])
def test_the_driver_says_what_the_process_holds(
    job: Job, monkeypatch: pytest.MonkeyPatch, other: int, held: int | None
) -> None:
    running = [SimpleNamespace(pid=os.getpid() + other, usedGpuMemory=15 * GIB)]
    nvml = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlDeviceGetHandleByUUID={"GPU-of-the-test": "handle"}.__getitem__,
        nvmlDeviceGetComputeRunningProcesses={"handle": running}.__getitem__,
    )
    monkeypatch.setattr(meter, "started", lambda: nullcontext(nvml))
    properties = SimpleNamespace(name="card", total_memory=80 * GIB, uuid="of-the-test")
    monkeypatch.setattr(FakeCuda, "get_device_properties", lambda *_: properties)
    job.run(0, steps=1)
    assert {line.process_bytes for line in read_record(job.folder).workers[0].phases} == {held}


def test_the_configuration_beside_it_holds_no_secret(recorded: Job) -> None:
    text = (recorded.folder / "config.yaml").read_text()
    assert "hf_abc" not in text
    assert yaml.safe_load(text)["actor_rollout_ref"]["rollout"]["n"] == 4


@pytest.mark.sampled(6)
def test_the_first_rank_prints_a_table_when_the_second_and_the_third_step_begin(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[int] = []
    monkeypatch.setattr(table, "_printed", set())
    monkeypatch.setattr(table, "_print", lambda folder: printed.append(len(table._printed)))
    for rank in (1, 0):
        for step in range(STEPS + 1):
            table.print_table(job.folder, VerlWorker(role="actor_rollout_ref", rank=rank, world=2), step)
    for thread in [one for one in threading.enumerate() if one is not threading.current_thread()]:
        thread.join(timeout=10)
    assert printed == [2, 3]


def test_the_table_is_what_watch_prints(recorded: Job, capfd: pytest.CaptureFixture[str]) -> None:
    table._print(recorded.folder)
    out = capfd.readouterr().out
    assert "Observed beside modelled, medians of steps 2 to 5" in out
    assert "predicted" in out


def test_what_fails_in_a_phase_is_verls_own_error_and_the_last_line(job: Job) -> None:
    worker = importlib.import_module("verl.workers.engine_workers").ActorRolloutRefWorker(0)
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        worker.update_actor(batch(fails=True))
    last = lines(job.folder / "actor_rollout_ref-00000.jsonl")[-1]
    assert (last["phase"], last["failed"]) == ("update_actor", "MemoryError")
    assert "ended with MemoryError on rank 0" in run("watch", "record", "--once").out


def test_what_fails_in_recording_is_said_once_and_stops_the_record(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    job.folder.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, logger="tuner.inside_verl.record"):
        assert len(job.run(0)) == STEPS
    said = [record.getMessage() for record in caplog.records if "the record ends here" in record.getMessage()]
    assert len(said) == 1


def test_a_critic_has_phases_of_its_own_and_a_part_of_a_phase_has_no_line(job: Job) -> None:
    module = importlib.import_module("verl.workers.engine_workers")
    critic = module.TrainingWorker()
    critic.config = type("Config", (), {"model_type": "value_model"})
    for _step in range(2):
        critic.infer_batch(batch()["whole"])
        critic.train_mini_batch(batch()["whole"])
    worker = read_record(job.folder).workers[0]
    assert worker.process.role == "critic"
    told = [(line.step, line.phase) for line in worker.phases]
    assert told == [(s, p) for s in (1, 2) for p in (Phase.VALUES, Phase.UPDATE_CRITIC)]


@pytest.mark.parametrize("where", ["data", "meta_info", "extra_info"])
def test_a_reference_that_is_the_actor_without_adapters_is_a_phase_of_its_step(job: Job, where: str) -> None:
    """verl asks the actor twice then, by the same method; what the second call says differs."""
    worker = importlib.import_module("verl.workers.engine_workers").ActorRolloutRefWorker(0)
    reference = Asked(batch())
    if where == "data":
        reference["no_lora_adapter"] = SimpleNamespace(data=True)  # as a TensorDict hands it out
    else:
        setattr(reference, where, {"no_lora_adapter": True})
    for _step in (1, 2):
        worker.compute_log_prob(batch())
        worker.compute_log_prob(reference)
        worker.update_actor(batch())
    (recorded,) = read_record(job.folder).workers
    expected = (Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.UPDATE_ACTOR)
    assert [(line.step, line.phase) for line in recorded.phases] == [
        (step, phase) for step in (1, 2) for phase in expected
    ]


def test_a_job_that_starts_again_goes_on_in_the_same_file(recorded: Job) -> None:
    file = recorded.folder / "actor_rollout_ref-00000.jsonl"
    file.write_bytes(file.read_bytes() + b'{"line":"begin","step":6,"ph')  # killed while it wrote
    recorded.run(0, steps=2)
    assert max(line.step for line in read_record(recorded.folder).workers[0].phases) == 2


def test_without_the_trainers_process_a_worker_writes_what_it_knows(job: Job) -> None:
    worker = importlib.import_module("verl.workers.engine_workers").ActorRolloutRefWorker(0)
    section = configuration()["actor_rollout_ref"]
    section["rollout"] |= {"prompt_length": 256, "response_length": 512}
    worker.config = section
    data = batch()
    for step in (1, 2):
        worker.compute_log_prob(data)
        worker.update_actor(data["whole"] | {"whole": data["whole"]})
        asyncio.run(worker.update_weights(global_steps=step))
    tree = yaml.safe_load((job.folder / "worker-config.yaml").read_text())
    assert tree["data"] == {"train_batch_size": 32, "max_prompt_length": 256, "max_response_length": 512}
    report = json.loads(run("advise", "record", "-f", "json").out)
    assert report["workload"]["batch"]["prompts"] == 32
    assert report["log"]["observed"]["mean_response_tokens"] == 375
    assert "assumed the rest" in run("advise", "record", "--full").out


@pytest.mark.parametrize("command", ["advise", "watch", "accuracy"])
def test_commands_read_it(recorded: Job, command: str) -> None:
    further = {"advise": (), "watch": ("--once",), "accuracy": ()}[command]
    result = run(command, "record", *further)
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 80
    expect(f"recorded_{command}.txt", result.out, folder=GOLDEN)


def test_a_half_written_line_is_left_out_and_a_bad_one_named(recorded: Job) -> None:
    file = recorded.folder / "actor_rollout_ref-00001.jsonl"
    whole = file.read_bytes()
    number = whole.count(b"\n") + 1
    before = run("watch", "record", "--once").out
    file.write_bytes(whole + b'{"line":"phase","st')
    assert run("watch", "record", "--once").out == before
    for bad, reason in (
        (b'{"line":"phase","step":-1}', "step"),
        (b'{"line":"other"}', "other"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 5000, ""),
        (
            b'{"line":"process","version":99,"role":"a","rank":0,"world":1,"host":"","pid":1,"begun":0,"tuner":"9"}',
            "99",
        ),
    ):
        file.write_bytes(whole + bad + b"\n" + b'{"line":"begin","step":1,"phase":"rollout","begun":1}\n')
        for command in ("watch", "advise", "accuracy"):
            result = run(command, "record")
            assert (result.code, result.out) == (2, "")
            assert f"actor_rollout_ref-00001.jsonl:{number}: " in result.err or b"version" in bad
            assert reason in result.err
            assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_record_is_read_or_refused_in_one_message(recorded: Job, seed: int) -> None:
    random = Random(seed)
    file = random.choice(sorted(recorded.folder.iterdir()))
    data = bytearray(file.read_bytes())
    for _cut in range(3):
        place = random.randrange(len(data))
        damage = random.choice([b"", b"\n", b"\x00", b"\x1b[31m", b"9" * 40, b"}", b"null", data[:60]])
        data[place : place + random.randrange(40)] = damage
    file.write_bytes(data)
    for command in (("watch", "record", "--once"), ("accuracy", "record")):
        result = run(*command)
        assert result.code in (0, 2)
        assert bool(result.out) is (result.code == 0)
        assert "\x1b" not in result.out + result.err
        assert len(result.err.splitlines()) == (result.code == 2)
        assert "internal error" not in result.err


def test_a_phase_that_runs_is_shown(recorded: Job) -> None:
    file = recorded.folder / "actor_rollout_ref-00001.jsonl"
    now = recorded.torch.clock.now
    begun = {"line": "begin", "step": 6, "phase": "update_actor", "begun": now - 12}
    file.write_text(file.read_text() + json.dumps(begun) + "\n")
    out = run("watch", "record", "--once").out
    assert "step 6" in out
    assert "update_actor runs on 1 rank, for 12 s" in out


def test_without_a_configuration_there_is_no_prediction_and_it_is_said(recorded: Job) -> None:
    (recorded.folder / "config.yaml").unlink()
    result = run("watch", "record", "--once")
    assert result.code == 0
    assert "no prediction: record: the record has no config.yaml beside it" in " ".join(result.out.split())
    assert ["update_actor", "1.0", "s", "12.0", "GiB", "13.0", "GiB"] in map(
        str.split, result.out.splitlines()
    )


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    for folder, reason in (("gone", "holds no record"), ("file", "is no directory")):
        (tmp_path / "file").write_text("x")
        result = run("watch", str(tmp_path / folder))
        assert result.code == 2
        assert reason in result.err


def test_the_recorder_is_of_the_process(job: Job) -> None:
    assert process.recorder() is process.recorder()
