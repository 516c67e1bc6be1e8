from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.trainers.launches import ACTOR, DYNAMIC, ROLLOUT, by_release, workload_of
from tuner.batching import micro_batch_tokens, most_micro_batch_tokens, overshoot
from tuner.workload import GreedyBaseline, Travel


def fullest(budget: int, length: int, sequences: int) -> int:
    """The releases' own arithmetic for equally long sequences, balanced by whole sequences."""
    micro_batches = min(sequences, ceil(sequences * length / budget))
    return ceil(sequences / micro_batches) * length


@given(
    longest=st.integers(1, 4096),
    multiple=st.floats(1.0, 6.0),
    sequences=st.integers(1, 200),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_no_equally_long_sequences_exceed_the_bound(
    longest: int, multiple: float, sequences: int, data: st.DataObject
) -> None:
    budget = int(longest * multiple)
    length = data.draw(st.integers(1, longest))
    held = data.draw(st.integers(1, sequences))
    bound = overshoot(budget, longest, sequences) * budget
    assert fullest(budget, length, held) <= max(budget, bound) + 1e-6 * budget


@pytest.mark.parametrize(
    ("multiple", "measured"),  # verl's own function on 64 sequences of almost the longest length
    [(1.0, 1.81), (1.5, 1.25), (2.0, 1.38), (3.0, 1.24)],
)
def test_the_bound_covers_what_was_simulated(multiple: float, measured: float) -> None:
    bound = overshoot(int(4096 * multiple), 4096, 64)
    assert measured <= bound <= 2.0


def test_the_bound_is_reached() -> None:
    budget, longest, sequences = 8192, 4096, 64
    worst = max(fullest(budget, length, sequences) for length in range(1, longest + 1))
    assert worst / budget == pytest.approx(overshoot(budget, longest, sequences), rel=0.02)


def test_a_budget_that_holds_everything_is_not_exceeded() -> None:
    assert overshoot(40960, 4096, 8) == 1.0
    assert overshoot(8192, 4096, 1) == 1.0


@pytest.mark.parametrize(
    ("mean_response", "expected"),
    [
        (None, 23_783),  # nobody says: 31 sequences of 7,928 tokens in 15 micro-batches, three in one of them
        (400, 17_984),  # 32 of 4,496 make ceil(8.8) micro-batches, of which the fullest has four
        (2904, 21_000),  # 32 of 7,000 make 14, and three are in the fullest
    ],
)
def test_known_lengths_say_how_far_a_budget_is_exceeded(mean_response: int | None, expected: int) -> None:
    """The worst lengths stay the upper end."""
    overrides = (
        *DYNAMIC,
        f"{ACTOR}.ppo_max_token_len_per_gpu=16384",
        f"{ACTOR}.ppo_mini_batch_size=32",
        f"{ROLLOUT}.n=8",
        "data.train_batch_size=32",
        "data.max_prompt_length=4096",
        "data.max_response_length=4096",
        "trainer.n_gpus_per_node=8",
    )
    workload = workload_of(overrides, "0.8.0")
    lengths = replace(workload.batch.lengths, mean_prompt=4096, mean_response=mean_response)
    batch = replace(workload.batch, lengths=lengths)
    assert micro_batch_tokens(batch, workload.actor_update) == expected
    assert most_micro_batch_tokens(batch, workload.actor_update) == 23_783


@pytest.mark.parametrize(("version", "keeps"), by_release(False, ("0.9.1", True)))
def test_which_releases_keep_to_the_budget(version: str, keeps: bool) -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.ppo_max_token_len_per_gpu=8192"), version)
    tokens = micro_batch_tokens(workload.batch, workload.actor_update)
    assert (tokens == 8192) is keeps
    assert 8192 <= tokens <= 2 * 8192


@pytest.mark.parametrize(("version", "hard"), by_release(False, ("0.9.1", True)))
def test_which_releases_hold_the_budget(version: str, hard: bool) -> None:
    assert workload_of(DYNAMIC, version).actor.update.batching.hard_limit is hard


def test_prompts_of_the_streaming_recipe() -> None:
    recipe = ("data.train_batch_size=0", "+rollout.nnodes=1", "+rollout.n_gpus_per_node=8")
    streamed = (
        *DYNAMIC,
        *recipe,
        "actor_rollout_ref.hybrid_engine=False",
        "+async_training.require_batches=4",
    )
    assert workload_of(streamed, "0.7.1").batch.prompts == 4 * 128
    assert workload_of(streamed, "0.7.1").rollout.gpus == 8


def test_mode_does_not_matter_to_batching() -> None:
    sync, served = (workload_of((*DYNAMIC, f"{ROLLOUT}.mode={mode}"), "0.6.1") for mode in ("sync", "async"))
    assert sync.actor == served.actor


@pytest.mark.parametrize(
    ("version", "switches", "travel"),
    [
        ("0.5.0", (), Travel.PADDED),
        ("0.7.1", (), Travel.PADDED),
        ("0.7.1", ("trainer.use_legacy_worker_impl=disable",), Travel.PACKED),
        ("0.8.0", (), Travel.PACKED),
        ("0.9.1", ("trainer.use_v1=False",), Travel.PACKED),
        ("0.9.1", ("trainer.use_v1=True",), Travel.STORED),
    ],
)
def test_how_the_batch_reaches_the_workers(version: str, switches: tuple[str, ...], travel: Travel) -> None:
    assert workload_of((*DYNAMIC, *switches), version).batch.travel is travel


@pytest.mark.parametrize(
    ("aggregation", "version", "weighs"),
    [
        ("token-mean", "0.6.1", True),
        ("seq-mean-token-mean", "0.6.1", False),
        ("seq-mean-token-sum-norm", "0.4.0", True),
        ("seq-mean-token-sum-norm", "0.7.0", True),
        ("seq-mean-token-sum-norm", "0.7.1", False),
        ("seq-mean-token-sum-norm", "0.9.1", False),
    ],
)
def test_where_the_cut_into_micro_batches_weighs_the_loss(
    aggregation: str, version: str, weighs: bool
) -> None:
    workload = workload_of((*DYNAMIC, f"{ACTOR}.loss_agg_mode={aggregation}"), version)
    assert workload.batch.loss_averages_micro_batches is weighs


@pytest.mark.parametrize(
    ("loss", "version", "weighs"),
    [("geo_mean", "0.8.0", True), ("geo_mean", "0.9.1", True), ("gspo", "0.9.1", False)],
)
def test_a_loss_of_one_micro_batch_is_weighed_by_the_cut(loss: str, version: str, weighs: bool) -> None:
    """The model engine adds up what ``torch.mean(pg_losses)`` makes of each micro-batch."""
    workload = workload_of((*DYNAMIC, f"{ACTOR}.policy_loss.loss_mode={loss}"), version)
    assert workload.batch.loss_averages_micro_batches is weighs


@pytest.mark.parametrize(
    ("losses", "weighs"),
    [
        ((), False),
        (("moe_z_loss_coeff=0.001",), True),
        (("moe_z_loss_coeff=0",), False),
        (("moe_aux_loss_coeff=0.01",), False),  # verl switches the balancing loss off
        (("moe_router_load_balancing_type=aux_loss",), True),
        (("moe_router_load_balancing_type=aux_loss", "moe_aux_loss_coeff=0"), False),
    ],
)
def test_losses_of_the_router_weigh_tokens_by_their_micro_batch(
    losses: tuple[str, ...], weighs: bool
) -> None:
    """Megatron moe_utils.py, z_loss_func: a mean over the tokens that the router is given at once."""
    section = f"+{ACTOR}.megatron.override_transformer_config"
    settings = ("model_engine=megatron", *(f"{section}.{loss}" for loss in losses))
    workload = workload_of((*DYNAMIC, *settings), "0.8.0")
    assert workload.batch.loss_averages_micro_batches is weighs


@pytest.mark.parametrize(
    ("version", "way"),
    [
        ("0.4.1", GreedyBaseline.AFTER_NEW_WEIGHTS),
        ("0.7.0", GreedyBaseline.AFTER_NEW_WEIGHTS),
        ("0.7.1", GreedyBaseline.AFTER),
        ("0.8.0", GreedyBaseline.BESIDE),
        ("0.9.1", GreedyBaseline.BESIDE),
    ],
)
def test_how_remax_generates_its_greedy_responses(version: str, way: GreedyBaseline) -> None:
    v1 = ("trainer.use_v1=False",) if version == "0.9.1" else ()
    batch = workload_of((*DYNAMIC, "algorithm.adv_estimator=remax", *v1), version).batch
    assert batch.greedy_baseline is way
    assert batch.generated_sequences == batch.sequences + batch.prompts
    assert workload_of((*DYNAMIC, *v1), version).batch.greedy_baseline is None
