"""FlashAttention for PyTorch's: part of the block where flash-attn is there anyway, else a line apart."""

import pytest

from tests.cli.runner import run
from tuner.advise import Advice
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

MODEL = "actor_rollout_ref.model"
KEY = f"{MODEL}.override_config.attn_implementation"
FLASH = f"{KEY}=flash_attention_2"
JOB = [
    "algorithm.adv_estimator=grpo",
    f"{MODEL}.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=8",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=3072",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "trainer.n_gpus_per_node=8",
]


def advised(release: str, *more: str, gpu: str = "h100-sxm") -> Advice:
    words = [*JOB, f"+{KEY}=sdpa", *more]
    return consult("/dev/null", words, Premises(gpu=gpu, verl_version=release)).advice


@pytest.mark.parametrize("packed", [True, False])
def test_engine_workers_that_unpack_by_flash_attn_get_it_with_the_block(packed: bool) -> None:
    block = advised("0.8.0", f"{MODEL}.use_remove_padding={packed}").combination
    assert block is not None and FLASH in block.overrides and not block.packages


@pytest.mark.parametrize("release", ["0.7.1", "0.9.1"])
def test_where_nothing_else_needs_the_package_the_line_says_so(release: str) -> None:
    advice = advised(release, f"{MODEL}.use_remove_padding=False")
    codes = {item.finding.rule.code: item for item in advice.recommendations}
    assert codes["KRN010"].finding.rule.package == "flash-attn"
    assert codes["KRN010"].overrides == (FLASH,)


def test_cards_without_bfloat16_keep_what_they_have() -> None:
    assert all(
        item.finding.rule.code != "KRN010" for item in advised("0.8.0", gpu="v100-sxm2-32g").recommendations
    )


@pytest.mark.parametrize("release", ["0.7.1", "0.9.1"])
def test_packing_by_flash_attn_needs_it_where_the_job_asks_for_another_attention(release: str) -> None:
    advice = advised(release, f"{MODEL}.use_remove_padding=False")
    packing = next(item for item in advice.recommendations if item.finding.rule.code == "SEQ001")
    needs = release == "0.7.1"
    assert packing.finding.rule.package == ("flash-attn" if needs else "")
    block = () if advice.combination is None else advice.combination.overrides
    assert needs is (f"{MODEL}.use_remove_padding=True" not in block)


def test_packing_of_a_job_that_has_flash_attention_needs_no_word() -> None:
    words = [*JOB, f"{MODEL}.use_remove_padding=False"]
    advice = consult("/dev/null", words, Premises(gpu="h100-sxm", verl_version="0.7.1")).advice
    packing = next(item for item in advice.recommendations if item.finding.rule.code == "SEQ001")
    assert not packing.finding.rule.package


def test_packing_of_the_newest_release_is_no_part_of_the_block_where_an_older_one_may_run() -> None:
    words = [
        *JOB,
        "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096",  # since 0.7.1
        f"+{KEY}=sdpa",
        f"{MODEL}.use_remove_padding=False",
    ]
    advice = consult("/dev/null", words, Premises(gpu="h100-sxm")).advice
    block = () if advice.combination is None else advice.combination.overrides
    assert f"{MODEL}.use_remove_padding=True" not in block


def test_check_says_which_package_a_line_needs() -> None:
    words = [*JOB, f"+{KEY}=sdpa", f"{MODEL}.use_remove_padding=False"]
    given = ("--gpu", "h100-sxm", "--verl-version", "0.7.1")
    said = " ".join(run("check", "/dev/null", *given, "--", *words).out.split())
    assert "with flash-attn installed" in said
