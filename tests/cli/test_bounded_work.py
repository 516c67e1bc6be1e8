"""Large numbers and long texts cost no more work than there is to say: counted in calls, not in seconds."""

import cProfile
import os
import pstats
from pathlib import Path

import pytest

from tests.cli.hostile_inputs import unknown_keys
from tests.cli.runner import run
from tuner.inputs.shell import source

JOB = (
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=2400",
    "algorithm.adv_estimator=gae",
    "data.max_prompt_length=512",
    "data.max_response_length=512",
)
GPU = ("--gpu", "h100-sxm")


def calls(*words: str, code: int = 0) -> int:
    """Calls of functions that a command takes."""
    return counted(*words, code=code)[0]


def counted(*words: str, code: int = 0) -> tuple[int, str]:
    """Calls of functions that a command takes, and what it prints."""
    profile = cProfile.Profile()
    result = profile.runcall(run, *words)
    assert result.code == code, result.err
    return int(pstats.Stats(profile).total_calls), result.out  # type: ignore[attr-defined]


def test_sequences_of_a_step_are_not_gone_through_one_by_one() -> None:
    many = (*JOB, "data.train_batch_size=4096", "actor_rollout_ref.rollout.n=1000")
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 600.00 MiB. in update_policy"
    assert calls("explain-oom", *GPU, f"--message={error}", "/dev/null", *many) < 3_000_000  # 0.9; 42 million


@pytest.mark.parametrize("name", ["qwen-3-" * 15_000, "a." * 50_000])
def test_a_long_text_is_not_searched_for_names_of_models(name: str) -> None:
    words = (f"actor_rollout_ref.model.path=x{name}", f"trainer.experiment_name={name}", *JOB[1:])
    assert calls("advise", *GPU, "/dev/null", *words, code=2) < 1_000_000  # 0.4; 30 million and more


def test_of_more_settings_than_any_job_has_none_is_judged(tmp_path: Path) -> None:
    """They are read, at some hundred calls each, and refused in one line."""
    file, profile = unknown_keys(20_000, tmp_path), cProfile.Profile()
    result = profile.runcall(run, "advise", str(file))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "20,002 settings are more than" in result.err
    work = int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    assert work < 3_700_000  # 2.8; each key that is judged takes 36,000


def test_unknown_keys_cost_no_more_than_their_number(tmp_path: Path) -> None:
    """Twice as many take less than twice the work, since some is the same for any number of them."""
    taken = []
    for count in (10, 20):
        file = unknown_keys(count, tmp_path)
        work, printed = counted("check", str(file), "-f", "concise", *GPU, JOB[2], code=1)
        assert printed.count("CFG001") == count
        assert "nearest known key" in printed
        taken.append(work)
    few, twice_as_many = taken
    assert twice_as_many < 2 * few  # of 250 and 500 keys: 10.6 and 18.1 million


def test_the_files_around_a_launch_are_looked_for_once_however_many_of_its_keys_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listdir, listed = os.listdir, list[object]()

    def listing(place: str) -> list[str]:
        listed.append(place)
        return listdir(place)

    def folders_listed(count: int) -> int:
        listed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", listing)
            result = run("check", str(unknown_keys(count, tmp_path)), "-f", "concise", *GPU)
        assert result.out.count("CFG001") == count
        return len(listed)

    folders_listed(1)  # modules that are imported list folders as well
    assert 0 < folders_listed(6) == folders_listed(3)


