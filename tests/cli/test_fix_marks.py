"""``[*]`` is beside the findings that ``--fix`` fixes, and ``--fix`` itself decides which these are."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import Result, run
from tuner.check import fix_plan

ROOT = Path(__file__).parents[2]
LAUNCHES = ROOT / "tests/data/verl-launches.jsonl"
PAGE = ROOT / "docs/guide/pull-requests/formats.rst"
MICRO_BATCH = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 data.max_response_length=3072 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.ppo_mini_batch_size=128 \\
    actor_rollout_ref.actor.ppo_micro_batch_size=24 \\
    actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.ref.fsdp_config.param_offload=True \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=8 \\
    trainer.n_gpus_per_node=8
"""
SELECTED = ("--select", "CFG103,CFG109,CFG106")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A launch of which ``--fix`` fixes CFG106, and leaves CFG103 since CFG109 would speak then."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "run.sh"
    file.write_text(MICRO_BATCH)
    return file


def check(*words: str) -> Result:
    named = words if "-f" in words else (*words, "-f", "concise")
    return run("check", "run.sh", *named, "--gpu", "h100-sxm", "--isolated", "--verl-version", "0.7.1")


def abouts(result: Result, *, marked: bool) -> set[tuple[str, str]]:
    """Code and overridden keys of the findings with the mark, or of those without."""
    found = set()
    for line in result.out.splitlines():
        code, _space, rest = line.split(": ", 1)[1].partition(" ")[2].partition(" ")
        keys = " ".join(word.split("=")[0] for word in rest.rpartition("override: ")[2].split())
        if rest.startswith("[*] ") is marked:
            found.add((code, keys))
    return found


def codes(result: Result, *, marked: bool) -> set[str]:
    return {code for code, _keys in abouts(result, marked=marked)}


def test_what_fix_refuses_has_no_mark_and_says_why(script: Path) -> None:
    before = check(*SELECTED)
    assert codes(before, marked=True) == {"CFG106"}
    assert codes(before, marked=False) == {"CFG103"}
    assert "[*] 1 that --fix fixes" in before.err
    full = check(*SELECTED, "-f", "full").out
    assert full.count("= fix: tuner check --fix") == 1
    assert "= no fix: then CFG109 would be found at the same key" in full
    assert script.read_text() == MICRO_BATCH
    after = check(*SELECTED, "--fix")
    assert "not fixed run.sh: CFG103 global-micro-batch: then CFG109 would be found" in after.err
    assert codes(after, marked=False) == {"CFG103"}
    assert "--fix fixes" not in after.err


def test_where_nobody_tries_there_is_no_mark_and_the_last_line_says_so(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"at most {fix_plan.MOST_READINGS} readings of ordinary files" in PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(fix_plan, "MOST_READINGS", 2)
    result = check(*SELECTED)
    assert codes(result, marked=True) == set()
    assert "2 untried for --fix" in result.err
    full = check(*SELECTED, "-f", "full").out
    assert full.count("= untried fix: tuner check --fix") == 2


def test_fixes_of_a_script_that_takes_long_to_follow_are_not_tried(script: Path) -> None:
    """Each state of the file would be followed anew: six fixes of such a script took over 2 seconds."""
    script.write_text("for i in {1..1500}; do x=$i; done\n" * 5 + MICRO_BATCH)
    result = check(*SELECTED)
    assert codes(result, marked=True) == set()
    assert "2 untried for --fix" in result.err
    assert "fixed run.sh" in check(*SELECTED, "--fix").err  # who asks for it waits for it


def test_what_programs_read_is_the_same_whether_fixes_were_tried(script: Path) -> None:
    alone = check(*SELECTED, "-f", "json")
    beside = check(*SELECTED, "-f", "json", "-f", "concise:out.txt")
    assert alone.out == beside.out
    assert [line["fix"]["safe"] for line in json.loads(alone.out)["findings"]] == [True, True]
    assert "2 untried for --fix" in alone.err
    assert "[*]" in Path("out.txt").read_text()


def test_a_file_that_is_named_twice_has_no_mark(script: Path) -> None:
    result = check(str(script), *SELECTED)
    assert codes(result, marked=True) == set()
    assert "= no fix: the file is named twice" in check(str(script), *SELECTED, "-f", "full").out


def test_what_a_baseline_knows_is_neither_mended_nor_in_the_way(script: Path) -> None:
    check("--select", "CFG103,CFG109", "--write-baseline", "known.json")
    result = check(*SELECTED, "--baseline", "known.json")
    assert codes(result, marked=True) == {"CFG106"}
    assert codes(result, marked=False) == set()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", [7, 11, 26, 58, 119, 187])
def test_of_recorded_launches_just_what_is_marked_is_gone_after_fix(number: int, script: Path) -> None:
    """Launches of which ``--fix`` leaves something, for all the reasons that it has."""
    launch = json.loads(LAUNCHES.read_text(encoding="utf-8").splitlines()[number])
    words = [f"--config-name={launch['config_name'] or 'ppo_trainer'}", *launch["overrides"]]
    script.write_text(f"python3 -m {launch['entry']} \\\n    {shlex.join(words)}\n", encoding="utf-8")
    before = check()
    marked, unmarked = abouts(before, marked=True), abouts(before, marked=False)
    left = abouts(check("--fix"), marked=False)
    assert marked and not marked & left
    assert left & unmarked


def test_a_fix_that_is_unsafe_once_the_others_are_in_was_tried(script: Path) -> None:
    launch = json.loads(LAUNCHES.read_text(encoding="utf-8").splitlines()[37])
    words = [f"--config-name={launch['config_name'] or 'ppo_trainer'}", *launch["overrides"]]
    script.write_text(f"python3 -m {launch['entry']} \\\n    {shlex.join(words)}\n", encoding="utf-8")
    asked = ("--gpu", "h100-sxm", "--isolated", "--verl-version", "0.9.1")
    before = run("check", "run.sh", *asked, "-f", "full")
    assert "recomputation-unread" in before.out
    assert "untried" not in before.out + before.err
    assert "= no fix: it may change the training or what was meant" in before.out
