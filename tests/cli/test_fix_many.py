"""Many files are fixed in several processes as they are one after another, and one process writes them."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tuner.check import judging_many
from tuner.cli import fix_report
from tuner.review import many, result_store

pytestmark = pytest.mark.sampled(12)

CONFIG = Path(__file__).parent / "configs" / "grpo.yaml"
JOB = """\
defaults:
  - common
  - _self_
data:
  train_batch_size: 256
"""
OFFLOADED = f"""\
{CONFIG.read_text(encoding="utf-8")}
  ref:
    fsdp_config:
      param_offload: true
"""
NAMES = ("early.yaml", "0.yaml", "broken.yaml", "common.yaml", "late.yaml", "1.yaml", "run.sh", "link.yaml")
SCRIPT = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
    "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.ref.fsdp_config.param_offload=True"
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are fixed, one that cannot be used, two names of one, and two jobs that rest on a third."""
    monkeypatch.chdir(tmp_path)
    begin()


def begin() -> None:
    text = OFFLOADED
    written = {name: f"{text}\n# {name}\n" for name in NAMES if name != "link.yaml"}
    written |= {"broken.yaml": "a: [", "early.yaml": JOB, "late.yaml": JOB, "run.sh": SCRIPT}
    for name, content in written.items():
        Path(name).write_text(content, encoding="utf-8")
    Path("link.yaml").unlink(missing_ok=True)
    Path("link.yaml").symlink_to("0.yaml")


def check(*words: str, stdin: str = "") -> Result:
    return run(
        "check",
        *words,
        "--gpu",
        "h100-sxm",
        "--isolated",
        "--verl-version",
        "0.9.1",
        "--select",
        "CFG106",
        "-f",
        "concise",
        stdin=stdin,
    )


def contents() -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(Path().iterdir())}


def in_two_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let two inputs be many; the counts of the processes that are started then."""
    started: list[int] = []
    pool = many.ProcessPoolExecutor

    def counted(count: int, **options: Any) -> Any:
        started.append(count)
        return pool(count, **options)

    for module in (many, judging_many, result_store, fix_report):
        monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(many, "_AT_A_TIME", 2)
    monkeypatch.setattr(many, "cores", lambda: 2)
    monkeypatch.setattr(many, "ProcessPoolExecutor", counted)
    return started


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [("--fix",), ("--diff",)])
def test_processes_mend_what_one_mends_in_the_same_order(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents()
    alone, afterwards = check(*NAMES, *options), contents()
    begin()
    started = in_two_processes(monkeypatch)
    assert check(*NAMES, *options) == alone
    assert started == [2]
    assert contents() == afterwards
    assert alone.code == 2 and "0.yaml: CFG106 ref-offload-noop: the file is named twice" in alone.err
    mended = {name for name in before if afterwards[name] != before[name]}
    # What the last job lacked, the file that it rests on has by then.
    assert mended == (set() if "--diff" in options else {"early.yaml", "common.yaml", "1.yaml", "run.sh"})


def test_a_file_that_cannot_be_written_ends_it_behind_those_that_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("second name.yaml").hardlink_to("common.yaml")
    before = contents()
    in_two_processes(monkeypatch)
    result = check(*NAMES, "--fix")
    assert result.code == 2 and result.out == ""
    assert "common.yaml: the file has a second name (a hard link)" in result.err
    afterwards = contents()
    assert {name for name in before if afterwards[name] != before[name]} == {"early.yaml"}
    told = result.err.splitlines()
    assert {line.split(":")[0] for line in told if line.startswith("fixed ")} == {"fixed early.yaml"}
    assert told.index("1 finding fixed") < next(
        number for number, line in enumerate(told) if "has a second name" in line
    )


def test_a_baseline_that_cannot_be_read_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("known.json").write_text("[]", encoding="utf-8")
    before = contents()
    asked = (*NAMES, "--fix", "--baseline", "known.json")
    alone = check(*asked)
    in_two_processes(monkeypatch)
    assert check(*asked) == alone
    assert alone.code == 2 and alone.err.startswith("error: known.json")
    assert contents() == before


@pytest.mark.parametrize("options", [(), ("--diff",)])
def test_standard_input_among_many_is_read_where_it_is(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("early.yaml", "0.yaml", "common.yaml", "late.yaml", "1.yaml", "-", "run.sh")
    alone = check(*files, *options, stdin=OFFLOADED)
    started = in_two_processes(monkeypatch)
    assert check(*files, *options, stdin=OFFLOADED) == alone
    assert started == [2]
    assert alone.code != 2 and "-:" in alone.out + alone.err


def test_a_pipe_among_many_is_read_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    started = in_two_processes(monkeypatch)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        stream.write(OFFLOADED)
    pipe = f"/dev/fd/{reading}"
    result = check("early.yaml", "0.yaml", "common.yaml", "late.yaml", "1.yaml", pipe, "run.sh")
    os.close(reading)
    assert started == [2]
    assert f"{pipe}:" in result.out and "no such file" not in result.err
