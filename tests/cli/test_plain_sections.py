"""A plain value in place of a section: refused where its keys are read, told where nothing reads them."""

from typing import Any

import pytest

from tests.cli.runner import run

ROLE = "actor_rollout_ref"
SECTION = f"{ROLE}.rollout.engine_kwargs.sglang"
JOB = (
    "algorithm.adv_estimator=grpo data.train_batch_size=16 data.max_prompt_length=1024 "
    f"data.max_response_length=8192 {ROLE}.model.path=Qwen/Qwen2.5-7B-Instruct "
    f"{ROLE}.model.use_remove_padding=True {ROLE}.model.use_fused_kernels=True "
    f"{ROLE}.model.enable_gradient_checkpointing=True {ROLE}.actor.strategy=fsdp2 "
    f"{ROLE}.actor.ppo_mini_batch_size=16 {ROLE}.actor.use_dynamic_bsz=True "
    f"{ROLE}.actor.ppo_max_token_len_per_gpu=9216 {ROLE}.actor.ulysses_sequence_parallel_size=2 "
    f"{ROLE}.actor.fsdp_config.param_offload=True {ROLE}.actor.fsdp_config.optimizer_offload=True "
    f"{ROLE}.rollout.name=sglang {ROLE}.rollout.tensor_model_parallel_size=1 {ROLE}.rollout.n=8 "
    f"{ROLE}.rollout.gpu_memory_utilization=0.6 {ROLE}.rollout.max_num_batched_tokens=9216 "
    f"{ROLE}.rollout.log_prob_use_dynamic_bsz=True {ROLE}.rollout.log_prob_max_token_len_per_gpu=9216 "
    "trainer.n_gpus_per_node=2 trainer.nnodes=1"
).split()


def answer(command: str, *more: str, version: str) -> Any:
    return run(command, "/dev/null", *JOB, *more, "--verl-version", version, "--gpu", "h100-sxm")


@pytest.mark.parametrize(
    ("version", "more", "refused", "told"),
    [
        ("0.5.0", (f"{SECTION}=flashinfer",), False, True),
        ("0.5.0", (f"{SECTION}=flashinfer", f"{SECTION}={{}}"), False, False),
        ("0.6.1", (f"{SECTION}=flashinfer",), True, False),
        ("0.6.1", (f"{SECTION}=flashinfer", f"~{SECTION}"), False, False),
        ("0.5.0", (f"{ROLE}.rollout.val_kwargs=greedy",), True, False),
    ],
)
def test_a_value_for_a_section_is_refused_where_something_reads_its_keys(
    version: str, more: tuple[str, ...], refused: bool, told: bool
) -> None:
    """verl 0.5.0 names engine_kwargs nowhere in its rollout on SGLang, 0.6.1 takes the section's items."""
    result = answer("check", *more, version=version)

    assert ("is a section, not a value" in result.err) is refused
    assert ("CFG195" in result.out) is told


@pytest.mark.parametrize(("version", "lives"), [("0.5.0", False), ("0.9.1", True)])
def test_the_budget_of_sglang_is_offered_where_it_is_handed_on(version: str, lives: bool) -> None:
    result = answer("check", version=version)

    assert "CFG133" in result.out
    assert (f"{SECTION}.chunked_prefill_size=9216" in result.out) is lives


def test_keys_that_an_engine_is_not_given_are_told_in_one_line() -> None:
    told = answer("advise", f"{SECTION}=flashinfer", version="0.5.0").out.replace("\n  ", " ")

    assert f"2 keys do nothing here: {ROLE}.rollout.max_num_batched_tokens, {SECTION}" in told


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1"])
def test_a_block_that_may_weigh_tokens_otherwise_is_called_shorter_where_it_is(version: str) -> None:
    """The one that makes room by AdamW on the host, with one thread, takes longer."""
    on_card = [f"{ROLE}.actor.fsdp_config.{it}_offload=False" for it in ("param", "optimizer")]
    little = ("--least-gain", "0.01", "--verl-version", version, "--gpu", "h200-sxm")
    roomy = run("advise", "/dev/null", *JOB, *on_card, *little)
    tight = answer("advise", version=version)

    shorter = "With --allow reweighted a block makes the step shorter"
    assert shorter in roomy.out.replace("\n  ", " ")
    assert shorter not in tight.out.replace("\n  ", " ")


@pytest.mark.parametrize(
    ("version", "more", "said"),
    [
        ("0.5.0", (), False),  # GPUs share sequences: CFG166 has its override
        ("0.5.0", (f"{ROLE}.actor.ulysses_sequence_parallel_size=1",), True),
        ("0.6.1", (f"{ROLE}.actor.ulysses_sequence_parallel_size=1",), False),  # one update a step
        (
            "0.6.1",
            (f"{ROLE}.actor.ulysses_sequence_parallel_size=1", f"{ROLE}.actor.ppo_mini_batch_size=8"),
            True,
        ),
        (
            "0.6.1",
            (f"{ROLE}.actor.ulysses_sequence_parallel_size=1", f"{ROLE}.actor.use_kl_loss=True"),
            True,
        ),
    ],
)
def test_rounded_log_probabilities_are_told_where_something_is_made_of_them(
    version: str, more: tuple[str, ...], said: bool
) -> None:
    assert ("CFG169" in answer("check", *more, version=version).out) is said
