"""The masks of attention that pairs all tokens of a row."""

import pytest

from tests import workloads
from tests.trainers.launches import ACTOR, DYNAMIC, MODEL, STATIC, workload_of
from tuner import batching, memory
from tuner.timing.estimate import step_time
from tuner.workload import Attention, Checkpointing, Phase, Workload

_ASKED = f"+{MODEL}.override_config.attn_implementation=sdpa"


def masks(workload: Workload, phase: Phase) -> dict[str, int]:
    """The largest of each mask in the moments of a phase, by name."""
    estimate = memory.estimate(workload).phase(phase)
    assert estimate is not None
    names = ("row_mask", "working_mask", "saved_masks", "probabilities", "working_scores", "score_gradients")
    terms = [term for moment in estimate.moments for term in moment.terms if term.name in names]
    return {name: max(term.bytes for term in terms if term.name == name) for name in {t.name for t in terms}}


def masked(workload: Workload) -> Workload:
    return workload.with_actor_engine(attention=Attention.MASKED_ROWS)


def test_a_packed_micro_batch_is_one_row() -> None:
    job = masked(workloads.grpo_7b())
    pairs = batching.micro_batch_tokens(job.batch, job.actor_update) ** 2
    assert masks(job, Phase.UPDATE_ACTOR) == {"row_mask": pairs, "saved_masks": 2 * pairs}
    (log_prob,) = (one for one in job.passes() if one.phase is Phase.OLD_LOG_PROB)
    pairs = batching.micro_batch_tokens(job.batch, log_prob) ** 2
    assert masks(job, Phase.OLD_LOG_PROB) == {"row_mask": pairs, "working_mask": 4 * pairs}


def test_layers_that_are_not_computed_again_keep_a_mask_each() -> None:
    job = masked(workloads.grpo_7b()).with_actor_engine(checkpointing=Checkpointing.NONE)
    pairs = batching.micro_batch_tokens(job.batch, job.actor_update) ** 2
    assert masks(job, Phase.UPDATE_ACTOR) == {"saved_masks": 2 * pairs * job.model.layers}


@pytest.mark.parametrize("checkpointing", [Checkpointing.FULL, Checkpointing.NONE])
def test_eager_attention_keeps_the_probabilities_of_every_head(checkpointing: Checkpointing) -> None:
    """By hand: softmax in float32 and its bfloat16 cast, 6 bytes; two float32 gradients; a mask."""
    job = workloads.grpo_7b().with_actor_engine(attention=Attention.EAGER_ROWS, checkpointing=checkpointing)
    pairs = batching.micro_batch_tokens(job.batch, job.actor_update) ** 2
    of_heads, layers = pairs * job.model.heads, job.model.layers if checkpointing is Checkpointing.NONE else 1
    assert masks(job, Phase.UPDATE_ACTOR) == {
        "row_mask": 2 * pairs,
        "probabilities": 6 * of_heads * layers,
        "score_gradients": 8 * of_heads,
    }
    (log_prob,) = (one for one in job.passes() if one.phase is Phase.OLD_LOG_PROB)
    pairs = batching.micro_batch_tokens(job.batch, log_prob) ** 2
    scores = 10 * pairs * job.model.heads
    assert masks(job, Phase.OLD_LOG_PROB) == {"row_mask": 2 * pairs, "working_scores": scores}


def test_a_key_that_asks_for_eager_attention_is_read_and_slower() -> None:
    eager = f"+{MODEL}.override_config.attn_implementation=eager"
    padded = (*STATIC, f"{MODEL}.use_remove_padding=False")
    job = workload_of((*padded, eager), "0.7.1")
    assert job.actor.engine.attention is Attention.EAGER_ROWS and job.actor.engine.attention_settable
    assert step_time(job).seconds > step_time(workload_of((*padded, _ASKED), "0.7.1")).seconds


def test_flash_attention_has_none() -> None:
    assert not masks(workloads.grpo_7b(), Phase.UPDATE_ACTOR)


@pytest.mark.parametrize("version", ["0.6.1", "0.7.1", "0.8.0", "0.9.1"])
def test_every_release_since_0_6_1_reads_the_key(version: str) -> None:
    engine = workload_of((*DYNAMIC, _ASKED), version).actor.engine
    assert engine.attention is Attention.MASKED_ROWS and not engine.reads_positions
    assert workload_of(DYNAMIC, version).actor.engine.attention is Attention.SEQUENCES
    shared = (*DYNAMIC, _ASKED, f"{ACTOR}.ulysses_sequence_parallel_size=2")
    assert workload_of(shared, version).actor.engine.attention is Attention.SEQUENCES


def test_releases_before_ask_for_flash_attention_whatever_is_set() -> None:
    assert workload_of((*DYNAMIC, _ASKED), "0.6.0").actor.engine.attention is Attention.SEQUENCES


def test_a_padded_sequence_is_a_row_by_itself() -> None:
    job = workload_of((*STATIC, f"{MODEL}.use_remove_padding=False", _ASKED), "0.7.1")
    tokens = batching.micro_batch_tokens(job.batch, job.actor_update)
    assert masks(job, Phase.UPDATE_ACTOR)["row_mask"] == tokens * job.batch.sequence_tokens


def test_a_causal_row_that_reaches_an_idle_window_has_a_mask_of_numbers() -> None:
    job = workloads.grpo_7b().with_actor_engine(attention=Attention.CAUSAL_ROWS)
    pairs = batching.micro_batch_tokens(job.batch, job.actor_update) ** 2
    assert not masks(job, Phase.UPDATE_ACTOR)
    assert not masks(job.with_actor_engine(dense_rows=10**6), Phase.UPDATE_ACTOR)
    dense = job.with_actor_engine(dense_rows=1024)
    assert masks(dense, Phase.UPDATE_ACTOR) == {"row_mask": 2 * pairs, "saved_masks": 2 * pairs}


@pytest.mark.parametrize(
    ("version", "sequences", "bare"), [("0.9.1", 1, True), ("0.9.1", 2, False), ("0.8.0", 1, False)]
)
def test_a_packed_row_of_one_sequence_has_none_under_transformers_5(
    version: str, sequences: int, bare: bool
) -> None:
    one = (*STATIC, f"{MODEL}.use_remove_padding=True", f"{ACTOR}.ppo_micro_batch_size_per_gpu={sequences}")
    asked, flash = workload_of((*one, _ASKED), version), workload_of(one, version)
    assert asked.actor.engine.attention is Attention.MASKED_ROWS
    assert (not masks(asked, Phase.UPDATE_ACTOR)) is bare
    of_torch, of_flash = (step_time(job).phase(Phase.UPDATE_ACTOR) for job in (asked, flash))
    assert of_torch is not None and of_flash is not None
    assert (of_torch.seconds <= 1.02 * of_flash.seconds) is bare
