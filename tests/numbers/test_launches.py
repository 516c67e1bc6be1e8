"""What ``advise`` answers for some of verl's own launches, number by number, as it is today.

The job that is read, every finding with its price, and the block with what it brings. Words are left out:
other tests hold them. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes the listing anew.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.golden import expect
from tests.cli.runner import run
from tests.corpus import launches
from tests.numbers.leaves import leaves
from tests.numbers.test_numbers import FOLDER

TRAINERS = ("main_ppo", "sft_trainer", "sft_trainer_ray", "fsdp_sft_trainer")
TRAINING = [launch for launch in launches() if launch["entry"].endswith(TRAINERS)]
CHOSEN = range(5, len(TRAINING), 25)  # scripts of all releases, FSDP and Megatron


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", CHOSEN)
def test_launches(number: int) -> None:
    launch = TRAINING[number]
    release = launch["tags"][0].removeprefix("v")
    arguments = ["advise", "/dev/null", "--verl-version", release, "--gpu", "h200-sxm"]
    config = [f"--config-name={launch['config_name']}"] if launch["config_name"] else []
    result = run(*arguments, "--output-format", "json", "--", *config, *launch["overrides"])
    lines = [
        f"# {launch['path']} {release}",
        *(_answer(json.loads(result.out)) if result.out else [result.err]),
    ]
    expect(f"launch-{number:03}.txt", "\n".join(lines), folder=FOLDER)


def _answer(report: dict[str, Any]) -> Iterator[str]:
    for name in (
        "verdict",
        "memory_verdict",
        "cheapest_run",
        "mean_tokens",
        "rollout",
        "time",
        "step_time",
        "saving",
    ):
        yield f"{name}: " + " ".join(leaves(report[name]))
    yield from (f"workload.{name}: " + " ".join(leaves(value)) for name, value in report["workload"].items())
    yield from (f"batch: {' '.join(leaves(batch))}" for batch in report["batches"])
    yield from (f"finding: {' '.join(leaves(finding))}" for finding in report["findings"])
    block = report["combination"] or {}
    for name, value in block.items():
        if name != "memory":
            yield from (f"block {name}: {leaf}" for leaf in leaves(value))
