"""The table of batch sizes: each figure follows from the settings by the arithmetic that is shown."""

import json

import pytest
from msgspec.structs import replace

from tests.cli import answers
from tests.cli.runner import run
from tests.workloads import dynamic, fsdp_engine, grpo_7b, grpo_32b_megatron, ppo_7b, static
from tuner.render.batches import batch_rows, batch_table
from tuner.render.json import advice_json
from tuner.render.terminal import Terminal
from tuner.workload import Phase, Workload

JOBS = {"grpo": grpo_7b(), "ppo": ppo_7b(), "megatron": grpo_32b_megatron()}


def words(workload: Workload, *, width: int = 80) -> str:
    return " ".join(batch_table(workload, Terminal(width=width)).split())


def test_prompts_become_sequences_and_are_shared_by_ranks() -> None:
    job = grpo_7b().with_batch(prompts=512, responses_per_prompt=8, mini_batch_prompts=128, epochs=1)
    text = words(job)
    assert "step 512 prompts x 8 responses = 4,096 sequences" in text
    assert "mini-batch 128 prompts x 8 responses = 1,024 sequences, 4 optimizer steps" in text
    assert "rollout 4,096 sequences / 4 replicas = 1,024" in text
    assert "old_log_prob 4,096 / 8 = 512" in text
    assert "update_actor 4 x 1,024 / 8 = 128" in text


