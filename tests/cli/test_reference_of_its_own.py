"""A reference that is another model than the actor is priced as that one where the workers read its path."""

import json
from typing import Any

import pytest

from tests.cli.runner import run

LARGER = "+actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-32B-Instruct"
UNKNOWN = "+actor_rollout_ref.ref.model.path=/data/somebody/teacher"
JOB = (
    *(
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.actor.use_kl_loss=True",
        "data.train_batch_size=512",
    ),
    *("actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct", "actor_rollout_ref.rollout.name=vllm"),
    *("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2", "trainer.n_gpus_per_node=8"),
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
)


def advised(release: str, *words: str) -> dict[str, Any]:
    answer = run(
        *("advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", release, "-f", "json", "--"),
        *(*JOB, *words),
    )
    assert answer.out, answer.err
    return dict(json.loads(answer.out))


def of_phase(answer: dict[str, Any], name: str) -> tuple[int, float]:
    bytes_of = {phase["phase"]: phase["peak_bytes"] for phase in answer["memory"]["phases"]}
    seconds_of = {phase["phase"]: phase["seconds"] for phase in answer["time"]}
    return bytes_of[name], seconds_of[name]


@pytest.mark.parametrize("release", ["0.6.1", "0.7.1"])
def test_its_pass_is_that_of_the_model_that_it_is(release: str) -> None:
    same, other = advised(release), advised(release, LARGER)
    for had, has in zip(of_phase(same, "ref_log_prob"), of_phase(other, "ref_log_prob"), strict=True):
        assert has > 1.2 * had
    host = [answer["memory"]["host_bytes"] for answer in (same, other)]
    assert host[1] - host[0] > 50 * 2**30  # 32.8 billion weights, which verl leaves there between the passes
    assert of_phase(other, "update_actor")[1] == pytest.approx(of_phase(same, "update_actor")[1])
    assert "reference model" not in json.dumps(other["left_out"])


@pytest.mark.parametrize(("release", "words"), [("0.7.1", UNKNOWN), ("0.5.0", LARGER)])
def test_one_that_is_not_known_or_not_read_is_left_as_it_was(release: str, words: str) -> None:
    same, other = advised(release), advised(release, words)
    assert of_phase(other, "ref_log_prob") == of_phase(same, "ref_log_prob")
