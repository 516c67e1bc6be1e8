"""Seconds of a checkpoint: what is copied, made files of and written, by engine."""

from math import isclose

import pytest
from msgspec.structs import replace

from tests.trainers.launches import ACTOR, DYNAMIC, MEGATRON, PPO, workload_of
from tuner.timing import assumptions, phase_interval, step_time
from tuner.timing.saving import SavingTime, saving_time
from tuner.workload import Workload

SAVED = "trainer.save_freq=20"
FSDP1 = (*DYNAMIC, f"{ACTOR}.strategy=fsdp")
FSDP2 = DYNAMIC
CONTENTS = f"{ACTOR}.checkpoint.save_contents"
NO_BRIDGE = f"{ACTOR}.megatron.use_mbridge=False"
PARAMETERS = 7_615_616_512


def saving(*overrides: str, launch: tuple[str, ...] = FSDP2, storage: float | None = None) -> SavingTime:
    found = saving_time(with_storage(workload_of((*launch, SAVED, *overrides), "0.9.1"), storage))
    assert found is not None
    return found


def with_storage(workload: Workload, rate: float | None) -> Workload:
    return replace(workload, cluster=replace(workload.cluster, storage_bytes_per_s=rate))


def part(saved: SavingTime, name: str) -> float:
    return dict(saved.waits.parts).get(name, 0.0)


def test_a_job_that_writes_none_has_no_seconds_of_it() -> None:
    assert saving_time(workload_of(DYNAMIC, "0.9.1")) is None


@pytest.mark.parametrize("launch", [FSDP1, FSDP2, MEGATRON, PPO])
def test_a_rate_twice_as_fast_halves_the_writing(launch: tuple[str, ...]) -> None:
    slow, fast = (saving(launch=launch, storage=rate) for rate in (1e9, 2e9))
    assert part(fast, "storage") == pytest.approx(part(slow, "storage") / 2)
    assert slow.waits.seconds - fast.waits.seconds == pytest.approx(part(fast, "storage"))
    assert slow.written_bytes == fast.written_bytes == pytest.approx(part(fast, "storage") * 2e9)


def test_fsdp_writes_twelve_bytes_for_each_parameter() -> None:
    """Weights and both moments in float32, once over all ranks."""
    for launch in (FSDP1, FSDP2):
        assert isclose(saving(launch=launch).written_bytes, 12 * PARAMETERS, rel_tol=1e-6)
    alone = saving(f"{CONTENTS}=[model]")
    assert isclose(alone.written_bytes, 4 * PARAMETERS, rel_tol=1e-6)
    assert saving(f"{CONTENTS}=[extra]").written_bytes == 0


def test_the_whole_model_is_written_by_one_rank_while_the_others_wait() -> None:
    shards, whole = saving(), saving(f"{CONTENTS}=[model,optimizer,extra,hf_model]")
    assert isclose(whole.written_bytes - shards.written_bytes, 4 * PARAMETERS, rel_tol=1e-6)
    more = part(whole, "serializing") - part(shards, "serializing")
    assert more == pytest.approx(4 * PARAMETERS / assumptions.SERIALIZED_BYTES_PER_S, rel=1e-6)
    assert more > part(shards, "serializing")  # of an eighth of three times as much
    assert part(whole, "communication") > part(shards, "communication") == 0


def test_fsdp1_gathers_its_units_and_fsdp2_does_not() -> None:
    first, second = saving(launch=FSDP1), saving(launch=FSDP2)
    assert part(first, "communication") > 0 == part(second, "communication")
    assert part(first, "storage") == part(second, "storage")


def test_states_that_lie_on_the_host_are_not_copied_from_the_card() -> None:
    here, away = saving(), saving(f"{ACTOR}.fsdp_config.optimizer_offload=True")
    assert part(away, "host_copies") == pytest.approx(part(here, "host_copies") / 3)
    fetched = saving(f"{ACTOR}.fsdp_config.param_offload=True")
    assert fetched.waits.seconds > here.waits.seconds


def test_megatron_writes_in_two_processes_and_through_a_bridge_in_one() -> None:
    apart, joined = saving(NO_BRIDGE, launch=MEGATRON), saving(launch=MEGATRON)
    assert apart.written_bytes == joined.written_bytes
    assert part(joined, "serializing") > part(apart, "serializing")
    assert part(joined, "communication") > part(apart, "communication")


def test_training_goes_on_while_megatron_writes_in_the_background() -> None:
    background = f"{ACTOR}.checkpoint.async_save=True"
    waits, goes_on = (saving(NO_BRIDGE, *more, launch=MEGATRON) for more in ((), (background,)))
    assert waits.background_s == 0
    assert goes_on.background_s + goes_on.waits.seconds == pytest.approx(waits.waits.seconds)
    assert part(goes_on, "storage") == 0 < part(waits, "storage")
    assert saving(background) == saving()  # FSDP has no such way


def test_actor_and_critic_are_written_in_turn() -> None:
    both, one = saving(launch=PPO), saving("critic.enable=False", launch=PPO)
    assert both.waits.seconds == pytest.approx(2 * one.waits.seconds, rel=0.1)


def test_nodes_write_side_by_side() -> None:
    one, two = (
        saving_time(workload_of((*FSDP2, SAVED, f"trainer.nnodes={nodes}"), "0.9.1", nodes=nodes))
        for nodes in (1, 2)
    )
    assert one is not None and two is not None
    assert isclose(one.written_bytes, two.written_bytes, rel_tol=1e-6)
    assert part(two, "storage") == pytest.approx(part(one, "storage") / 2)


def test_it_is_spread_over_steps_and_no_part_of_one() -> None:
    saved = saving()
    assert saved.every_steps == 20
    assert saved.step_seconds == pytest.approx(saved.waits.seconds / 20)
    with_it, without = (
        step_time(workload_of((*FSDP2, *more), "0.9.1"), concurrent_sequences=64) for more in ((SAVED,), ())
    )
    assert with_it == without


def test_its_interval_is_wide_until_somebody_says_how_fast_the_storage_is() -> None:
    cluster = workload_of(FSDP2, "0.9.1").cluster
    assumed = phase_interval(saving().waits, cluster)
    told = phase_interval(
        saving(storage=assumptions.STORAGE_BYTES_PER_S).waits,
        replace(cluster, storage_bytes_per_s=assumptions.STORAGE_BYTES_PER_S),
    )
    assert assumed.seconds == told.seconds
    assert assumed.low_s < told.low_s < told.high_s < assumed.high_s
