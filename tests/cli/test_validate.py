import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import ROOT, run
from tests.memory.test_accuracy import PASS
from tests.validate.called import called
from tests.validate.parts import CONFIG, FakePart, figure, only, verdict
from tuner.accuracy import MeasuredCase
from tuner.render.schemas import schema
from tuner.validate import plans
from tuner.validate.children import here
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import OtherProcess, Outcome
from tuner.validate.session import Options, Planned, Session

GIVEN = ("validate", CONFIG, "--verl-version", "0.9.1", "--gpu", "h100-sxm")
CPU = (*GIVEN, "--device", "cpu")


def fake(monkeypatch: pytest.MonkeyPatch, **parts: FakePart) -> None:
    """Put parts in the place of the package's, by their names in :class:`ValidationPart`."""
    monkeypatch.setattr(
        plans, "PARTS", only({ValidationPart[name.upper()]: part for name, part in parts.items()})
    )


def judged(outcome: Outcome) -> FakePart:
    return FakePart(lambda session: session.judge(verdict(outcome)))


def test_on_a_cpu_the_whole_way_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def act(session: Session) -> None:
        doubled = session.call(called("double"), 21, title="doubling", expected_s=1.0, timeout_s=100.0)
        session.add(figure(unit="tokens", measured=doubled, predicted=42))
        session.add_case(MeasuredCase.model_validate(PASS))

    fake(monkeypatch, training_step=FakePart(act))
    file = tmp_path / "report.json"
    result = run(*CPU, "--output", str(file), "-f", "json", "--", "data.train_batch_size=256")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    jsonschema.validate(report, schema("validation"), cls=jsonschema.Draft202012Validator)
    assert json.loads(file.read_text()) == report
    validation = report["validation"]
    assert (validation["source"], validation["overrides"]) == (CONFIG, ["data.train_batch_size=256"])
    assert (validation["machine"]["device"], validation["machine"]["devices"]) == ("cpu", 1)
    assert validation["machine"]["versions"].keys() >= {"torch", "transformers", "python"}
    parts = {part["part"]: part for part in validation["parts"]}
    assert parts["training-step"]["status"] == "done", parts
    assert parts["training-step"]["measurements"][0]["measured"] == 42
    assert parts["search"]["reason"] == "a test left it out"
    assert len(validation["recommendations"]) > 3
    assert "training-step: doubling (about 1 s; " in result.err
    assert result.err.endswith(f"wrote {file}\n")
    assert run("accuracy", str(file)).code == 0


@pytest.mark.parametrize(
    ("outcome", "code", "word"),
    [
        (Outcome.CONFIRMED, 0, "CONFIRMED"),
        (Outcome.NOT_MEASURABLE, 0, "NOTHING JUDGED"),
        (Outcome.REFUTED, 1, "REFUTED"),
    ],
)
def test_the_exit_code_says_whether_the_advice_holds(
    outcome: Outcome, code: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, machine=judged(outcome))
    result = run(*CPU)
    assert (result.code, result.out.splitlines()[0].split("  ")[0]) == (code, word)
    assert max(map(len, result.out.splitlines())) <= 80
    assert run(*CPU, "-f", "markdown").out.startswith(f"## Qwen2.5-7B-Instruct: {word}\n")


def test_control_c_prints_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def act(session: Session) -> None:
        session.judge(verdict(Outcome.REFUTED))
        raise KeyboardInterrupt

    fake(monkeypatch, machine=FakePart(act), search=FakePart())
    file = tmp_path / "report.json"
    result = run(*CPU, "--output", str(file))
    assert result.code == 130
    assert result.out.startswith("REFUTED  ")
    assert "The run was interrupted" in " ".join(result.out.split())
    assert json.loads(file.read_text())["validation"]["interrupted"] is True


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in a shell's background
from tests.validate.parts import FakePart, figure, only
from tests.validate.called import called
from tuner.validate import plans
from tuner.validate.parts import ValidationPart

pids = sys.argv.pop()

def act(session):
    session.add(figure())
    session.call(called("waits_with_a_child"), pids, title="waiting", expected_s=9.0)