def test_ranks_that_share_a_sequence_are_one() -> None:
    job = grpo_7b().with_actor(engine=fsdp_engine(gpus=8, ulysses=4))
    update = batch_rows(job)[-1]
    assert (update.ranks, update.rank_sequences) == (2, update.sequences // 2)


def test_a_static_micro_batch_is_counted_in_sequences() -> None:
    update = batch_rows(grpo_7b().with_actor(update=static(4)))[-1]
    assert (update.micro_batch_sequences, update.micro_batch_tokens) == (4, None)
    assert update.micro_batches == update.most_micro_batches == 32
    assert "4 sequences 32" in words(grpo_7b().with_actor(update=static(4)))


def test_a_micro_batch_is_no_larger_than_what_a_rank_has() -> None:
    update = batch_rows(grpo_7b().with_actor(update=static(1_000)))[-1]
    assert (update.micro_batch_sequences, update.micro_batches) == (update.rank_sequences, 1)


def test_a_token_budget_has_more_micro_batches_the_longer_the_sequences() -> None:
    job = grpo_7b().with_actor(update=dynamic(16_384))
    update = batch_rows(job)[-1]
    longest = job.batch.sequence_tokens
    assert update.most_micro_batches == -(-update.rank_sequences * longest // 16_384)
    assert update.micro_batches < update.most_micro_batches
    assert "Micro-batches: with sequences of mean length" in words(job)


def test_the_ends_of_a_range_are_explained_only_where_there_is_one() -> None:
    job = grpo_7b()
    assert job.reference is not None
    fixed = job.with_actor(update=static(4), log_prob=static(4)).with_reference(log_prob=static(4))
    assert "Micro-batches:" not in words(fixed)


@pytest.mark.parametrize("name", JOBS)
def test_rows_are_the_passes_and_steps_are_those_of_training(name: str) -> None:
    job = JOBS[name]
    rows = batch_rows(job)
    assert [row.phase for row in rows] == [step_pass.phase for step_pass in job.passes()]
    for row, step_pass in zip(rows, job.passes(), strict=True):
        assert (row.optimizer_steps > 0) is step_pass.training
        share = max(1, row.optimizer_steps // job.batch.epochs)
        assert row.sequences * share >= job.batch.sequences
        assert row.sequences <= row.rank_sequences * row.ranks < row.sequences + row.ranks


def test_a_mini_batch_is_shared_rounded_down_and_the_rest_is_a_step_of_its_own() -> None:
    """As verl's workers do: 2 x 5 sequences on 2 ranks, ``5 // 2``, and a rank's 5 sequences cut by 2."""
    job = grpo_7b().with_actor(engine=fsdp_engine(gpus=2), update=static(1))
    job = job.with_batch(prompts=2, responses_per_prompt=5, mini_batch_prompts=1, epochs=1)
    update = batch_rows(job)[-1]
    assert (update.sequences, update.ranks, update.rank_sequences) == (5, 2, 2)
    assert update.optimizer_steps == 3
    assert "mini-batch 1 prompt x 5 responses = 5 sequences, 3 optimizer steps" in words(job)
    assert "update_actor 3 x 5 / 2 = 2" in words(job)


def test_epochs_repeat_the_optimizer_steps() -> None:
    once, twice = (batch_rows(grpo_7b().with_batch(epochs=epochs))[-1] for epochs in (1, 2))
    assert twice.optimizer_steps == 2 * once.optimizer_steps
    assert "4 optimizer steps in each of 2 epochs" in words(grpo_7b().with_batch(epochs=2))


def test_a_mini_batch_is_no_larger_than_the_step() -> None:
    job = grpo_7b().with_batch(mini_batch_prompts=100_000)
    update = batch_rows(job)[-1]
    assert (update.sequences, update.optimizer_steps) == (job.batch.sequences, 1)


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
@pytest.mark.parametrize("name", JOBS)
def test_lines_keep_to_the_width(name: str, width: int) -> None:
    text = batch_table(JOBS[name], Terminal(width=width, unicode=False))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= width


def test_a_narrow_screen_is_told_the_same() -> None:
    assert "update_actor: 4 x 1,024 / 8 = 128 per rank; micro-batches of 16,384 tokens" in words(
        grpo_7b(), width=40
    )


def test_the_json_report_has_the_rows() -> None:
    given = answers.advice()
    rows = json.loads(advice_json(answers.answer(replace(given, workload=ppo_7b()))))["batches"]
    assert [row["phase"] for row in rows] == [
        phase.value
        for phase in (
            Phase.OLD_LOG_PROB,
            Phase.REF_LOG_PROB,
            Phase.VALUES,
            Phase.UPDATE_CRITIC,
            Phase.UPDATE_ACTOR,
        )
    ]
    assert rows[-1]["sequences"] == 1_024
    assert rows[-1]["micro_batch_sequences"] is None


@pytest.mark.parametrize(
    ("aggregation", "effect"),
    [("seq-mean-token-mean", "reordered"), ("seq-mean-token-sum-norm", "reweighted")],
)
def test_a_larger_micro_batch_weighs_a_loss_that_is_added_up_in_it(aggregation: str, effect: str) -> None:
    answer = run(
        "advise",
        "/dev/null",
        *("--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json"),
        "algorithm.adv_estimator=grpo",
        "data.train_batch_size=256",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct",
        "actor_rollout_ref.model.use_remove_padding=True",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=8",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        f"actor_rollout_ref.actor.loss_agg_mode={aggregation}",
    )
    findings = json.loads(answer.out)["findings"]
    assert [item["numerics"] for item in findings if item["code"] == "BAT004"] == [effect]


@pytest.mark.parametrize("version", ["0.4.1", "0.7.1"])
def test_a_larger_micro_batch_divides_what_the_workers_round_a_mini_batch_down_to(version: str) -> None:
    """Of 64 sequences each of 3 ranks has ``64 // 3``, which a micro-batch of 11 or 22 would not divide."""
    answer = run(
        "advise",
        "/dev/null",
        *("--gpu", "a100-sxm-80g", "--verl-version", version, "-f", "json"),
        "data.train_batch_size=81",
        "data.max_prompt_length=256",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        "critic.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=6",
        "critic.ppo_micro_batch_size_per_gpu=1",
        "trainer.n_gpus_per_node=3",
    )
    report = json.loads(answer.out)
    updates = [row for row in report["batches"] if row["phase"].startswith("update")]
    assert [(row["rank_sequences"], row["optimizer_steps"]) for row in updates] == [(21, 2)] * 2
    written = [
        override.partition("=")[::2]
        for item in report["findings"]
        if item["code"] in ("BAT004", "BAT008")
        for override in item["overrides"]
    ]
    assert {key for key, _size in written} == {
        f"{section}.ppo_micro_batch_size_per_gpu" for section in ("actor_rollout_ref.actor", "critic")
    }
    assert all(21 % int(size) == 0 for _key, size in written), written
