"""Faults of the machine are told in one line and end with the code 2: they are no bugs of the program."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.cli.runner import RELEASE, ROOT, Result
from tests.memory.measured import VERL_FSDP
from tuner.inputs.record.form import Begin, RecordProcess
from tuner.workload import Phase

pytestmark = [
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and the limits of Linux"),
    pytest.mark.slow,
]

GRPO = Path(__file__).parent / "configs" / "grpo.yaml"
OFFLOADED = (
    GRPO.read_text() + "  ref:\n    fsdp_config:\n      param_offload: true\n"
)  # which changes nothing
ON = ("--gpu", "h100-sxm", "--isolated", *RELEASE)
MESSAGE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.54 GiB."
COMMANDS: dict[str, tuple[str, ...]] = {
    "help": ("--help",),
    "version": ("--version",),
    "advise": ("advise", "{grpo}", *ON),
    "advise in JSON": ("advise", "{grpo}", *ON, "-f", "json"),
    **{
        f"check {name}": ("check", "{grpo}", *ON, "-f", name)
        for name in ("full", "concise", "json", "sarif", "junit", "markdown")
    },
    "check --diff": ("check", "{grpo}", *ON, "--select", "CFG106", "--diff"),
    "estimate-memory": ("estimate-memory", "--vocab", "152k", "--tokens", "16k"),
    "explain-oom": ("explain-oom", "--message", "{oom}"),
    "diff": ("diff", "{grpo}", "{grpo}", *ON),
    "config": ("config", "{grpo}"),
    "rule": ("rule", "--all"),
    "schema": ("schema", "report"),
    "model": ("model", "--all"),
    "accuracy": ("accuracy", str(VERL_FSDP)),
    "watch": ("watch", "{record}", "--once"),
    "bad input": ("advise", "{grpo}.none"),
    "bad usage": ("check", "--no-such-option"),
}
FULL = "No space left on device"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files that commands read, by the names that they have above."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "grpo.yaml").write_text(OFFLOADED)
    (folder / "oom.txt").write_text(MESSAGE, encoding="utf-8")
    process = RecordProcess(
        version=1, role="actor", rank=0, world=1, host="node", pid=1, begun=1.0, tuner="0", verl="0.9.1"
    )
    begun = Begin(step=3, phase=Phase.UPDATE_ACTOR, begun=time.time())
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in (process, begun))
    (folder / "record").mkdir()
    (folder / "record/actor-00000.jsonl").write_bytes(lines)
    return {
        name: str(folder / file)
        for name, file in {"grpo": "grpo.yaml", "oom": "oom.txt", "record": "record"}.items()
    }


def shell(words: tuple[str, ...], behind: str = "", before: str = "", folder: Path = ROOT) -> Result:
    """A command in bash, with what stands behind it, such as ``>&-``, and what is done before."""
    done = subprocess.run(
        ["bash", "-c", f'{before}exec "$0" "$@" {behind}', sys.executable, "-m", "tuner", *words],
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        timeout=120,
    )
    return Result(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


@cache
def as_ever(words: tuple[str, ...]) -> Result:
    """What a command does where nothing is wrong with the machine."""
    return shell(words)


def command(name: str, given: dict[str, str]) -> tuple[str, ...]:
    return tuple(word.format(**given) for word in COMMANDS[name])


def is_same(name: str, result: Result, ever: Result) -> bool:
    """Whether a command has done what it does; ``watch`` says how long ago something was."""
    return result.code == ever.code and (result.out == ever.out or (name == "watch" and bool(result.out)))


def expect_no_bug(result: Result) -> None:
    for text in (result.out, result.err):
        assert "Traceback" not in text and "report this bug" not in text and "Exception ignored" not in text
    assert result.code in (0, 1, 2)


def expect_told(result: Result, *parts: str) -> None:
    """One line about the fault, and the code 2."""
    expect_no_bug(result)
    assert result.code == 2
    told = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(told) == 1
    assert all(part in told[0] for part in parts)


@pytest.mark.sampled(32)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("behind", "said"),
    [(">/dev/full", f"standard output cannot be written: {FULL}"), (">&-", "standard output is closed")],
    ids=["full", "closed"],
)
def test_standard_output_takes_nothing(name: str, behind: str, said: str, given: dict[str, str]) -> None:
    words = command(name, given)
    ever = as_ever(words)
    result = shell(words, behind)
    if ever.out:
        expect_told(result, f"error: {said}")
    else:
        assert result == ever


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("behind", ["2>/dev/full", "2>&-"], ids=["full", "closed"])
def test_standard_error_takes_nothing(name: str, behind: str, given: dict[str, str]) -> None:
    """There is nowhere to say it; what is to be read by others is whole."""
    words = command(name, given)
    ever = as_ever(words)
    result = shell(words, behind)
    assert (result.code, result.err) == (2 if ever.err else ever.code, "")
    assert is_same(name, result, Result(code=result.code, out=ever.out, err=""))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", COMMANDS)
def test_both_take_nothing(name: str, given: dict[str, str]) -> None:
    assert shell(command(name, given), ">/dev/full 2>&1") == Result(code=2, out="", err="")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_reader_who_has_gone_is_no_error(name: str, given: dict[str, str]) -> None:
    words = command(name, given)
    result = shell(words, "| true; exit ${PIPESTATUS[0]}", 'set +m; function exec { command "$@"; }; ')
    expect_no_bug(result)
    assert "error: standard" not in result.err


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_working_directory_that_is_gone(name: str, given: dict[str, str], tmp_path: Path) -> None:
    words = command(name, given)
    folder = tmp_path / "gone"
    folder.mkdir()
    result = shell(words, before=f"rmdir {folder}; ", folder=folder)
    expect_no_bug(result)
    ever = as_ever(words)
    if not is_same(name, result, ever):
        expect_told(result, "error: the working directory is not there any more")


LIMITED = """
import resource, sys
import tuner.cli
sys.argv[0] = "python -m tuner"  # by which help names the program
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
tuner.cli.program()
"""


def python(script: str, *words: str) -> Result:
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        timeout=120,
    )
    return Result(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.sampled(36)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("files", [3, 4, 6])
def test_too_many_open_files(name: str, files: int, given: dict[str, str]) -> None:
    words = command(name, given)
    result = python(LIMITED.format(files=files), *words)
    ever = as_ever(words)
    if is_same(name, result, ever):
        expect_no_bug(result)
    else:
        expect_told(result, "Too many open files")


REFUSED = """
import errno, os
import _posixsubprocess
def refused(*_given):
    raise OSError(errno.{number}, os.strerror(errno.{number}))
