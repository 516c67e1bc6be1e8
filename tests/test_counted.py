"""Nouns that are counted: one is singular, wherever a sentence counts it."""

import re

import pytest

from tests.cli.runner import run
from tuner.counted import agreeing, counted

_NOUNS = (
    "ranks|replicas|GPUs|sequences|prompts|responses|layers|nodes|tokens|heads|steps|copies|times|cases|files"
)
WRONG = re.compile(rf"(?<![\w.,])1 (?:longest |optimizer |data-parallel |key-value )?(?:{_NOUNS})\b")

_ONE_GPU = (
    "trainer.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.n=1",
)
_JOBS = {
    "one of everything": (
        *_ONE_GPU,
        "data.train_batch_size=1",
        "actor_rollout_ref.actor.ppo_mini_batch_size=1",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    ),
    "one GPU": (*_ONE_GPU, "actor_rollout_ref.rollout.gpu_memory_utilization=0.2"),
    "one rank to a copy": (
        "trainer.n_gpus_per_node=8",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-14B-Instruct",
        "actor_rollout_ref.actor.fsdp_config.fsdp_size=1",
    ),
    "one replica": ("trainer.n_gpus_per_node=8", "actor_rollout_ref.rollout.tensor_model_parallel_size=8"),
    "one sequence at a time": ("trainer.n_gpus_per_node=8", "actor_rollout_ref.rollout.max_num_seqs=1"),
    "one sequence to a micro-batch": (
        "trainer.n_gpus_per_node=8",
        "actor_rollout_ref.model.use_remove_padding=True",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
    ),
}


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1 rank"), (1.0, "1 rank"), (0, "0 ranks"), (2.5, "2.5 ranks")]
)
def test_a_number_comes_with_its_noun(number: float, text: str) -> None:
    assert counted(number, "rank") == text


def test_forms_that_take_no_s_are_named() -> None:
    assert counted(16_384, "copy", "copies") == "16,384 copies" and counted(1, "copy", "copies") == "1 copy"
    assert (agreeing(1, "fits", "fit"), agreeing(2, "fits", "fit")) == ("fits", "fit")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("overrides", _JOBS.values(), ids=_JOBS)
def test_no_answer_says_one_of_several(overrides: tuple[str, ...]) -> None:
    result = run(
        "advise", "docs/examples/qwen2.5-7b-grpo.yaml", "--gpu", "h100-sxm", "--full", "--", *overrides
    )
    assert result.code == 0, result.err
    assert WRONG.findall(" ".join(result.out.split())) == []
