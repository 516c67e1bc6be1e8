"""Nobody outlives a command that is ended, however it is ended, and nobody holds what it printed to."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.tools.program import run as documented
from tests.cli.runner import ROOT
from tuner.review import many as review

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")

CONFIG = Path(__file__).parent / "configs" / "grpo.yaml"
EXAMPLE = ROOT / "docs/examples/qwen2.5-7b-grpo.yaml"
WITHIN_S = 1.0
STARTED_WITHIN_S = 5.0  # by Python, of a process that cannot look for its parent before, beside other tests
JUDGING = review.cores()
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
DOCUMENTED = """
from docs.tools.program import run
run("tuner check {folder} --gpu h100-sxm", columns=80)
"""


def stat(pid: int) -> list[str]:
    """State, parent and what follows; nothing where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def lives(pid: int) -> bool:
    return stat(pid)[:1] not in ([], ["Z"])


def descendants(pid: int) -> list[int]:
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children = [child for child in everybody if lives(child) and stat(child)[1:2] == [str(pid)]]
    return children + [below for child in children for below in descendants(child)]


def until(condition: object, seconds: float = 60.0) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    text = CONFIG.read_text(encoding="utf-8")
    for number in range(400):
        (folder / f"{number}.yaml").write_text(f"{text}\n# {number}\n", encoding="utf-8")
    return folder


class Running:
    """A command whose output a caller reads."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        self.below: list[int] = []

    def wait_for(self, count: int) -> None:
        """Until it has started so many processes."""

        def there() -> bool:
            self.below = descendants(self.process.pid)
            return len(self.below) >= count

        assert until(there)

    def end_alone(self, sent: signal.Signals, within_s: float = WITHIN_S) -> tuple[bytes, bytes]:
        """End it, and what can be read of its output until the end of that; nobody is left then."""
        assert self.process.poll() is None and all(map(lives, self.below))
        self.process.send_signal(sent)
        assert self.process.wait(WITHIN_S) == -sent
        assert until(lambda: not any(map(lives, self.below)), within_s)
        return self.process.communicate(timeout=WITHIN_S)

    def clean(self) -> None:
        for pid in [*descendants(self.process.pid), *self.below, self.process.pid]:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def running() -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for one in started:
        one.clean()


def run(running: list[Running], *command: str) -> Running:
    running.append(Running(*command))
    return running[-1]


several = pytest.mark.skipif(JUDGING < 2, reason="one core judges in one process")


@pytest.mark.sampled(6)
@several
@pytest.mark.slow
@pytest.mark.parametrize(
    ("pause_s", "within_s"),
    [(0.0, STARTED_WITHIN_S), (1.5, WITHIN_S)],
    ids=["while they start", "while they judge"],
)
@pytest.mark.parametrize("sent", SIGNALS)
def test_processes_that_judge(
    sent: signal.Signals, pause_s: float, within_s: float, many: Path, running: list[Running]
) -> None:
    command = run(running, "-m", "tuner", "check", str(many), "--gpu", "h100-sxm")
    command.wait_for(JUDGING + 1)  # one keeps account of what they share
    time.sleep(pause_s)
    assert command.end_alone(sent, within_s) == (b"", b"")


@pytest.mark.sampled(6)
@several
@pytest.mark.slow
@pytest.mark.parametrize("sent", SIGNALS)
def test_processes_that_mend(sent: signal.Signals, many: Path, running: list[Running]) -> None:
    command = run(running, "-m", "tuner", "check", str(many), "--gpu", "h100-sxm", "--diff")
    command.wait_for(JUDGING + 1)
    time.sleep(1.5)
    assert command.end_alone(sent) == (b"", b"")


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("sent", SIGNALS)
def test_servers_that_load_torch_for_a_validation(sent: signal.Signals, running: list[Running]) -> None:
    """A server looks for the end of its starter by itself, but not while it imports."""
    command = run(running, "-m", "tuner", "validate", str(EXAMPLE), "--gpu", "h100-sxm", "--device", "cpu")
    command.wait_for(2)
    time.sleep(0.5)
    out, _err = command.end_alone(sent)
    assert out == b""


@pytest.mark.slow
@pytest.mark.parametrize("sent", SIGNALS)
def test_a_command_that_the_documentation_runs(
    sent: signal.Signals, many: Path, running: list[Running]
) -> None:
    command = run(running, "-c", DOCUMENTED.format(folder=many))
    command.wait_for(1)
    assert command.end_alone(sent, STARTED_WITHIN_S) == (b"", b"")


def test_a_command_that_the_documentation_runs_to_its_end() -> None:
    missing = documented("tuner advise nowhere.yaml", columns=80)
    assert (missing.returncode, missing.stdout) == (
        2,
        "error: nowhere.yaml: there is no such file; check the path\n",
    )
    usage = documented("tuner schema", columns=80)
    assert (usage.returncode, usage.stdout.splitlines()[0]) == (
        2,
        "Usage: python -m tuner schema [OPTIONS] {OUTPUT}",
    )
