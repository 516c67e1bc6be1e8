"""The reference of the legacy workers shares sequences as the actor does, and is told the same number."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

JOB = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 "
    "data.max_prompt_length=1024 data.max_response_length=1000 trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.model.use_remove_padding=True "
    "actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192 "
)
ACTOR = "actor_rollout_ref.actor.ulysses_sequence_parallel_size"
REFERENCE = "actor_rollout_ref.ref.ulysses_sequence_parallel_size"
KL = " actor_rollout_ref.actor.use_kl_loss=True"


def overrides(folder: Path, code: str, more: str, version: str = "0.5.0") -> list[str]:
    """What the finding of a code sets."""
    (folder / "run.sh").write_text(f"{JOB}{more}\n")
    given = ("--gpu", "l40s", "--verl-version", version, "-f", "json")  # which exchanges slowly
    result = run("advise", str(folder / "run.sh"), *given)
    assert result.code == 0, result.err
    (finding,) = (one for one in json.loads(result.out)["findings"] if one["code"] == code)
    written: list[str] = finding["overrides"]
    return written


@pytest.mark.parametrize(("code", "size", "fewer"), [("SEQ003", 4, 1), ("CFG115", 8, 4)])
def test_the_key_of_the_reference_follows_where_it_is_set(
    tmp_path: Path, code: str, size: int, fewer: int
) -> None:
    """Its budget is multiplied by its own number: with another one than the actor's it is another budget."""
    both = f"{ACTOR}={size} {REFERENCE}={size}"
    assert overrides(tmp_path, code, both + KL) == [f"{ACTOR}={fewer}", f"{REFERENCE}={fewer}"]


@pytest.mark.parametrize(
    ("more", "version"),
    [(f"{ACTOR}=4{KL}", "0.5.0"), (f"{ACTOR}=4 {REFERENCE}=4", "0.5.0")],
    ids=["it follows by itself", "no reference"],
)
def test_it_is_left_alone_otherwise(tmp_path: Path, more: str, version: str) -> None:
    assert overrides(tmp_path, "SEQ003", more, version) == [f"{ACTOR}=1"]