@pytest.mark.parametrize("statement", ["x=$x$x$y", "x=$x$y", "x+=$y"])
def test_a_value_of_a_script_that_nobody_knows_does_not_grow_for_long(statement: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    launch = "python3 -m verl.trainer.main_ppo " + " ".join(JOB)
    script.write_text(f"while :; do {statement}; done\n{launch}\n")
    assert calls("config", str(script), code=2) < 1_000_000  # 0.6; 18 million


def test_what_is_no_literal_in_a_printed_configuration_is_cut_out_of_its_own_lines(tmp_path: Path) -> None:
    log, names = tmp_path / "run.log", ", ".join(["name"] * 12)
    lines = "".join(f" 'k{number}': [{names}],\n" for number in range(500))
    log.write_text(f"{{'actor_rollout_ref': {{'x': 1,\n{lines} 'z': 1}}}}\n")
    assert calls("config", str(log)) < 3_000_000  # 1.7; 253 million


def test_a_script_that_starts_nothing_is_followed_no_further_with_each_number_of_arguments(
    tmp_path: Path,
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("for i in {1..1000000}; do echo $i $1; done\n" * 3 + "\n".join(JOB) + "\n")
    assert calls("config", str(script), code=2) < 4_000_000  # 2.3; 7.1 million


def test_a_function_that_watches_a_server_beside_the_script_is_not_followed_for_long(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    round_ = "for a in ${A[@]}; do s=$(curl $a || true); if [ -n $s ]; then echo $s; else echo; fi; done"
    script.write_text(
        f"A=(a b c)\nwatch() {{\n  while true; do\n    {round_}\n    sleep 60\n  done\n}}\nwatch > log &\n"
        f"python3 -m verl.trainer.main_ppo {' '.join(JOB)}\n"
    )
    assert calls("config", str(script)) < 4_000_000


@pytest.mark.parametrize("rounds", range(390, 404))  # one of them leaves nothing for a second try to start on
def test_a_try_that_has_no_work_left_ends_in_a_message(rounds: int, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"for i in {{1..{rounds}}}; do {':; ' * 18}done\necho ${{MODE:-}}\n")
    result = run("config", str(script), *(f"V{number}=1" for number in range(1_000)))
    assert (result.code, result.err.count("\n")) == (2, 1), result.err


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("until false; do x=${y:-" + "${" * 1_000 + "}" * 1_001 + "; done", 6_000_000),  # 4.0; 56 million
        # 0.7 to 1.8 by the depth of the folder; 12 million
        ("while :; do " + "source ./none.sh; " * 8 + "done", 4_000_000),
    ],
    ids=["many short values", "files that are looked for"],
)
def test_all_that_a_statement_makes_counts_as_work(statement: str, most: int, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"{statement}\npython3 -m verl.trainer.main_ppo {' '.join(JOB)}\n")
    assert calls("config", str(script), code=2) < most


def test_what_is_larger_than_a_script_is_not_parsed(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("echo line\n" * 90_000 + "python3 -m verl.trainer.main_ppo " + " ".join(JOB) + "\n")
    result = run("config", str(script))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "bytes are more than a launch script has" in result.err


def test_the_parser_is_stopped_where_what_follows_is_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_PARSING_S", 0.05)
    loop = "for ((i=0;i<10;i++)); do :; done\n"
    script = tmp_path / "run.sh"
    script.write_text("for ((i=0;i<1\n0;i++)); do :; done\n" + loop * 1_000)
    result = run("config", str(script))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "run.sh:1:1: it is no shell from some line on: 0.05 s were not enough" in result.err


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "N=${N:-900}\nM=900\nstart() {\n  for j in $(seq $M); do x=$j; done\n}\n"
            "for i in $(seq 1 $N); do start; done\n",
            "the loop for i in $(seq 1 $N) of line 6 takes them: give N=1 behind the script",
        ),
        (
            "ROUNDS=${ROUNDS:=900}\nfor ((i=0; i<ROUNDS; i++)); do for j in {1..900}; do x=$j; done; done\n",
            "the loop for ((i=0; i<ROUNDS; i++)) of line 2 takes them: give ROUNDS=1 behind the script",
        ),
        (
            "M=900\nfor i in $(seq $M); do for j in $(seq $M); do x=$j; done; done\n",
            "the loop for i in $(seq $M) of line 2 takes them; or give the command",
        ),
    ],
)
def test_a_script_that_takes_too_long_names_its_loop_and_what_bounds_it(
    tmp_path: Path, script: str, said: str
) -> None:
    (tmp_path / "run.sh").write_text(script)
    result = run("config", str(tmp_path / "run.sh"))
    assert (result.code, "takes more than 8,000 steps" in result.err) == (2, True)
    assert said in " ".join(result.err.split())


def test_a_long_word_in_a_loop_is_no_single_step(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"while a.{'a.' * 20_000}b; do :; done\n")
    result = run("config", str(script))
    assert (result.code, "takes more than 8,000 steps" in result.err) == (2, True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("(WorkerDict pid=1) step:1 - actor/pg_loss:0.1 - timing_s/step:12.0 - perf/throughput:9", 2_500_000),
        ("some words of a log that tell nothing", 3_500_000),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a", 3_500_000),
    ],
)
def test_a_log_of_many_megabytes_is_not_gone_through_line_by_line_for_each_thing(
    line: str, most: int, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    log.write_text("Traceback (most recent call last):\n" + f"{line}\n" * (12_000_000 // len(line)))
    assert calls("config", str(log), code=2) < most
