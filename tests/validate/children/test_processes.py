import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.runner import ROOT
from tests.validate.called import called
from tuner.validate.children import devices, here, processes
from tuner.validate.children.call import CallFailure, Failed, Setup

pytestmark = pytest.mark.sampled(6)

CPU = Setup(device="cpu")
LONG = 120.0

WAITING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in a shell's background
from tests.validate.called import called
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
processes.run(called("waits_with_a_child"), (sys.argv[1],),
              setup=Setup(device="cpu"), timeout_s=300)
"""


TAKES_A_GIB = """
import time, torch
taken = torch.empty(2**30, dtype=torch.uint8, device=0)
print(1, flush=True)
time.sleep(60)
"""


LOADED = """
import sys
from tuner.validate import plans
from tuner.validate.children import here, processes, servers
from tuner.validate.children.servers import Server, ServedFunction
from tuner.validate.children.call import Setup
device, driver, server, *names = sys.argv[1:]
servers._driver_is_here = lambda: driver == "driver"
here.look(Setup(device=device), plans.workers())
worker = ServedFunction("tests.validate.calls", "loaded", Server[server])
print(*processes.run(worker, (names,), setup=Setup(device="cpu"), timeout_s=300))
"""

RUNNING = """
import sys
from multiprocessing import forkserver
from tuner.validate.children import servers
device, driver = sys.argv[1:]
servers._driver_is_here = lambda: driver == "driver"
started = []
forkserver.ForkServer.ensure_running = lambda self: started.append(self._preload_modules[0])
servers.prepare(device, ())
print(len(started))
"""

BUILDS_MODELS = """
import sys
from importlib import import_module
from pathlib import Path
from tuner.validate.children.servers import Server
from tuner.validate.children.here import _PROBE
from tuner.validate.nodes.torchrun import _SHARE
from tuner.validate.plans import workers
for worker in sorted((_PROBE, _SHARE, *workers()), key=lambda worker: worker.server is Server.MODELS):
    source = Path(import_module(worker.module).__file__).read_text(encoding="utf-8")
    builds = "tuner.validate.training.worker.model" in sys.modules or "from transformers import" in source
    if builds != (worker.server is Server.MODELS):
        print(worker)
