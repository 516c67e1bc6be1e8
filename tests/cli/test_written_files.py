"""What a run that is killed leaves of a file, and what stays of a file that is written: attributes, bits."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import ROOT, Result, run

GRPO = Path(__file__).parent / "configs" / "grpo.yaml"
OFFLOADED = (GRPO.read_text() + "  ref:\n    fsdp_config:\n      param_offload: true\n").encode()
CHECK = ("--gpu", "h100-sxm", "--isolated", "--select", "CFG106")
#: Ends the process with a signal when it is about to give the file its new content.
KILLED = """
import os, pathlib, signal
pathlib.Path.replace = lambda self, other: os.kill(os.getpid(), signal.SIGKILL)
from tuner.cli import program
program()
"""
#: Waits instead, until its standard input ends.
WAITING = """
import pathlib, sys
replace = pathlib.Path.replace
def waiting(self, other):
    print("there", flush=True)
    sys.stdin.read()
    return replace(self, other)
pathlib.Path.replace = waiting
from tuner.cli import program
program()
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "grpo.yaml"
    file.write_bytes(OFFLOADED)
    return file


def fix(*words: str) -> Result:
    return run("check", "grpo.yaml", *CHECK, *(words or ("--fix",)))


def begun(script: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def killed(*words: str) -> None:
    process = begun(KILLED, *words)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def names() -> set[str]:
    return {entry.name for entry in Path().iterdir()}


FIX = ("check", "grpo.yaml", *CHECK, "--fix")
BASELINE = ("check", "grpo.yaml", *CHECK, "--write-baseline", "known.json")
OUTPUT = ("check", "grpo.yaml", *CHECK, "-f", "json:out.json")
WRITE = (
    "advise",
    "grpo.yaml",
    "--gpu",
    "h100-sxm",
    "--isolated",
    "--least-gain",
    "0.001",
    "--write",
    "grpo.yaml",
)


@pytest.mark.sampled(4)
@pytest.mark.skipif(os.name != "posix", reason="processes are told to end by a signal of POSIX")
@pytest.mark.parametrize("words", [FIX, WRITE, BASELINE, OUTPUT], ids=["fix", "write", "baseline", "output"])
def test_the_next_run_removes_what_a_killed_one_left(config: Path, words: tuple[str, ...]) -> None:
    before = names()
    killed(*words)
    assert len(names() - before) == 1
    assert config.read_bytes() == OFFLOADED
    assert run(*words).code in (0, 1)
    assert {name for name in names() if name.startswith(".")} == set()


def test_it_is_removed_also_where_nothing_is_left_to_mend(config: Path) -> None:
    killed(*FIX)
    config.write_text(config.read_text().replace("offload: true", "offload: false"))
    assert "0 findings fixed" in fix().err
    assert names() == {"grpo.yaml"}


def test_what_a_living_run_or_nobody_of_ours_has_written_stays(config: Path) -> None:
    others = {".grpo.yaml.abc", ".grpo.yaml.1x.0123abcd.tuner-part", ".other.yaml.999999.0123abcd.tuner-part"}
    for name in others:
        Path(name).touch()
    process = begun(WAITING, *FIX)
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    (part,) = names() - others - {"grpo.yaml"}
    assert f".{process.pid}." in part
    assert "1 finding fixed" in fix().err
    assert names() == others | {"grpo.yaml", part}
    process.communicate(timeout=60)  # it has looked before, as two that end at once have
    assert names() == others | {"grpo.yaml"}


def test_a_file_whose_process_number_is_used_again_stays_as_long_as_it_is_locked(config: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    ended = subprocess.Popen(["true"])
    ended.wait()
    part = Path(f".grpo.yaml.{ended.pid}.0123abcd.tuner-part")
    with part.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        fix()
        assert part.exists()
    fix()
    assert not part.exists()


def give(file: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"the file system has no {name}")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Python has extended attributes on Linux only")
def test_attributes_and_access_lists_stay(config: Path) -> None:
    # Version 2; then tag, permissions and number of each entry: user, user 1, group, mask, others.
    entries = ((1, 6, -1), (2, 4, 1), (4, 4, -1), (16, 4, -1), (32, 0, -1))
    access = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + number.to_bytes(4, "little", signed=True)
        for tag, bits, number in entries
    )
    given = {"user.origin": b"\x00our own", "system.posix_acl_access": access}
    for name, value in given.items():
        give(config, name, value)
    before = config.stat()
    assert "1 finding fixed" in fix().err
    assert {name: os.getxattr(config, name) for name in os.listxattr(config)} == given
    after = config.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Python has extended attributes on Linux only")
def test_an_attribute_that_cannot_be_kept_is_a_reason_to_write_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(config, "user.origin", b"ours")

    def refused(*_given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "setxattr", refused)
    result = fix()
    assert result.code == 2
    assert "user.origin of the file would be lost (No space left on device): nothing is written" in result.err
    assert config.read_bytes() == OFFLOADED
    assert names() == {"grpo.yaml"}


@pytest.mark.parametrize("words", [FIX, WRITE, BASELINE, OUTPUT], ids=["fix", "write", "baseline", "output"])
def test_a_file_without_the_right_to_write_is_refused_to_everybody(
    config: Path, words: tuple[str, ...]
) -> None:
    target = Path({"known.json": "known.json", "json:out.json": "out.json"}.get(words[-1], "grpo.yaml"))
    target.touch()
    before = target.read_bytes()
    target.chmod(0o444)
    result = run(*words)
    assert result.code == 2
    assert f"{target}: the file is write-protected; make it writable first, with chmod u+w" in result.err
    assert target.read_bytes() == before
    assert names() == {"grpo.yaml", str(target)}


SCRIPT = (
    "python3 -m verl.trainer.main_ppo \\\n"
    "    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\\n"
    "    actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8 \\\n"
    "    actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.ref.fsdp_config.param_offload=True\n"
)


def launched() -> list[str]:
    """The words of the first command of run.sh, as bash has them."""
    shown = 'python3() { printf "%s\\n" "$@"; exit; }; . ./run.sh'
    done = subprocess.run(["bash", "-c", shown], capture_output=True, check=False)
    return done.stdout.decode().split("\n")[:-1]


def test_a_script_of_windows_is_not_called_fixed_where_bash_would_break_on_it(config: Path) -> None:
    script = Path("run.sh")
    windows = SCRIPT.replace("\n", "\r\n").encode()
    script.write_bytes(windows)
    assert launched() == ["-m", "verl.trainer.main_ppo", "\r"]  # what bash makes of it
    for words in (("--fix",), ("--diff",)):
        result = run("check", "run.sh", *CHECK, *words)
        assert "not fixed run.sh: CFG106" in result.err
        assert "its lines end in CR LF" in result.err
        assert "sed -i 's/\\r$//'" in result.err
        assert result.out.startswith("run.sh\n") is (words == ("--fix",))
        assert script.read_bytes() == windows
    for target in ("run.sh", "new.sh"):
        result = run("advise", "run.sh", "--gpu", "h100-sxm", "--isolated", "--write", target)
        assert result.code == 2
        assert "the block cannot be written into it: its lines end in CR LF" in result.err
    assert (script.read_bytes(), names()) == (windows, {"grpo.yaml", "run.sh"})
    subprocess.run(["sed", "-i", r"s/\r$//", "run.sh"], check=True)
    assert "1 finding fixed" in run("check", "run.sh", *CHECK, "--fix").err
    assert "actor_rollout_ref.ref.fsdp_config.param_offload=False" in launched()