_posixsubprocess.fork_exec = refused
os.sched_getaffinity = lambda _: {{0, 1}}
from tuner.cli import program
program()
"""


@pytest.mark.parametrize("number", ["ENOMEM", "EAGAIN", "EMFILE"])
def test_no_process_can_be_started(number: str, tmp_path: Path) -> None:
    for file in range(60):
        (tmp_path / f"{file}.yaml").write_bytes(GRPO.read_bytes())
    result = python(REFUSED.format(number=number), "check", str(tmp_path), *ON)
    expect_told(result, f"error: {os.strerror(getattr(errno, number))}; ")


WRITTEN = {
    "fix": (("check", "grpo.yaml", *ON, "--select", "CFG106", "--fix"), "grpo.yaml"),
    "write": (("advise", "grpo.yaml", *ON, "--write", "grpo.yaml"), "grpo.yaml"),
    "write a new file": (("advise", "grpo.yaml", *ON, "--write", "new.yaml"), "new.yaml"),
    "write a baseline": (("check", "grpo.yaml", *ON, "--write-baseline", "known.json"), "known.json"),
    "prune": (("check", "grpo.yaml", *ON, "--baseline", "known.json", "--prune-baseline"), "known.json"),
    "a format's file": (("check", "grpo.yaml", *ON, "-f", "sarif:out.sarif"), "out.sarif"),
}


def expect_not_written(
    words: tuple[str, ...], file: str, folder: Path, reason: str, before: str = ""
) -> None:
    """The file is named with the reason, and everything is as it was."""
    was = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    result = shell(words, before=before, folder=folder)
    expect_told(result, f"error: {file}: the file cannot be written: {reason}; ")
    assert "in a folder that is there" not in result.err
    assert {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()} == was


def laid_out(folder: Path, name: str) -> None:
    (folder / "grpo.yaml").write_text(OFFLOADED)
    if name == "prune":  # a finding that nobody finds any more
        shell(("check", "grpo.yaml", *ON, "--write-baseline", "known.json"), folder=folder)
        known = (folder / "known.json").read_text(encoding="utf-8")
        (folder / "known.json").write_text(known.replace("KRN006", "KRN001"), encoding="utf-8")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_is_larger_than_the_limit(name: str, tmp_path: Path) -> None:
    laid_out(tmp_path, name)
    words, file = WRITTEN[name]
    expect_not_written(words, file, tmp_path, "File too large", "ulimit -f 0; ")


FAILING = """
import errno, os
def failing(_descriptor):
    raise OSError(errno.{number}, os.strerror(errno.{number}))
os.fsync = failing
from tuner.cli import program
program()
"""


@pytest.mark.parametrize("number", ["EDQUOT", "EIO"])
@pytest.mark.parametrize("name", ["fix", "write"])
def test_a_quota_is_used_up_or_the_disk_fails(
    name: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a file system says it when what was written is to be on the disk."""
    laid_out(tmp_path, name)
    monkeypatch.chdir(tmp_path)
    words, file = WRITTEN[name]
    result = python(FAILING.format(number=number), *words)
    reason = os.strerror(getattr(errno, number))
    expect_told(result, f"error: {file}: the file cannot be written: {reason}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["grpo.yaml"]
    assert (tmp_path / "grpo.yaml").read_text() == OFFLOADED


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system can be mounted by a superuser only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_no_space_is_left(name: str, disk: Path) -> None:
    laid_out(disk, name)
    with pytest.raises(OSError, match=FULL):
        (disk / "full").write_bytes(bytes(512 * 1024))
    words, file = WRITTEN[name]
    expect_not_written(words, file, disk, FULL)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_the_disk_is_read_only(name: str, disk: Path) -> None:
    laid_out(disk, name)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    words, file = WRITTEN[name]
    result = shell(words, folder=disk)
    expect_told(result, f"error: {file}: ")
    assert "Read-only file system" in result.err or "write-protected" in result.err


@pytest.mark.sampled(8)
def test_a_report_of_a_validation_is_not_printed(given: dict[str, str]) -> None:
    words = ("validate", given["grpo"], "--device", "cpu", "--gpu", "h100-sxm", "--parts", "machine")
    for behind, said in ((">/dev/full", f"cannot be written: {FULL}"), (">&-", "is closed")):
        expect_told(shell(words, behind), f"error: standard output {said}")