"""


def run_alone(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script in an interpreter of its own, which has servers of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=LONG,
    )


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked about yet has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return True
    return state == "Z"


def wait_until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_worker_is_called(capfd: pytest.CaptureFixture[str]) -> None:
    assert processes.run(called("double"), (21,), setup=CPU, timeout_s=LONG) == 42
    assert processes.run(called("places"), (), setup=CPU, timeout_s=LONG) == [("cpu", "0", "1")]
    assert len(processes.run(called("large"), (3_000_000,), setup=CPU, timeout_s=LONG)) == 3_000_000
    assert capfd.readouterr() == ("", "")


LOCKS = """
from tests.validate.called import called
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
print(processes.run(called("locks"), (), setup=Setup(device="cpu"), timeout_s=100))
"""


@pytest.mark.slow
def test_nothing_is_said_of_what_a_child_left() -> None:
    done = run_alone(LOCKS)
    assert (done.stdout, done.stderr) == ("1\n", "")


JOINED = """
from tests.validate.called import called
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
setup = Setup(device="cpu")
print(processes.run(called("places"), (), setup=setup, timeout_s=100, world=2))
"""


@pytest.mark.slow
def test_several_are_joined_whatever_a_launcher_left() -> None:
    left = {"RANK": "7", "WORLD_SIZE": "9", "MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    done = run_alone(JOINED, **left)
    assert done.stdout == "[('cpu', '0', '2'), ('cpu', '1', '2')]\n"


@pytest.mark.parametrize(
    ("name", "why", "message"),
    [
        ("out_of_memory", CallFailure.OUT_OF_MEMORY, "CUDA out of memory. Tried to allocate 3.00 GiB."),
        ("host_out_of_memory", CallFailure.OUT_OF_MEMORY, "host memory"),
        ("mistaken", CallFailure.ERROR, "ValueError: a mistake"),
        (
            "absent",
            CallFailure.ERROR,
            "AttributeError: module 'tests.validate.calls' has no attribute 'absent'",
        ),
        (
            "killed",
            CallFailure.KILLED,
            "the process was ended by SIGKILL, as where the host is out of memory",
        ),
        ("ended", CallFailure.ERROR, "the process ended with exit code 7"),
    ],
)
def test_a_failure_is_a_result(name: str, why: CallFailure, message: str) -> None:
    found = processes.run(called(name), (), setup=CPU, timeout_s=LONG)
    assert found == Failed(why=why, message=message)


def test_a_result_that_cannot_be_sent_is_said() -> None:
    found = processes.run(called("unsendable"), (), setup=CPU, timeout_s=LONG)
    assert (found.why, found.message[:26]) == (CallFailure.ERROR, "the result cannot be sent:")


def test_one_failure_ends_all() -> None:
    began = time.monotonic()
    found = processes.run(called("one_fails"), (), setup=CPU, timeout_s=LONG, world=2)
    assert found == Failed(why=CallFailure.OUT_OF_MEMORY, message="CUDA out of memory on rank 1")
    assert time.monotonic() - began < LONG / 2


def test_the_traceback_goes_to_the_log_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes.run(called("mistaken"), (), setup=Setup(device="cpu", log=log), timeout_s=LONG)
    assert "Traceback" in log.read_text()
    assert "second line" in log.read_text()


@pytest.mark.sampled(4)
@pytest.mark.slow
def test_a_timeout_leaves_nobody(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    found = processes.run(called("waits_with_a_child"), (str(file),), setup=CPU, timeout_s=8)
    assert found == Failed(why=CallFailure.TIMEOUT, message="no result after 8 s")
    own, child = map(int, file.read_text().split())
    wait_until(lambda: gone(own) and gone(child), 5)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_outlives_the_parent(sent: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    parent = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    wait_until(file.exists)
    pids = [int(pid) for pid in file.read_text().split()]
    assert not any(map(gone, pids))
    parent.send_signal(sent)
    parent.wait(30)
    wait_until(lambda: all(map(gone, pids)), 10)


COMPILER = "torch._inductor.compile_fx"


@pytest.mark.sampled(16)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "driver", "server", "modules"),
    [
        ("cuda", "driver", "TORCH", {COMPILER: True, "transformers": False}),
        ("cuda", "driver", "MODELS", {"transformers.models.auto.modeling_auto": True}),
        ("cuda", "none", "TORCH", {COMPILER: False}),
        ("cpu", "driver", "TORCH", {"triton": False}),
        ("cpu", "driver", "MODELS", {"transformers.modeling_utils": True}),
    ],
)
def test_a_server_has_loaded_what_its_calls_import(
    device: str, driver: str, server: str, modules: dict[str, bool]
) -> None:
    """Decided by the first look, which itself starts nothing on a GPU."""
    done = run_alone(LOADED, device, driver, server, *modules)
    assert done.stdout.splitlines()[-1] == " ".join(map(str, modules.values()))


@pytest.mark.parametrize(
    ("device", "driver", "expected"), [("cuda", "driver", 2), ("cuda", "none", 0), ("cpu", "driver", 0)]
)
def test_on_a_gpu_all_servers_start_before_the_first_call(device: str, driver: str, expected: int) -> None:
    """What the later parts need is imported while the first ones run."""
    done = run_alone(RUNNING, device, driver)
    assert done.stdout == f"{expected}\n"


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_what_builds_models_is_served_by_what_has_transformers() -> None:
    """Those that do come last: what one has imported stays."""
    done = run_alone(BUILDS_MODELS)
    assert done.stdout == ""


@pytest.mark.gpu
def test_the_memory_limit_counts_the_context_too() -> None:
    seen = here.look(Setup(device="cuda"))
    assert not seen.missing
    uuids = tuple(device.uuid for device in seen.devices)
    before = here.used_bytes(uuids[0])
    assert before is not None
    limit = 4 * 2**30
    limited = Setup(device="cuda", memory_limit_bytes=limit, uuids=uuids)
    used = processes.run(called("allocates"), (limit // 2,), setup=limited, timeout_s=LONG)
    assert used - before <= limit
    found = processes.run(called("allocates"), (limit - 64 * 2**20,), setup=limited, timeout_s=LONG)
    assert found.why is CallFailure.OUT_OF_MEMORY
    free = Setup(device="cuda", uuids=uuids)
    used = processes.run(called("allocates"), (limit - 64 * 2**20,), setup=free, timeout_s=LONG)
    assert used - before > limit


@pytest.mark.gpu
def test_a_process_on_the_gpu_is_seen() -> None:
    seen = here.look(Setup(device="cuda"))
    with subprocess.Popen([sys.executable, "-c", TAKES_A_GIB], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "1\n"
        found = here.machine(seen, count=1, profile=None)
        other.kill()
    assert found.total_bytes - found.free_bytes >= 2**30
    (said,) = here.disturbances(seen, found)
    assert "in use by" in said


def test_memory_that_ended_processes_still_have_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def waited(gone_after: float | None) -> float:
        nonlocal now
        now = 0.0
        held = {"a": 0, "b": 70 * 2**30}
        monkeypatch.setattr(
            devices,
            "used_bytes",
            lambda uuid: 0 if gone_after is not None and now >= gone_after else held[uuid],
        )
        devices.wait_for_memory(["a", "b"], clock=lambda: now, sleep=sleep)
        return now

    assert waited(0.0) == 0
    assert 1.0 <= waited(1.0) < 1.5
    assert 5 < waited(None) < 10  # somebody else's
