"""No launch that verl's own validation refuses is taken for one that starts.

``tests/data/verl-refusals.jsonl`` has what each release said. Where ``VERL_RELEASES`` names a folder with
a subfolder per release, into which its wheel is unpacked, the releases are asked again;
``UPDATE_GOLDEN=1`` then writes the file anew.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.loading import load
from tests.trainers.launches import ALL
from tests.trainers.refusals.cases import launches_of
from tests.workloads import QWEN25_7B, cluster
from tuner.errors import TunerError
from tuner.trainers.verl.releases import BUNDLED

RECORD = DATA / "verl-refusals.jsonl"
NOT_IN_THE_WHEEL = ("MissingConfigException", "OverrideParseException")  # recipes' files, placeholders
NEEDS_THE_MODEL = "bucket-too-small"  # verl's validation does not look at tensors

NOT_READ = {  # engines of 0.3 that are not modelled or not there yet, which is said in an error
    "0.3.0.post1": {name for name, launch in ALL.items() if "static" not in name},
}
BEFORE_FSDP2 = ("0.3.0.post1",)  # refuses it when it builds the model
NEED_FSDP2 = [name for name, launch in ALL.items() if any("fsdp2" in override for override in launch)]


@cache
def recorded() -> dict[str, dict[str, str | None]]:
    """What each release said of each launch: the reason of its refusal, None where it went on."""
    answers: dict[str, dict[str, str | None]] = {}
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        release, name, reason = json.loads(line)
        answers.setdefault(release, {})[name] = reason
    return answers


def refusals(overrides: tuple[str, ...], release: str) -> list[str]:
    """What this program says of a launch that does not start; empty where it starts.

    Raises:
        TunerError: the launch cannot be read, which is an answer too.
    """
    loaded = load(None, overrides, version=release)
    gpus, nodes = loaded.cluster_size()
    workload = loaded.workload(
        model=QWEN25_7B,
        critic_model=QWEN25_7B,
        cluster=cluster(gpus_per_node=gpus, nodes=nodes),
    )
    return [
        f"{finding.rule.code}: {finding.message}"
        for finding in loaded.check(workload)
        if finding.refuses and finding.rule.name != NEEDS_THE_MODEL
    ]


def starts(overrides: tuple[str, ...], release: str) -> bool:
    try:
        return not refusals(overrides, release)
    except TunerError:
        return False


RELEASES = [release for release in BUNDLED if release in recorded()]


@pytest.mark.parametrize("release", RELEASES)
def test_what_verl_refuses_does_not_start(release: str) -> None:
    answers = recorded()[release]
    missed = [
        f"{name}: {answers[name]}"
        for name, overrides in launches_of(release)
        if answers.get(name) is not None and starts(overrides, release)
    ]
    assert missed == []


@pytest.mark.parametrize("release", RELEASES)
def test_good_launches_start(release: str) -> None:
    for name, launch in ALL.items():
        if recorded()[release][name] is None and name not in NOT_READ.get(release, ()):
            assert refusals(tuple(launch), release) == [], name


@pytest.mark.parametrize("release", BUNDLED)
def test_the_record_is_what_verl_says(release: str) -> None:
    folder = os.environ.get("VERL_RELEASES")
    if folder is None or not Path(folder, release, "verl").is_dir():
        pytest.skip("VERL_RELEASES names no folder with this release")
    names, launches = zip(*launches_of(release), strict=True)
    asking = Path(__file__).with_name("asking.py")
    answer = subprocess.run(
        [sys.executable, str(asking), str(Path(folder, release))],
        input=json.dumps(launches),
        capture_output=True,
        check=True,
        text=True,
    )
    answers = {
        name: reason
        for name, reason in zip(names, json.loads(answer.stdout), strict=True)
        if reason is None or not reason.startswith(NOT_IN_THE_WHEEL)
    }
    if os.environ.get("UPDATE_GOLDEN"):
        _write({**recorded(), release: answers})
    assert recorded().get(release) == answers


def _write(answers: dict[str, dict[str, str | None]]) -> None:
    lines = [
        json.dumps([release, name, reason])
        for release in sorted(answers)
        for name, reason in answers[release].items()
    ]
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
    recorded.cache_clear()
