"""What each way of a script means: its verdict and its peak, in every form of the answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B actor_rollout_ref.actor.use_dynamic_bsz=True"
)
GPU = ("--gpu", "h100-sxm", "--verl-version", "0.9.1")
TWO = (
    'A=()\nif [ "$BIG" = 1 ]; then\n  A+=(actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct)\nfi\n'
    "if grep -q sglang requirements.txt; then E=sglang; else E=vllm; fi\n"
    f'{LAUNCH} "${{A[@]}}" {ROLLOUT}.name=$E\n'
)


def written(folder: Path, script: str) -> str:
    """The name of a file with a script."""
    file = folder / "run.sh"
    file.write_text(script)
    return str(file)


def answer(file: str, *words: str) -> dict[str, Any]:
    """The whole answer."""
    result = run("advise", file, *words, *GPU, "-f", "json")
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def ways(file: str) -> list[dict[str, Any]]:
    """What the answer says of the other ways."""
    listed: list[dict[str, Any]] = answer(file)["premises"]["alternatives"]
    return listed


def test_each_way_has_the_verdict_and_the_peak_of_its_own_job(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    big, engine = ways(file)
    assert (big["test"], big["variable"], big["holds"]) == ("$BIG = 1", "BIG", True)
    assert big["location"]["line"] == 2
    assert big["settings"] == [
        {
            "key": "actor_rollout_ref.model.path",
            "here": "Qwen/Qwen2.5-0.5B",
            "there": "Qwen/Qwen2.5-7B-Instruct",
        }
    ]
    alone = answer(file, "BIG=1")
    assert (big["verdict"], big["worst_bytes"]) == (
        alone["verdict"],
        max(phase["peak_bytes"] for phase in alone["memory"]["phases"]),
    )
    assert (engine["test"], engine["is_program"], engine["variable"]) == (
        "grep -q sglang requirements.txt",
        True,
        "",
    )
    assert (engine["verdict"], engine["unread"]) == ("fits", None)
    assert engine["worst_bytes"] > 0


def test_every_form_says_it_in_one_line_each(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    big, engine = ways(file)
    for form in ((), ("--full",), ("-f", "markdown")):
        text = " ".join(run("advise", file, *GPU, *form).out.replace("\\", "").replace("`", "").split())
        peak = big["worst_bytes"] / 2**30
        assert f"if $BIG = 1 ({file}:2:4): model.path=Qwen/Qwen2.5-7B-Instruct; " in text
        assert f", {peak:.1f} GiB" in text
        assert (
            f"if grep -q sglang requirements.txt succeeds ({file}:5:4): rollout.name=sglang; FITS, " in text
        )
        assert f"{engine['worst_bytes'] / 2**30:.1f} GiB" in text


def test_a_way_that_is_refused_names_what_refuses_it(tmp_path: Path) -> None:
    script = f'M=async\n[ "$SYNC" = 1 ] && M=sync\n{LAUNCH} {ROLLOUT}.name=vllm {ROLLOUT}.mode=$M\n'
    file = written(tmp_path, script)
    (sync,) = ways(file)
    assert (sync["verdict"], sync["refused_by"]) == ("will_not_start", ["CFG119"])
    assert "rollout.mode=sync; WILL NOT START (CFG119)" in " ".join(run("advise", file, *GPU).out.split())


def test_a_way_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    script = f'M=64\n[ "$X" = 1 ] && M=many\n{LAUNCH} {ROLLOUT}.name=vllm data.train_batch_size=$M\n'
    file = written(tmp_path, script)
    (other,) = ways(file)
    assert (other["verdict"], other["worst_bytes"]) == (None, None)
    assert "expected a whole number" in other["unread"]
    assert "train_batch_size=many; not read: " in " ".join(run("advise", file, *GPU).out.split())


def test_a_way_that_starts_another_program_says_which(tmp_path: Path) -> None:
    script = (
        'if [ "$EVAL" = 1 ]; then\n  python3 -m verl.trainer.main_eval data.path=x.parquet\n'
        f"else\n  {LAUNCH} {ROLLOUT}.name=vllm\nfi\n"
    )
    (other,) = ways(written(tmp_path, script))
    assert other["program"] == "verl.trainer.main_eval"
    assert other["verdict"] is None
    assert other["unread"]


def test_what_nobody_knows_on_a_way_is_left_out_and_named(tmp_path: Path) -> None:
    script = f'A=()\n[ -n "$N" ] && A+=({ROLLOUT}.n=$N)\n{LAUNCH} {ROLLOUT}.name=vllm "${{A[@]}}"\n'
    file = written(tmp_path, script)
    (other,) = ways(file)
    assert (other["open_keys"], other["verdict"]) == ([f"{ROLLOUT}.n"], "fits")
    assert "n not known: FITS, " in " ".join(run("advise", file, *GPU).out.split()).replace("rollout.", "")


def test_three_ways_at_most_are_judged(tmp_path: Path) -> None:
    tests = "\n".join(f'[ "$T{number}" = 1 ] && A+=(trainer.nnodes={number + 2})' for number in range(5))
    file = written(tmp_path, f'A=()\n{tests}\n{LAUNCH} {ROLLOUT}.name=vllm "${{A[@]}}"\n')
    listed = ways(file)
    assert [way["verdict"] is not None for way in listed] == [True] * 3 + [False] * 2
    assert listed[4]["unread"] == "the verdict is that of the first 3 ways alone"
    assert run("advise", file, *GPU).out.count("other way") == 3


def test_without_another_way_there_is_none(tmp_path: Path) -> None:
    file = written(tmp_path, f"{LAUNCH} {ROLLOUT}.name=vllm\n")
    assert ways(file) == []
    assert "other way" not in run("advise", file, *GPU, "--full").out


def test_a_text_tells_each_way_once(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        'A=(); [ -n "$LONG" ] && A+=(data.max_response_length=2048)\n'
        'python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen2.5-7B "${A[@]}"\n'
    )
    text = " ".join(run("advise", str(script), "--gpu", "h100-sxm").out.split())
    assert text.count("data.max_response_length=2048") == 1
    assert "LONG=VALUE behind the script settles it" in text


@pytest.mark.parametrize(
    ("program", "does"),
    [
        ("main_generation", "it only generates, by an engine that takes gpu_memory_utilization"),
        ("main_generation_server", "it only generates, by an engine that takes gpu_memory_utilization"),
        ("main_eval", "it scores responses of a file on the CPU"),
    ],
)
def test_a_program_that_trains_nothing_is_told_by_what_it_does(program: str, does: str) -> None:
    words = ("data.path=x.parquet", "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B")
    result = run("advise", "python3", "-m", f"verl.trainer.{program}", *words, *GPU)
    assert result.code == 2
    assert f"verl.trainer.{program} trains nothing: {does}" in result.err
