"""What a checkpoint holds, release by release."""

import pytest

from tests.trainers.launches import ACTOR, DYNAMIC, MEGATRON, VERSIONS, workload_of
from tuner.timing.saving import saving_time
from tuner.versions import at_least
from tuner.workload import Saving

SAVED = "trainer.save_freq=20"


def saving_of(version: str, *more: str, launch: tuple[str, ...] = DYNAMIC) -> Saving | None:
    return workload_of((*launch, *more), version).actor.saving


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_saved_unless_it_is_asked_for(version: str) -> None:
    assert saving_of(version) is None
    assert saving_of(version, "trainer.save_freq=-1") is None
    assert saving_of(version, SAVED) == Saving(every_steps=20)


@pytest.mark.parametrize("version", [version for version in VERSIONS if at_least(version, "0.4.1")])
def test_what_is_saved(version: str) -> None:
    key = f"{ACTOR}.checkpoint.save_contents"
    whole = saving_of(version, SAVED, f"{key}=[model,optimizer,extra,hf_model]")
    assert whole == Saving(whole_model=True, every_steps=20)
    assert saving_of(version, SAVED, f"{key}=[hf_model]") == Saving(
        weights=False, optimizer=False, whole_model=True, every_steps=20
    )


@pytest.mark.parametrize(
    ("version", "gathers"), [("0.6.1", False), ("0.7.1", True), ("0.8.0", False), ("0.9.1", False)]
)
def test_only_0_7_1_gathers_megatrons_optimizer_of_its_own_accord(version: str, gathers: bool) -> None:
    saving = saving_of(version, SAVED, launch=MEGATRON)
    assert saving is not None
    assert saving.gathers_optimizer is gathers
    assert not saving.gathers_on_host


def test_megatrons_optimizer_may_be_gathered_by_way_of_the_host() -> None:
    key = f"{ACTOR}.megatron"
    more = (f"{key}.distrib_optim_fully_reshardable_mem_efficient=True",)
    saving = saving_of("0.7.1", SAVED, *more, launch=MEGATRON)
    assert saving is not None
    assert saving.gathers_optimizer and saving.gathers_on_host
    undivided = saving_of("0.7.1", SAVED, f"{key}.use_distributed_optimizer=False", launch=MEGATRON)
    assert undivided is not None and not undivided.gathers_optimizer


@pytest.mark.parametrize("version", ["0.7.1", "0.9.1"])
def test_the_critic_has_contents_of_its_own(version: str) -> None:
    critic = workload_of(
        (*DYNAMIC, "algorithm.adv_estimator=gae", SAVED, "critic.checkpoint.save_contents=[hf_model]"),
        version,
    ).critic
    assert critic is not None
    assert critic.saving == Saving(weights=False, optimizer=False, whole_model=True, every_steps=20)


@pytest.mark.parametrize(("version", "alone"), [("0.8.0", False), ("0.9.0", True), ("0.9.1", True)])
def test_the_weights_of_adapters_alone_are_written_where_that_is_asked_for(version: str, alone: bool) -> None:
    """verl 0.9.0 ``utils/checkpoint/fsdp_checkpoint_manager.py:322``; no release before has the key."""
    words = (*DYNAMIC, SAVED, "actor_rollout_ref.model.lora_rank=32")
    asked = workload_of((*words, f"+{ACTOR}.checkpoint.save_lora_only=True"), version)
    usual = workload_of(words, version)
    assert asked.actor.saving == Saving(every_steps=20, adapters_alone=alone)
    less, more = saving_time(asked), saving_time(usual)
    assert less is not None and more is not None
    assert (less.written_bytes < more.written_bytes / 4) is alone
    assert (less.waits.seconds < more.waits.seconds) is alone