plans.PARTS = only({ValidationPart.MACHINE: FakePart(act)})
from tuner.cli import main
main()
"""


@pytest.mark.slow
def test_control_c_ends_what_runs_and_leaves_a_report(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *CPU, "-f", "json", str(pids)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(pids, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    report = json.loads(out)["validation"]
    assert report["interrupted"] is True
    assert len(report["parts"][0]["measurements"]) == 1
    end = time.monotonic() + 20  # a killed process needs a moment to go
    while alive := [pid for pid in pids.read_text().split() if runs(pid)]:
        assert time.monotonic() < end, alive
        time.sleep(0.05)


IMPORTING = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from tuner.validate.children import servers
started, prepare = Path(sys.argv.pop()), servers.prepare
servers._driver_is_here = lambda: True
servers.prepare = lambda *arguments: (prepare(*arguments), started.touch())
from tuner.cli import main
main()
"""


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_control_c_while_the_servers_import_says_nothing_of_them(tmp_path: Path) -> None:
    """A terminal sends it to all of them."""
    started = tmp_path / "started"
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTING, *GIVEN, str(started)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(started, process)
        time.sleep(0.5)  # in the midst of importing torch
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def wait_for(file: Path, process: "subprocess.Popen[str]") -> None:
    """Until the process has written it."""
    end = time.monotonic() + 90
    while not file.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(pid: str) -> bool:
    """Whether a process is there and not only waiting for its parent to take note of its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] != "Z"


def without_a_gpu(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    node = here.Here(versions={}, missing=missing)
    monkeypatch.setattr(here, "look", lambda *_: node)


def test_without_a_gpu_the_plan_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Options] = []

    class Asked(FakePart):
        def plan(self, subject: Any, options: Options) -> tuple[Planned, ...]:
            seen.append(options)
            return super().plan(subject, options)

    fake(monkeypatch, machine=Asked())
    without_a_gpu(monkeypatch, "torch sees no GPU", "triton is not installed")
    result = run(*GIVEN)
    assert result.code == 2
    assert result.out.startswith("What would run\n  machine: about 5 s\n    something, 5 s\n")
    assert result.err == "error: nothing can be validated here: torch sees no GPU; triton is not installed\n"
    assert seen[0].processes == 8
    machine = run(*GIVEN, "-f", "json")
    assert (machine.code, machine.out) == (2, "")
    assert "What would run" in machine.err


def test_what_is_missing_is_found_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    result = run(*GIVEN)
    if "torch sees no GPU" not in result.err:
        assert "is built without CUDA" in result.err
    assert result.code == 2
    monkeypatch.setattr(here, "find_spec", lambda name: None)
    result = run(*GIVEN)
    assert result.err == (
        "error: nothing can be validated here: torch is not installed: pip install '.[gpu]', "
        "in a copy of tuner's repository\n"
    )


GPU = here.Device(name="NVIDIA H100 80GB HBM3", total_bytes=85_000_000_000, uuid="GPU-1")


def gpus(monkeypatch: pytest.MonkeyPatch, count: int, *, used: int = 0, pids: tuple[int, ...] = ()) -> None:
    monkeypatch.setattr(
        here, "look", lambda *_: here.Here(devices=(GPU,) * count, versions={"torch": "2.11.0"})
    )
    monkeypatch.setattr(here, "used_bytes", lambda uuid: used)
    others = tuple(OtherProcess(pid=pid, used_bytes=None) for pid in pids)
    monkeypatch.setattr(here, "processes_on", lambda uuid: others)


@pytest.mark.parametrize(
    ("pids", "used", "words"),
    [
        ((), 0, None),
        ((), 60 * 2**20, None),
        ((), 5 * 2**30, "5.0 GiB of the GPU are in use by processes that the driver does not name"),
        ((41, 42), 5 * 2**30, "The GPU is in use by others (process 41, 42), 5.0 GiB of it"),
    ],
)
def test_others_on_the_gpu_are_noticed_and_said(
    pids: tuple[int, ...], used: int, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(monkeypatch, machine=FakePart())
    gpus(monkeypatch, 1, used=used, pids=pids)
    result = run(*GIVEN, "-f", "json")
    report = json.loads(result.out)
    machine = report["validation"]["machine"]
    assert machine["free_bytes"] == GPU.total_bytes - used
    assert [other["pid"] for other in machine["others"]] == list(pids)
    if words is None:
        assert not report["notes"]
        assert "in use" not in result.err
    else:
        assert report["notes"][0].startswith(words)
        assert words in result.err


def test_how_many_gpus_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, machine=FakePart())

    def taken(here_: int, *arguments: str) -> int:
        gpus(monkeypatch, here_)
        report = json.loads(run(*GIVEN, "-f", "json", *arguments).out)
        return int(report["validation"]["machine"]["devices"])

    assert taken(2) == 2
    assert taken(8, "--gpus-per-node", "4") == 4
    assert taken(8, "--gpus-per-node", "4", "--nodes", "2") == 8
    assert taken(8, "--nproc", "3") == 3
    gpus(monkeypatch, 2)
    result = run(*GIVEN, "--nproc", "3")
    assert result.code == 2
    assert "--nproc 3 asks for more GPUs than the 2 of this node" in result.err


def test_the_memory_limit_and_the_budget_reach_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Options] = []
    fake(monkeypatch, machine=FakePart(lambda session: seen.append(session.options)))
    assert run(*CPU, "--memory-limit", "60GiB", "--budget", "2m", "--nproc", "2").code == 0
    assert seen == [Options(device="cpu", processes=2, budget_s=120.0, memory_limit_bytes=60 * 2**30)]


def test_other_processes_of_torchrun_have_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, machine=judged(Outcome.REFUTED))
    variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    for name, value in (variables | {"MASTER_ADDR": "a", "MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, value)
    result = run(*CPU)
    assert (result.code, result.out, result.err) == (0, "", "")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert run(*CPU).code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "soon"), "'soon' is no time; write it as 120s or 2m"),
        (("--budget", "0"), "'0' is no time"),
        (("--parts", "machine,engine"), "--parts: there is no part 'engine'; the parts are machine, "),
        (("--memory-limit", "60"), "'60' is no amount of memory; write it as 60GiB"),
        (("--output", "/no/such/folder/report.json"), "/no/such/folder/report.json: the report cannot be"),
        (("--write-profile", "mine"), "--write-profile needs a GPU"),
        (("--gpu", "h1000"), "h1000"),
    ],
)
def test_bad_options_are_one_message(arguments: tuple[str, ...], words: str) -> None:
    result = run(*CPU, *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


def test_overrides_alone_are_a_configuration() -> None:
    result = run("validate", "data.train_batch_size=8")
    assert result.code == 2
    assert "actor_rollout_ref.model.path: no model is named" in result.err


def test_verbose_keeps_a_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def act(session: Session) -> None:
        session.call(called("mistaken"), title="x", expected_s=1.0, timeout_s=100.0)
        raise ZeroDivisionError

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    fake(monkeypatch, machine=FakePart(act))
    result = run(*CPU, "--verbose")
    (log,) = tmp_path.glob("tuner-validate-*.log")
    assert f"Output and tracebacks of what is run: {log}" in result.err
    assert "ValueError: a mistake" in log.read_text()
    assert "ZeroDivisionError" in log.read_text()
