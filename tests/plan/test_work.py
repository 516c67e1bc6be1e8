"""How much a search does for a setting: what it counts, not how long it takes."""

import cProfile
import gc
import pstats
from pathlib import Path

import pytest

from tests.plan import jobs
from tests.plan.jobs import ACTOR, HEADROOM, MEGATRON, SmallJob
from tuner.inputs.interpolation import Resolver
from tuner.plan.legality import Legality
from tuner.plan.search import SettingSearch

DENSE = SmallJob(
    name="dense",
    model="qwen2.5-7b",
    options=(
        *(("layout", 4), ("states", 4), ("recomputation", 2), ("engine-layout", 2)),
        *(("fraction", 10), ("sequences", 2), ("batch-of-update_actor", 4)),
    ),
)
SPARSE = SmallJob(
    name="sparse",
    model="qwen3-30b-a3b",
    gpu="8xh200-sxm",
    nodes=2,
    overrides=(*MEGATRON, f"{ACTOR}.megatron.expert_model_parallel_size=8"),
    options=(
        *(("layout", 8), ("states", 4), ("recomputation", 2), ("engine-layout", 2)),
        *(("fraction", 10), ("sequences", 2), ("batch-of-update_actor", 2)),
    ),
)
# Calls for each setting that is looked at.
BOUNDS = {
    "memory/estimate._make": 2.2,  # phases, of which a job has five to seven
    "memory/estimate.awake": 0.5,  # engines beside a trainer: one for all that it recomputes and batches
    "rollout/capacity._memory_of": 0.05,  # engines, each with its caches
    "workload/passes.step_passes": 0.1,  # passes of a trainer: one for all engines
    "timing/estimate.step_time": 0.6,  # steps: what is slower than the best is not asked for its memory
    "generation/rollout.rollout_seconds": 0.05,  # rollouts: one for each engine
    "trainers/proposal_writer.written": 0.05,  # overrides: of settings that are better than those before
}


def calls_of(job: SmallJob) -> tuple[dict[str, int], int]:
    """Calls by folder, module and function in a search of all settings, and how many these are."""
    search = SettingSearch(
        jobs.space(job), Legality(jobs.reading_of(job), jobs.space(job)), headroom=HEADROOM
    )
    profile = cProfile.Profile()
    result = profile.runcall(search.run)
    calls: dict[str, int] = {}
    for (file, _, name), (_, number, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        path = Path(file)
        key = f"{path.parent.name}/{path.stem}.{name}"
        calls[key] = calls.get(key, 0) + number
    return calls, result.looked_at


@pytest.mark.sampled(2)
@pytest.mark.parametrize("job", [DENSE, SPARSE], ids=lambda job: job.name)
def test_the_work_for_a_setting_is_bounded(job: SmallJob) -> None:
    calls, settings = calls_of(job)
    assert settings == jobs.space(job).size > 3_000
    for_a_setting = {function: calls[function] / settings for function in BOUNDS}
    assert all(for_a_setting.values())
    assert {name: rate for name, rate in for_a_setting.items() if rate > BOUNDS[name]} == {}


def alive(kind: type) -> int:
    return sum(type(one) is kind for one in gc.get_objects())


def test_settings_that_a_plan_has_written_are_let_go() -> None:
    """A plan writes thousands, of which those at hand are bounded."""
    reading = jobs.reading_of(DENSE)
    gc.collect()
    before, was_enabled = alive(Resolver), gc.isenabled()
    gc.disable()
    try:
        for place in range(1, 701):
            assert reading.write(reading.workload.with_rollout(max_sequences=1000 + place)).overrides
        assert alive(Resolver) - before < 350
    finally:
        if was_enabled:
            gc.enable()
