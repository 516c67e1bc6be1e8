"""What is left out of a pass is in its upper end, where the most that it takes is known."""

import pytest

from tests.trainers.launches import ACTOR, DYNAMIC, MEGATRON, workload_of
from tests.workloads import grpo_7b
from tuner import memory
from tuner.batching import micro_batch_tokens
from tuner.memory import Item, PhaseEstimate
from tuner.timing.tokens import micro_batches_of
from tuner.workload import Backend, Checkpointing, Phase, Workload

_SELECTIVE = f"{ACTOR}.megatron.override_transformer_config.recompute_granularity=selective"
_MODULES = f"{ACTOR}.megatron.override_transformer_config.recompute_modules"


def phase(workload: Workload, which: Phase = Phase.UPDATE_ACTOR) -> PhaseEstimate:
    found = memory.estimate(workload).phase(which)
    assert found is not None
    return found


@pytest.mark.parametrize(("version", "update"), [("0.7.1", True), ("0.8.0", False), ("0.9.1", False)])
def test_the_sum_of_squares_has_its_copies_in_the_upper_end(version: str, update: bool) -> None:
    plain = workload_of(DYNAMIC, version)
    asked = workload_of((*DYNAMIC, f"{ACTOR}.calculate_sum_pi_squared=True"), version)
    for which, added in ((Phase.OLD_LOG_PROB, 2 + 8), (Phase.UPDATE_ACTOR, (2 + 12) if update else 0)):
        before, after = phase(plain, which), phase(asked, which)
        step_pass = plain.pass_of(which)
        assert step_pass is not None
        logits = micro_batch_tokens(plain.batch, step_pass) * plain.model.vocab
        assert after.peak_bytes == before.peak_bytes
        tops = zip(before.moments, after.moments, strict=True)
        assert max(late.interval[1] - early.interval[1] for early, late in tops) == added * logits
    reference = phase(asked, Phase.REF_LOG_PROB)
    assert reference.interval == phase(plain, Phase.REF_LOG_PROB).interval


@pytest.mark.parametrize(("backend", "gradients"), [(Backend.FSDP, 2 + 2 + 4), (Backend.FSDP2, 2 + 2 + 4)])
def test_units_of_the_users_are_one_for_the_whole_model_at_most(backend: Backend, gradients: int) -> None:
    layers = grpo_7b().with_actor_engine(backend=backend)
    whole = layers.with_actor_engine(wraps_otherwise=True)
    parameters = layers.model.parameters
    for which, bytes_each in ((Phase.OLD_LOG_PROB, 2), (Phase.UPDATE_ACTOR, 2 + gradients)):
        before, after = phase(layers, which), phase(whole, which)
        assert after.peak_bytes == before.peak_bytes
        assert after.interval[1] - before.interval[1] == bytes_each * parameters


@pytest.mark.parametrize(
    ("setting", "otherwise"),
    [
        ((), False),
        ((f"{ACTOR}.fsdp_config.wrap_policy.min_num_params=0",), False),
        ((f"{ACTOR}.fsdp_config.wrap_policy.min_num_params=100000000",), True),
        ((f"+{ACTOR}.fsdp_config.wrap_policy.disable=True",), True),
        ((f"+{ACTOR}.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap=[Layer]",), True),
    ],
)
def test_which_policies_make_other_units(setting: tuple[str, ...], otherwise: bool) -> None:
    assert workload_of((*DYNAMIC, *setting), "0.9.1").actor.engine.wraps_otherwise is otherwise


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ((_SELECTIVE,), False),
        ((_SELECTIVE, f"{_MODULES}=[core_attn]"), False),
        ((f"{_MODULES}=[mlp]",), False),  # nothing is recomputed
        ((_SELECTIVE, f"{_MODULES}=[core_attn,mlp]"), True),
    ],
)
def test_what_megatron_is_told_to_recompute(settings: tuple[str, ...], parts: bool) -> None:
    assert workload_of((*MEGATRON, *settings), "0.9.1").actor.engine.recomputes_parts is parts


def test_parts_that_are_recomputed_reach_a_pass_that_recomputes_nothing() -> None:
    core = workload_of((*MEGATRON, _SELECTIVE), "0.9.1")
    parts = workload_of((*MEGATRON, _SELECTIVE, f"{_MODULES}=[mlp]"), "0.9.1")
    nothing = core.with_actor_engine(checkpointing=Checkpointing.NONE)
    assert phase(parts).peak_bytes == phase(core).peak_bytes
    assert phase(parts).interval[1] == max(phase(core).interval[1], phase(nothing).interval[1])


def test_a_packed_micro_batch_is_padded_up_to_whole_buckets() -> None:
    """In bytes and in seconds; what is shared by ranks is padded before they share it."""
    plain = grpo_7b()
    padded = plain.with_actor_engine(bucket_tokens=10_000)
    assert micro_batch_tokens(plain.batch, plain.actor_update) == 16384
    assert micro_batch_tokens(padded.batch, padded.actor_update) == 20_000
    assert micro_batches_of(padded.batch, padded.actor_update).tokens % 10_000 == 0
    unpacked = padded.with_actor_engine(packed=False)
    assert micro_batch_tokens(unpacked.batch, unpacked.actor_update) % 4096 == 0
    held = sum(term.bytes for term in phase(padded).peak.terms if term.item is Item.LOGITS)
    assert held >= sum(term.bytes for term in phase(plain).peak.terms if term.item is Item.LOGITS)


@pytest.mark.parametrize("launch", [DYNAMIC, MEGATRON])
def test_the_engines_read_their_bucket(launch: tuple[str, ...]) -> None:
    section = f"{ACTOR}.megatron" if launch is MEGATRON else f"{ACTOR}.fsdp_config"
    on = (f"{section}.pad_to_length=True", f"{section}.pad_to_length_bucket=4096")
    assert workload_of((*launch, *on), "0.9.1").actor.engine.bucket_tokens == 4096
    assert workload_of((*launch, on[1]), "0.9.1").actor.engine.bucket_tokens == 1
