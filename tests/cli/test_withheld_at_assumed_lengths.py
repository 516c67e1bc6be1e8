"""A line that pays at the assumed lengths alone is not pasted, and the answer says what it would bring."""

from tests.cli.runner import run

ROLE = "actor_rollout_ref"
GIVEN = ("--gpu", "h100-sxm", "--verl-version", "0.4.1", "--model", "Qwen2.5-14B-Instruct")
JOB = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=60",
    "data.max_prompt_length=4096",
    "data.max_response_length=4096",
    f"{ROLE}.model.use_remove_padding=True",
    f"{ROLE}.model.enable_gradient_checkpointing=True",
    f"{ROLE}.actor.ppo_mini_batch_size=60",
    f"{ROLE}.actor.use_dynamic_bsz=True",
    f"{ROLE}.rollout.name=vllm",
    f"{ROLE}.rollout.n=8",
    f"{ROLE}.rollout.tensor_model_parallel_size=1",
    f"{ROLE}.rollout.gpu_memory_utilization=0.6",
    "trainer.n_gpus_per_node=8",
)


def shown(*options: str, more: tuple[str, ...] = ()) -> str:
    return " ".join(run("advise", "/dev/null", *GIVEN, *options, "--", *JOB, *more).out.split())


def test_the_answer_says_what_is_withheld_and_which_option_decides() -> None:
    text = shown()
    assert "Paste this" not in text
    assert "no line would bring" not in text
    said = text[text.index("Withheld because nobody gives the lengths") :]
    share = int(said.partition("one more change brings ")[2].partition("%")[0])
    assert share >= 3
    assert "give --mean-response-length." in said


def test_with_the_assumed_length_given_there_is_a_block() -> None:
    text = shown("--mean-response-length", "2048")
    assert "Paste this" in text
    assert "Nothing to paste" not in text


def test_nothing_is_said_of_it_where_the_length_is_given() -> None:
    text = shown("--mean-response-length", "256")
    assert "as assumed, one change" not in text


def test_it_is_said_beside_a_block_too() -> None:
    padded = (f"{ROLE}.model.use_remove_padding=False",)
    text = shown(more=padded)
    assert "Paste this" in text
    assert "Nothing to paste" not in text
    said = text[text.index("Withheld because nobody gives the lengths") :]
    share = int(said.partition("one more change brings ")[2].partition("%")[0])
    assert share >= 3
    assert "Withheld because" not in shown("--mean-response-length", "256", more=padded)
