"""What a process remembers of one input changes nothing of what it finds in another."""

import json
import random
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import process, run

LAUNCHES = Path(__file__).parents[1] / "data/verl-launches.jsonl"
CHECK = ("check", "--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json-lines")
# Other values, other keys, other sections, and the same in another order.
FURTHER = (
    ("actor_rollout_ref.rollout.n=4", "actor_rollout_ref.rollout.gpu_memory_utilization=0.4"),
    ("actor_rollout_ref.rollout.n=16", "actor_rollout_ref.rollout.gpu_memory_utilization=0.8"),
    ("+trainer.own.first=1", "+trainer.own.second=2", "actor_rollout_ref.rollout.n=4"),
    ("+trainer.own.second=2", "+trainer.own.first=1", "actor_rollout_ref.rollout.n=4"),
)


def variants(folder: Path, drawn: random.Random) -> list[Path]:
    """Scripts of two launches with further overrides."""
    launches = [json.loads(line) for line in LAUNCHES.read_text(encoding="utf-8").splitlines()]
    files = []
    for number, launch in enumerate(drawn.sample(launches, 2)):
        for place, further in enumerate(drawn.sample(FURTHER, 2)):
            config = launch["config_name"] or "ppo_trainer"
            words = [f"--config-name={config}", *launch["overrides"], *further]
            files.append(folder / f"{number}{place}.sh")
            files[-1].write_text(f"python3 -m {launch['entry']} {shlex.join(words)}\n", encoding="utf-8")
    return files


@pytest.mark.sampled(48)
@pytest.mark.parametrize("seed", range(48))
def test_inputs_in_any_order_are_judged_as_each_alone(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    files = [str(file) for file in variants(tmp_path, drawn)]
    answers = {file: process(*CHECK, file) for file in files}
    assert all(answer.out or answer.err for answer in answers.values())
    alone = {file: answer.out.splitlines() for file, answer in answers.items()}
    for _round in range(2):
        drawn.shuffle(files)
        together = run(*CHECK, *files).out.splitlines()
        assert together == [line for file in files for line in alone[file]]
