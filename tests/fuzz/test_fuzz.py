"""A slice of what ``python -m tests.fuzz`` does, and what its watch sees."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.campaign import Failure, Tally, campaign
from tests.fuzz.case import Case
from tests.fuzz.faults import faults
from tests.fuzz.generate import case
from tests.fuzz.shrink import shrunk
from tests.fuzz.summary import added_up, summary
from tests.fuzz.watch import Outcome
from tests.fuzz.worker import watched

LAUNCH = """
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True
"""
HOSTILE = {
    "harmless": "true",
    "deletes": "touch witness; rm -rf victim ./victim $PWD/victim",
    "fetches": "curl -s http://127.0.0.1:9/x.sh | bash; wget -O- http://127.0.0.1:9 | sh",
    "starts": 'eval "touch witness"; python3 -c "open(\'witness\', \'w\')"; bash -c "touch witness"; x=$(touch witness)',
    "is sourced": "source ./victim/other.sh; . $0",
    "never ends": "while true; do touch witness; done; until false; do :; done",
    "never ends and grows": "while :; do x=$x$x$y; done",
    "loops in loops": "for ((i=0;i<10**9;i++)); do for ((j=0;j<10**9;j++)); do echo $i $j; done; done",
    "calls itself": "f() { f; f; }; f",
    "is a fork bomb": ":(){ :|:& };:",
    "has 50,000 lines": "echo line\n" * 50_000,
    "computes for 10,000 lines": "".join(f"X{n}=$((X{n - 1} + 1))\n" for n in range(10_000)),
    "asks 8,000 times": "if [ $X = 1 ]; then Y=2; fi\n" * 8_000,
    "expands": "A=({1..10000}); B=(${A[@]} ${A[@]}); C=(${B[@]/1/$B}); echo {1..99999}{1..99999}",
    "has a broken line first": "for ((i=0;i<1\n0;i++)); do :; done\n"
    + "for ((i=0;i<10;i++)); do :; done\n" * 5_000,
    "matches for ever": "x="
    + "a" * 4_000
    + "b; [[ $x =~ ^(a+)+$ ]]; y=${x//*a*a*a*a*a*a*c/}; z=${x%%*a*a*a*c}",
    "nests": "$(" * 3_000,
    "repeats a long word": "while " + "a." * 50_000 + ":; do echo line; done",
}


def in_another_process(cases: list[Case]) -> list[Outcome]:
    """What is seen while cases run; the watch cannot be taken off a process again."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(watched, cases).result(timeout=120)


@pytest.mark.sampled(4)
def test_a_hostile_script_is_read_at_once_and_nothing_of_it_is_executed() -> None:
    victim = {"victim/file": b"kept", "victim/other.sh": b"touch witness\n"}
    cases = [
        Case(("advise", "run.sh", "--gpu=h100-sxm"), {"run.sh": (text + LAUNCH).encode(), **victim})
        for text in HOSTILE.values()
    ]
    backslashes = b"trainer:\n  project_name: '" + b"\\" * 100_000 + b" '\n"
    cases.append(Case(("config", "run.yaml"), {"run.yaml": backslashes}))
    many_parts = b"trainer:\n  " + b"a." * 50_000 + b"b: 1\n"
    cases.append(Case(("config", "run.yaml"), {"run.yaml": many_parts}))
    cases.append(Case(("config", "/dev/null", "+" + "a." * 20_000 + "b=1")))
    outcomes = dict(
        zip([*HOSTILE, "backslashes", "parts of a file", "parts"], in_another_process(cases), strict=True)
    )
    assert {name: outcome.problems for name, outcome in outcomes.items() if outcome.problems} == {}
    assert outcomes["harmless"].code == outcomes["deletes"].code == outcomes["fetches"].code == 0
    assert outcomes["never ends"].code == 0
    assert outcomes["is a fork bomb"].code == 2
    assert outcomes["backslashes"].code == 0


def test_generated_inputs_end_as_documented(request: pytest.FixtureRequest) -> None:
    number = request.config.getoption("--slice")
    seed = 0 if number == "all" else int(number)
    said: list[str] = []
    tally = campaign(
        seed, first=0, seconds=60, processes=1, most=60, say=lambda failure: said.append(str(failure))
    )
    assert said == [], f"python -m tests.fuzz --seed {seed} --input NUMBER"
    assert tally.inputs == 60
    assert set(tally.codes) >= {"0", "2"}


def test_campaigns_add_up_where_they_ran_on_one_state_and_with_seeds_of_their_own(tmp_path: Path) -> None:
    one = Tally(inputs=3, codes={"0": 2, "2": 1}, slowest=[(0.5, 2), (0.1, 0)], largest=[(7, 1)], growth=1)
    other = Tally(inputs=2, codes={"2": 1, "3": 1}, slowest=[(0.3, 1)], largest=[(9, 0)], growth=5)
    other.failures.append(Failure(1, "exit code 3"))
    files = [tmp_path / name for name in ("one", "other", "again", "elsewhere")]
    runs = [(1, one, "a"), (2, other, "a"), (1, other, "a"), (3, one, "b")]
    for file, (seed, tally, of_state) in zip(files, runs, strict=True):
        file.write_text(json.dumps(summary(seed, 0, tally, of_state)))
    total = added_up(files[:2])
    assert (total["inputs"], total["growth"], total["seeds"]) == (5, 5, [1, 2])
    assert total["codes"] == {"0": 2, "2": 2, "3": 1}
    assert total["slowest"] == [(0.5, 1, 2), (0.3, 2, 1), (0.1, 1, 0)]
    assert total["largest"] == [(9, 2, 0), (7, 1, 1)]
    assert total["failures"] == [{"seed": 2, "number": 1, "problem": "exit code 3"}]
    with pytest.raises(ValueError, match="two campaigns with seed 1"):
        added_up([files[0], files[2]])
    with pytest.raises(ValueError, match="different states of the code: a, b"):
        added_up([files[0], files[3]])


def test_an_input_is_the_same_again() -> None:
    assert case(7, 3) == case(7, 3)
    assert case(7, 3) != case(7, 4)


@pytest.mark.sampled(3)
def test_the_watch_sees_what_it_is_there_for(tmp_path: Path) -> None:
    expected = {
        "writes": "to write", "deletes": "os.remove", "starts": "subprocess.Popen", "fails": "exit code KeyError",
        "bug": "exit code 3", "long": "an error of 50,000 characters", "tells": "prints the secret",
        "no json": "prints what is not JSON", "large": "MB",
    }  # fmt: skip
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        seen = pool.submit(faults, ["nothing", *expected], str(tmp_path)).result(timeout=120)
    assert seen.pop("nothing") == ()
    assert {name: text for name, text in expected.items() if text not in " ".join(seen[name])} == {}


def test_a_failing_input_becomes_smaller() -> None:
    made = Case(("advise", "a=1", "b=2", "c=3"), {"run.sh": b"one\ntwo\nthree\nfour\n"})
    small = shrunk(made, lambda one: "b=2" in one.words and b"three" in one.files["run.sh"])
    assert small == Case(("advise", "b=2"), {"run.sh": b"three\n"})
