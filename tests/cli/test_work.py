"""How much ``tuner advise`` does for the README's example: what it counts and loads, not how long it takes.

It is counted in a process of its own, where nothing is known yet.
"""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tuner.cli.application import COMMANDS

ROOT = Path(__file__).parents[2]
COUNTED = """
import contextlib, cProfile, gc, io, json, pstats, sys
from collections import Counter
from pathlib import Path

sys.argv[1:] = ["advise", "docs/examples/qwen2.5-7b-grpo.yaml", "--gpu", "h100-sxm", *sys.argv[1:]]
from tuner.cli import main

profile = cProfile.Profile()
before = sum(generation["collections"] for generation in gc.get_stats())
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    profile.runcall(main)
after = sum(generation["collections"] for generation in gc.get_stats())
calls = Counter({"collections of garbage": after - before})
for (file, _, name), (_, number, *_) in pstats.Stats(profile).stats.items():
    path = Path(file)
    calls[f"{path.parent.name}/{path.stem}.{name}"] += number
print(json.dumps([calls, sorted(sys.modules)]))
"""


NAMED = ("--verl-version", "0.9.1")


@cache
def counted(*words: str) -> tuple[dict[str, int], frozenset[str]]:
    """Calls by folder, module and name of a function, and the modules that were loaded."""
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, *(words or NAMED)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=300,
    )
    calls, modules = json.loads(run.stdout)
    return calls, frozenset(modules)


# Each is up to 30 % above what it takes, the first number, so that a rule may come.
BOUNDS = {
    "verl/read.read": 96,  # 74: a draft or two of each of 50 proposals
    "fields/rollout.read_rollout": 53,  # 41: drafts hand on what was read
    "fields/engine.read_engine": 17,  # 13: the same
    "memory/estimate._phase": 870,  # 675 phases: jobs share those that are alike
    "timing/estimate.step_time": 290,  # 226 jobs are compared
    "rules/__init__._findings": 11,  # 9 jobs that rules are asked about, each once
    "generation/engine.run": 19,  # 15 engines; more where each size of an ample cache has one of its own
    "generation/step.priced": 4_500,  # 3,506 steps; 7,487 where each of those is priced by itself
}


@pytest.mark.parametrize("function", BOUNDS)
def test_work_is_bounded(function: str) -> None:
    calls, _ = counted()
    assert 0 < calls[function] <= BOUNDS[function]


def test_no_garbage_is_looked_for() -> None:
    """A run makes 120,000 objects that stay; to look at them once takes a tenth of it."""
    calls, _ = counted()
    assert calls["collections of garbage"] == 0


def test_what_an_answer_does_not_need_is_not_loaded() -> None:
    _, modules = counted()
    libraries = {"pydantic", "omegaconf", "hydra", "rich", "jsonschema", "torch", "transformers", "pynvml"}
    libraries |= {"random", "statistics"}
    renderings = {
        f"tuner.render.{name}" for name in ("explain", "html", "json", "picture", "rule_page", "schemas")
    }
    renderings |= {
        f"tuner.render.document.{name}" for name in ("html", "html_marks", "html_table", "markdown")
    }
    rooms = {
        f"tuner.{name}"
        for name in ("accuracy", "kernels", "memory.failed_allocation", "trace", "validate.run")
    }
    commands = {f"tuner.cli.{name}" for name in COMMANDS if name != "advise"}
    assert not (libraries | renderings | rooms | commands) & modules


def test_few_modules_are_loaded() -> None:
    """An import takes a seventh of a millisecond, so that all of them are a fifth of a run.

    Rules, checks and terms of the model have a module each, and are as many as there are.
    """
    _, modules = counted()
    asked = re.compile(r"tuner\.(?:(?:rules|trainers\.verl\.checks)\.\w+\.\w+|(?:memory|timing)\..+)")
    machinery = [name for name in modules if name.partition(".")[0] == "tuner" and not asked.fullmatch(name)]
    assert 0 < len(machinery) <= 330  # 327


def test_the_whole_run_is_bounded() -> None:
    """Calls of functions, of Python's and C's: a run takes some 0.2 s for a million of them."""
    calls, _ = counted()
    assert 100_000 < sum(calls.values()) < 1_350_000  # 1,326,000


def test_a_release_that_nothing_names_is_asked_once() -> None:
    """What is proposed is tried on the farthest release as well: a run is half as long again."""
    calls, _ = counted("--mean-response-length", "512")
    assert sum(calls.values()) < 2_100_000  # 1,740,000
