"""Which step a phase is of, by the order in which a release calls its workers."""

import ast
import os
from pathlib import Path

import pytest

from tuner.inside_verl.patching import RELEASES
from tuner.inside_verl.record.patches import PATCHES
from tuner.inside_verl.record.recorder import StepNumbers
from tuner.workload import Phase

ROLLOUT, OLD, REF, VALUES = Phase.ROLLOUT, Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES
ACTOR, CRITIC, SYNC, SAVE = (
    Phase.UPDATE_ACTOR,
    Phase.UPDATE_CRITIC,
    Phase.UPDATE_WEIGHTS,
    Phase.SAVE_CHECKPOINT,
)
TRAIN = Phase.TRAIN

ORDERS = {
    "0.7.1 on: weights behind the update": (
        [(SYNC, 0), *[(OLD, None), (ACTOR, None), (SYNC, 1)], *[(OLD, None), (ACTOR, None), (SYNC, 2)]],
        [0, 1, 1, 1, 2, 2, 2],
    ),
    "the same behind a checkpoint of step 70": (
        [(SYNC, 70), *[(OLD, None), (ACTOR, None), (SAVE, 71), (SYNC, 71)], (OLD, None)],
        [70, 71, 71, 71, 71, 72],
    ),
    "0.7.0: a step begins where a worker wakes the engine": (
        [*[(SYNC, None), (ROLLOUT, None), (OLD, None), (ACTOR, None)], (SYNC, None), (ROLLOUT, None)],
        [1, 1, 1, 1, 2, 2],
    ),
    "generation in the worker, twice in a step": (
        [*[(ROLLOUT, 1), (ROLLOUT, 1), (OLD, None), (ACTOR, None), (SAVE, 1)], (ROLLOUT, 2)],
        [1, 1, 1, 1, 1, 2],
    ),
    "a critic that is warmed up first": (
        [*[(ROLLOUT, None), (OLD, None), (VALUES, None), (CRITIC, None)], (OLD, None)],
        [1, 1, 1, 1, 2],
    ),
    "a reference in a process of its own": ([(REF, None), (REF, None), (REF, None)], [1, 2, 3]),
    "fine-tuning": ([(TRAIN, None), (TRAIN, None), (SAVE, 2), (TRAIN, None)], [1, 2, 2, 3]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_step_of_each_phase(order: str) -> None:
    calls, expected = ORDERS[order]
    steps, told = StepNumbers(), []
    for phase, step in calls:
        told.append(steps.of(phase, step))
        steps.ended(phase)
    assert told == expected


FOLDER = os.environ.get("VERL_RELEASES")


@pytest.mark.skipif(FOLDER is None, reason="VERL_RELEASES names no folder with releases of verl")
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_has_what_is_replaced_in_it(release: str) -> None:
    versions = Path(FOLDER or "").glob("*/verl/version/version")
    source = next(path.parents[2] for path in versions if path.read_text().strip() == release)
    for patch in PATCHES:
        if release in patch.releases:
            text = (source / patch.module.replace(".", "/")).with_suffix(".py").read_text()
            owner, method = patch.attribute.split(".")
            body = next(node for node in ast.parse(text).body if getattr(node, "name", None) == owner)
            assert method in {getattr(node, "name", None) for node in getattr(body, "body", [])}, patch.name
