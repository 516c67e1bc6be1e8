"""Many inputs are judged in several processes, as they would be one after another."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.runner import ROOT, run
from tuner import rules
from tuner.check import judging_many
from tuner.inputs.named_inputs import Input
from tuner.render.bar import with_bar
from tuner.render.checked import context
from tuner.review import many
from tuner.review.input_findings import InputFindings
from tuner.review.likeness import by_likeness

pytestmark = pytest.mark.sampled(6)

CONFIG = Path(__file__).parents[1] / "cli/configs/grpo.yaml"


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """Configurations that differ, and one that cannot be used."""
    text = CONFIG.read_text(encoding="utf-8")
    files = [tmp_path / f"{number}.yaml" for number in range(6)]
    for number, file in enumerate(files):
        file.write_text(
            f"{text}\n# {number}\ndata_{number}: 1\n" if number != 3 else "a: [", encoding="utf-8"
        )
    return [str(file) for file in files]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_processes_find_what_one_finds_in_the_same_order(
    inputs: list[str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("check", *inputs, "--gpu", "h100-sxm", "--verl-version", "0.9.1", "--lang", language)
    alone = run(*command)
    monkeypatch.setattr(many, "FEW", 2)
    monkeypatch.setattr(many, "_AT_A_TIME", 2)
    monkeypatch.setattr(many, "cores", lambda: 2)
    started = []
    pool = many.ProcessPoolExecutor

    def counted(count: int, **options: object) -> object:
        started.append(count)
        return pool(count, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(many, "ProcessPoolExecutor", counted)
    assert run(*command) == alone
    assert started == [2]
    assert alone.code == 2 and "3.yaml" in alone.err
    assert alone.out.index("0.yaml") < alone.out.index("1.yaml") < alone.out.index("5.yaml")


def test_one_core_and_few_inputs_stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "ProcessPoolExecutor", None)
    judged = many.judged_in_turn
    assert list(judged(range(many.FEW - 1), lambda given: -given, print, processes=8))[:2] == [0, -1]  # type: ignore[arg-type, return-value, operator, list-item]
    assert len(list(judged(range(200), lambda given: -given, print, processes=1))) == 200  # type: ignore[arg-type, return-value, operator]


def killed_elsewhere(number: int, *, parent: int) -> int:
    """Negates a number; a process that is not the parent dies of the thirteenth, as if out of memory."""
    if number == 13 and os.getpid() != parent:
        os._exit(9)
    return -number


def test_what_a_killed_process_leaves_is_judged_by_this_one() -> None:
    judge = partial(killed_elsewhere, parent=os.getpid())
    judged = many.judged_in_turn(range(many.FEW), judge, os.getpid, processes=2)  # type: ignore[arg-type]
    assert list(judged) == [-number for number in range(many.FEW)]


def large(number: int) -> bytes:
    """More than a pipe holds, so that it is handed over in pieces."""
    return bytes(1 << 20)


def ends_soon(several: Generator[bytes, None, None]) -> bool:
    closing = Thread(target=several.close, daemon=True)
    closing.start()
    closing.join(timeout=30)
    return not closing.is_alive()


@pytest.mark.skipif(os.name != "posix", reason="processes are told to end by a signal of POSIX")
def test_processes_that_hand_over_results_are_not_ended_meanwhile() -> None:
    """Half of a result would be waited for without end, as on Ctrl-C."""
    for taken in (1, 9):
        several = many.judged_in_turn(range(2 * many.FEW), large, os.getpid, processes=2)  # type: ignore[arg-type]
        assert all(len(next(several)) == 1 << 20 for _ in range(taken))
        assert ends_soon(several)


ORPHANED = """
import os, signal, sys
from tuner.review import many

def judge(number):
    return os.getpid()

if __name__ == "__main__":
    several = many.judged_in_turn(range(many.FEW), judge, os.getpid, processes=2)
    print(next(several), flush=True)
    signal.pause()
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's list of processes")
def test_processes_that_are_told_to_end_along_with_the_first_one_do(tmp_path: Path) -> None:
    """As where a job of continuous integration is stopped: nobody is left to tell them anything else."""
    script = tmp_path / "orphaned.py"
    script.write_text(ORPHANED, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, start_new_session=True
    ) as running:
        assert running.stdout is not None
        judging = int(running.stdout.readline())
        assert judging != running.pid
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(timeout=30) == -signal.SIGTERM
    until = time.monotonic() + 30
    while Path(f"/proc/{judging}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{judging}").exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_counts_on_a_terminal_and_leaves_standard_output_alone(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    each = [InputFindings(source=f"{number}.yaml") for number in range(3)]
    assert list(with_bar(iter(each), 3)) == each
    assert ("3/3" in written.getvalue()) is terminal
    assert not capsys.readouterr().out


def test_variants_of_one_job_are_judged_one_after_the_other(tmp_path: Path) -> None:
    texts = ["1: a", "2: b", "30: a", "4: b", "5: a\nc: 1"]
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    missing = Input(config=str(tmp_path / "missing.yaml"))
    pasted = Input(config="python3", words=("-m", "verl.trainer.main_ppo"), pasted=True)
    places = by_likeness([*(Input(config=str(file)) for file in files), missing, pasted])
    assert sorted(places) == list(range(7))
    assert [place for place in places if place < 5] == [0, 2, 4, 1, 3]


def test_inputs_that_are_judged_in_another_order_are_told_in_their_own(
    inputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs by turns, so that alike ones are apart on the command line."""
    monkeypatch.setattr(many, "cores", lambda: 1)
    monkeypatch.setattr(judging_many, "FEW", 2)
    for number in (0, 2, 4):
        Path(inputs[number]).write_text("trainer:\n  nnodes: 0\n", encoding="utf-8")
    command = ("check", *inputs, "--gpu", "h100-sxm", "--verl-version", "0.9.1", "-f", "json")
    report = json.loads(run(*command).out)
    assert [Path(given["source"]).name for given in report["inputs"]] == [Path(file).name for file in inputs]
    by_hand = [json.loads(run("check", file, *command[7:]).out)["inputs"][0] for file in inputs]
    assert report["inputs"] == by_hand


def test_a_rule_that_comes_from_another_process_is_kept_once() -> None:
    rule = rules.modules()[0].RULE
    copies = {id(pickle.loads(pickle.dumps(rule))) for _ in range(3)}
    assert len(copies) == 1
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_lines_are_written_piece_by_piece(
    inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("check", inputs[0], "--gpu", "h100-sxm", "--verl-version", "0.9.1", "-f")
    for name in ("concise", "json-lines", "github"):
        whole = run(*command, f"{name}:{tmp_path / 'whole'}")
        monkeypatch.setattr(context, "_PIECE", 1)
        pieces = run(*command, f"{name}:{tmp_path / 'pieces'}")
        monkeypatch.undo()
        assert whole == pieces
        text = (tmp_path / "whole").read_text(encoding="utf-8")
        assert text == (tmp_path / "pieces").read_text(encoding="utf-8")
        assert text.count("\n") > 1 and text.endswith("\n") and not text.endswith("\n\n")
