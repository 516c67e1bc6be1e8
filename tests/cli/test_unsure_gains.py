"""A change that is expected to bring enough, and may not, is named where nothing sure is to be pasted."""

from pathlib import Path

from tests.cli.runner import run

LAUNCH = (
    "algorithm.adv_estimator=grpo",
    *("data.train_batch_size=32", "data.max_prompt_length=30720", "data.max_response_length=10240"),
    *("actor_rollout_ref.model.path=Qwen/Qwen3-8B", "actor_rollout_ref.model.use_remove_padding=True"),
    *("actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.ppo_mini_batch_size=4"),
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size=8",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
    "actor_rollout_ref.ref.ulysses_sequence_parallel_size=8",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=43008",
    *("actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.mode=sync"),
    *("actor_rollout_ref.rollout.n=8", "actor_rollout_ref.rollout.tensor_model_parallel_size=8"),
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=43008",
    "actor_rollout_ref.rollout.max_num_batched_tokens=43008",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.30",
    *("trainer.n_gpus_per_node=8", "trainer.nnodes=1"),
)
OPTIONS = ("--verl-version", "0.6.1", "--engine-version", "0.17.0")


def said(eager: bool) -> str:
    command = ["python3", "-m", "verl.trainer.main_ppo", *LAUNCH]
    answer = run("advise", *command, f"actor_rollout_ref.rollout.enforce_eager={eager}", *OPTIONS)
    assert answer.code == 0, answer.err
    return " ".join(answer.out.split())


def test_graphs_that_may_cost_something_are_named_for_a_try() -> None:
    answer = said(eager=True)

    assert "Nothing to paste for sure: no line is certain to bring 3% of the step." in answer
    assert "To be tried: actor_rollout_ref.rollout.enforce_eager=False is expected to make" in answer


def test_they_are_named_beside_a_block_as_well(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("pip install liger-kernel\n")
    words = (*LAUNCH, "actor_rollout_ref.rollout.enforce_eager=True")
    (tmp_path / "run.sh").write_text(" ".join(("python3 -m verl.trainer.main_ppo", *words)))
    answer = " ".join(run("advise", str(tmp_path / "run.sh"), *OPTIONS).out.split())

    assert "Paste this" in answer
    assert "To be tried: actor_rollout_ref.rollout.enforce_eager=False is expected to make" in answer


def test_a_job_without_such_a_change_has_nothing_to_try() -> None:
    answer = said(eager=False)

    assert "Nothing to paste: no line would bring 3% of the step." in answer
    assert "To be tried" not in answer


TOO_LARGE = (
    *("algorithm.adv_estimator=grpo", "data.train_batch_size=16", "data.max_prompt_length=15000"),
    *("data.max_response_length=5000", "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"),
    *("actor_rollout_ref.actor.ppo_mini_batch_size=16", "actor_rollout_ref.actor.use_kl_loss=True"),
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    *("actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.tensor_model_parallel_size=1"),
    *("actor_rollout_ref.rollout.enforce_eager=True", "actor_rollout_ref.rollout.n=4"),
    *("trainer.n_gpus_per_node=4", "trainer.nnodes=1"),
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.8",
)


def test_they_are_named_on_top_of_a_block_that_makes_the_job_fit() -> None:
    command = ["python3", "-m", "verl.trainer.main_ppo", *TOO_LARGE]
    answer = " ".join(run("advise", *command, "--gpu", "h100-sxm", "--verl-version", "0.9.1").out.split())

    assert answer.startswith("DOES NOT FIT")
    assert "Paste this: FITS" in answer
    assert "To be tried: actor_rollout_ref.rollout.enforce_eager=False is expected to make" in answer
