"""What is found in thousands of inputs is packed and lies in a file; nobody who reads it sees that."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import IO

import pytest

from tests.cli.runner import ROOT, Result, run
from tuner.check import judging_many
from tuner.cli.formats import FORMATS
from tuner.errors import Location
from tuner.inputs.named_inputs import Input
from tuner.review import likeness, many, result_store, spool
from tuner.review.input_findings import InputFindings, InputProblem
from tuner.review.likeness import by_likeness
from tuner.review.result_store import ResultStore, packed
from tuner.review.spool import Spool

pytestmark = pytest.mark.sampled(12)

CONFIG = Path(__file__).parents[1] / "cli/configs/grpo.yaml"
GIVEN = ("--gpu", "h100-sxm", "--verl-version", "0.9.1", "--isolated")
ALL_FORMATS = [word for name in FORMATS for word in ("-f", f"{name}:{name}.out")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Variants of a job, one with an ignored finding, and one that cannot be used."""
    monkeypatch.chdir(tmp_path)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    text = CONFIG.read_text(encoding="utf-8")
    for number in range(5):
        (jobs / f"{number}.yaml").write_text(f"{text}\ndata_{number}: 1\n", encoding="utf-8")
    (jobs / "2.yaml").write_text("actor_rollout_ref: [", encoding="utf-8")
    (jobs / "3.yaml").write_text(f"{text}\ndata_3: 1  # tuner: ignore[CFG001] later\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two inputs are as many as thousands: what is found in them is packed, and each lies in a file."""
    for module in (judging_many, result_store):
        monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(spool, "_HELD_BYTES", 1)
    monkeypatch.setattr(likeness, "_SORTED_AT_ONCE", 2)


def written() -> dict[str, bytes]:
    return {name: Path(f"{name}.out").read_bytes() for name in FORMATS}


def test_formats_read_the_same_from_what_is_packed(folder: Path, request: pytest.FixtureRequest) -> None:
    command = ("check", "jobs", *GIVEN, *ALL_FORMATS)
    before = run(*command), written()
    assert before[0].code == 2 and all(before[1].values())
    request.getfixturevalue("as_many")
    assert (run(*command), written()) == before


@pytest.mark.sampled(6)
def test_one_format_after_another_reads_it_again(folder: Path, as_many: None) -> None:
    run("check", "jobs", *GIVEN, *ALL_FORMATS)
    together = written()
    both = run("check", "jobs", *GIVEN, "-f", "json", "-f", "json:again.out")
    assert both.out == Path("again.out").read_text(encoding="utf-8")
    for name in FORMATS:
        assert run("check", "jobs", *GIVEN, "-f", name).out.encode() == together[name]


def steps() -> Iterator[Result]:
    """A baseline is written and silences, then files change and it is pruned, then files are fixed."""
    yield run("check", "jobs", *GIVEN, "--write-baseline", "known.json")
    yield run("check", "jobs", *GIVEN, "--baseline", "known.json", *ALL_FORMATS)
    changed = CONFIG.read_text(encoding="utf-8").replace("rollot:\n    n: 4", "actr:\n    n: 4")
    Path("jobs/1.yaml").write_text(changed, encoding="utf-8")
    Path("jobs/4.yaml").unlink()
    yield run("check", "jobs", *GIVEN, "--baseline", "known.json", "--prune-baseline", *ALL_FORMATS)
    yield run("check", "jobs", *GIVEN, "--diff")
    yield run("check", "jobs", *GIVEN, "--unsafe-fixes", *ALL_FORMATS)
    yield run("check", "jobs", *GIVEN, "--exit-zero", "--select", "ROL", "-f", "concise")


def states(folder: Path) -> list[object]:
    """What each step prints and leaves in the folder."""
    return [
        (step, {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}) for step in steps()
    ]


@pytest.mark.sampled(6)
def test_baselines_and_fixes_do_the_same_to_what_is_packed(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    start = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before = states(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()
    for file, content in start.items():
        file.write_bytes(content)
    request.getfixturevalue("as_many")
    assert states(folder) == before
    codes = [step[0].code for step in before]  # type: ignore[index]
    assert codes == [2] * 6  # one of them cannot be used


def test_the_exit_code_is_that_of_the_findings(folder: Path, as_many: None) -> None:
    Path("jobs/2.yaml").unlink()
    assert run("check", "jobs", *GIVEN).code == 1
    assert run("check", "jobs", *GIVEN, "--exit-zero").code == 0
    assert run("check", "jobs", *GIVEN, "--select", "ROL999").code == 2
    assert run("check", "jobs", *GIVEN, "--write-baseline", "known.json").code == 0
    assert run("check", "jobs", *GIVEN, "--baseline", "known.json").code == 0


def test_an_input_that_cannot_be_packed_is_told_like_the_others(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    text = CONFIG.read_text(encoding="utf-8")
    Path(os.fsdecode(b"jobs/\xff.yaml")).write_text(text, encoding="utf-8")
    command = ("check", "jobs", *GIVEN, *ALL_FORMATS)
    before = run(*command), written()
    request.getfixturevalue("as_many")
    assert (run(*command), written()) == before


def refused(**_options: object) -> IO[bytes]:
    raise FileNotFoundError(2, "No usable temporary directory found")


def full(**_options: object) -> IO[bytes]:
    return Path("/dev/full").open("r+b", buffering=0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("temporary", [refused, full])
def test_without_room_for_a_file_it_stays_in_memory(
    temporary: object, folder: Path, as_many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if temporary is full and not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    command = ("check", "jobs", *GIVEN, *ALL_FORMATS)
    before = run(*command), written()
    asked = []
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: asked.append(options) or temporary(**options)
    )
    assert (run(*command), written()) == before
    assert asked


@pytest.mark.parametrize("held_bytes", [1, 5, 100])
def test_bytes_come_back_whatever_their_order(held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_HELD_BYTES", held_bytes)
    for order in permutations(range(4)):
        spooled = Spool(4)
        for number in order:
            spooled.put(number, b"abcd"[: number + 1])
            assert spooled.get(number) == b"abcd"[: number + 1]
        for number in (2, 0, 3, 1, 2):
            assert spooled.get(number) == b"abcd"[: number + 1]


def test_a_disk_that_fills_up_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that takes a part of what is written to it, and then nothing more."""
    monkeypatch.setattr(spool, "_HELD_BYTES", 1)
    spooled = Spool(4)
    spooled.put(0, b"zero")
    assert spooled._file is not None

    class Full:
        def __init__(self, file: IO[bytes]) -> None:
            self.seek, self.read, self.close = file.seek, file.read, file.close

        def write(self, data: bytes) -> int:
            return len(data) - 1

    spooled._file = Full(spooled._file)  # type: ignore[assignment]
    for number, data in ((1, b"one"), (3, b"three"), (2, b"two")):
        spooled.put(number, data)
    assert [spooled.get(number) for number in range(4)] == [b"zero", b"one", b"two", b"three"]


@pytest.mark.parametrize("message", ["plain", "\ud800"])
def test_a_result_is_the_same_after_it_was_packed(message: str) -> None:
    result = InputFindings(
        source="a.yaml",
        problem=InputProblem(message=message, location=Location(source="a.yaml", line=3)),
        gpus=2**64 if message == "plain" else 8,
    )
    assert packed(result) is result  # a number, or a text, for which there is no packed form
    usable = InputFindings(source="a.yaml", step_s=2.5, gpus=8)
    assert isinstance(packed(usable), bytes)
    results = ResultStore.of(InputFindings, [usable, result] * many.FEW, 2 * many.FEW)
    assert list(results) == list(results) == [usable, result] * many.FEW
    assert results[1] == result and len(results) == 2 * many.FEW


def test_likeness_is_the_same_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["b: 1", "a: 2", "b: 3\nc: 1", "a: 2", "a: 1", "", "b: 2"]
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    inputs = [Input(config=str(file)) for file in files]
    whole = by_likeness(inputs)
    for at_once in (1, 2, 3):
        monkeypatch.setattr(likeness, "_SORTED_AT_ONCE", at_once)
        assert by_likeness(inputs) == whole


INTERRUPTED = """
import signal, sys
from tuner.cli import program
from tuner.review import spool

spool._HELD_BYTES = 1
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in a shell's background
sys.argv[0] = "tuner"
program()
"""


def _leads_into(folder: Path, link: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:  # it is closed again
        return False


@pytest.mark.sampled(4)
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's list of open files")
@pytest.mark.parametrize("options", [(), ("--fix",)], ids=["judged", "fixed"])
def test_an_interrupt_leaves_no_file(options: tuple[str, ...], tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    text = CONFIG.read_text(encoding="utf-8")
    files = [tmp_path / f"{number}.yaml" for number in range(3 * many.FEW)]
    written = {file: f"{text}\n# {number}\n" for number, file in enumerate(files)}
    for file, content in written.items():
        file.write_text(content, encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, "check", *map(str, files), *GIVEN, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        start_new_session=True,  # Ctrl-C reaches all processes of a terminal
    )
    opened = Path(f"/proc/{running.pid}/fd")
    until = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < until:
        if any(_leads_into(temporary, link) for link in opened.iterdir()):
            os.killpg(running.pid, signal.SIGINT)
            break
        time.sleep(0.02)
    try:
        out, err = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert list(temporary.iterdir()) == []
    assert {file: file.read_text(encoding="utf-8") for file in tmp_path.glob("*.yaml")} == written
    assert len(list(tmp_path.iterdir())) == len(files) + 1
