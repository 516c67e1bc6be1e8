"""Nothing is proposed where a copy does otherwise in what a proposal rests on, and a line says so."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.code_of_keys.digest import digest, functions
from tuner.trainers.verl.code_of_keys.released import released
from tuner.trainers.verl.code_of_keys.rows import FUNCTIONS, ROWS
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

RELEASE = "0.4.1"
LAUNCH = """python3 -m {program} algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 data.max_response_length=1024 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 actor_rollout_ref.actor.use_kl_loss=False \\
    actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8 """
PROGRAM = "verl.trainer.main_ppo"
#: Names every key that a proposal may set, so that all of them count as read.
READS = "\n".join(f"config.{key}" for row in ROWS for key in row.keys)
UPDATE = """
    def update_policy(self, data):
        for micro_batch in data.split(self.config.ppo_micro_batch_size_per_gpu):
            if self.config.use_dynamic_bsz:
                rearrange_micro_batches(micro_batch, self.config.ppo_max_token_len_per_gpu, max_token_len)
            self._own_pass(micro_batch).backward()

    def _own_pass(self, micro_batch):
        return own_loss(self._forward_micro_batch(micro_batch))
"""
FORWARD = """
    def _forward_micro_batch(self, micro_batch):
        if self.use_remove_padding:
            micro_batch = unpad_input(micro_batch)
        return self.actor_module(micro_batch){}
"""
LOG_PROB = """
    def compute_log_prob(self, data):
        if data.meta_info["use_dynamic_bsz"]:
            data = rearrange_micro_batches(data, data.meta_info["max_token_len"])
        return [{}(part) for part in data.split(data.meta_info["micro_batch_size"])]
"""
USUAL = UPDATE + FORWARD.format("") + LOG_PROB.format("self._forward_micro_batch")
SIZE, LOG_SIZE = "ppo_micro_batch_size_per_gpu", "log_prob_micro_batch_size_per_gpu"
PACKED = "use_remove_padding"
SEVERAL = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8"
)
OWN_PROGRAM = "from recipe.own.actor import OwnActor\nfrom verl.trainer.main_ppo import run\n"
OWN = """class OwnActor(DataParallelPPOActor):
    def update_policy(self, data):
        for part in data:
            self.actor_module(part).backward()
        return super().update_policy(data)
"""


def advised(tmp_path: Path, actor: str, words: str = "", program: str = PROGRAM, form: str = "json") -> str:
    config, workers = tmp_path / "verl" / "trainer" / "config", tmp_path / "verl" / "workers" / "actor"
    for folder in (tmp_path / ".git", config, workers, tmp_path / "recipe" / "own"):
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text(READS)
    (workers / "dp_actor.py").write_text(f"class DataParallelPPOActor:\n{actor}")
    (tmp_path / "recipe" / "own" / "main.py").write_text(OWN_PROGRAM)
    (tmp_path / "recipe" / "own" / "actor.py").write_text(OWN)
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(dict(read_defaults(RELEASE, CONFIGS[0]).tree)))
    (tmp_path / "run.sh").write_text(LAUNCH.format(program=program) + words)
    given = ("--gpu", "h100-sxm", "--verl-version", RELEASE, "--mean-response-length", "200", "-f", form)
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    assert answer.out, answer.err
    return answer.out


def keys_of(answer: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The last words of the keys that are proposed, and of those that are withheld."""
    proposed = {text for finding in answer["findings"] for text in finding["overrides"]}
    withheld = {key for one in answer["withheld"] for key in one["keys"]}
    return {text.partition("=")[0].rpartition(".")[2] for text in proposed}, {
        key.rpartition(".")[2] for key in withheld
    }


@pytest.mark.parametrize(
    ("actor", "key", "stands"),
    [
        (USUAL, SIZE, True),
        (USUAL.replace("self._forward_micro_batch(micro_batch))", "own(micro_batch))"), SIZE, False),
        (USUAL.replace("micro_batch){}", "micro_batch)"), SIZE, True),
        (
            UPDATE + FORWARD.format(".log_softmax(-1)") + LOG_PROB.format("self._forward_micro_batch"),
            SIZE,
            False,
        ),
        (
            USUAL.replace("return own_loss(", "self._forward_micro_batch(micro_batch) * own_loss("),
            SIZE,
            False,
        ),
        (
            USUAL.replace("self.config.ppo_micro_batch_size_per_gpu", "fixed(ppo_micro_batch_size=8)"),
            SIZE,
            False,
        ),
        (USUAL, PACKED, True),
        (USUAL.replace("self.use_remove_padding", "True"), PACKED, False),
        (UPDATE + LOG_PROB.format("self._forward_micro_batch"), PACKED, False),
    ],
)
def test_a_changed_function_bears_what_it_still_does(
    tmp_path: Path, actor: str, key: str, stands: bool
) -> None:
    proposed, withheld = keys_of(json.loads(advised(tmp_path, actor, SEVERAL if key == PACKED else "")))
    assert ((key in proposed), (key in withheld)) == (stands, not stands)


BESIDE = """
    def distill(self, micro_batch):
        return {}(self._forward_micro_batch(micro_batch))
"""


@pytest.mark.parametrize(
    ("kept", "called", "stands"),
    [("own_loss", True, True), ("kl_divergence_of_topk", False, True), ("topk_kl_div", True, False)],
)
def test_a_pass_of_its_own_bears_a_size_unless_it_keeps_what_is_wide(
    tmp_path: Path, kept: str, called: bool, stands: bool
) -> None:
    actor = USUAL + BESIDE.format(kept)
    actor += "\n    def more(self, part):\n        return self.distill(part)\n" if called else ""
    proposed, withheld = keys_of(json.loads(advised(tmp_path, actor)))
    assert ((SIZE in proposed), (SIZE in withheld)) == (stands, not stands)


def test_a_line_says_what_is_withheld_and_where(tmp_path: Path) -> None:
    actor = USUAL.replace("self.use_remove_padding", "True")
    text = " ".join(advised(tmp_path, actor, SEVERAL, form="text").split())
    assert "Not proposed, since verl/workers/actor/dp_actor.py:" in text
    assert "(_forward_micro_batch) does otherwise than verl 0.4.1: actor_rollout_ref.model.use_rem" in text


@pytest.mark.parametrize(("program", "stands"), [(PROGRAM, True), ("recipe.own.main", False)])
def test_a_class_of_the_program_stands_for_what_it_builds_on(
    tmp_path: Path, program: str, stands: bool
) -> None:
    proposed, withheld = keys_of(json.loads(advised(tmp_path, USUAL, SEVERAL, program=program)))
    assert ((PACKED in proposed), (PACKED in withheld)) == (stands, not stands)


def test_what_is_only_said_makes_no_other_function() -> None:
    plain = "def one(self, part):\n    return part + 1"
    told = (
        'def one(self, part: int) -> int:\n    """Adds."""\n    print(part)\n    return part + 1  # one more'
    )
    (_, first), (_, second), (_, third) = (
        *functions(ast.parse(plain).body),
        *functions(ast.parse(told).body),
        *functions(ast.parse(plain.replace("1", "2")).body),
    )
    assert digest(first) == digest(second) != digest(third)


def test_every_word_stands_in_a_function_that_it_is_asked_of() -> None:
    assert set(released()) == {function.key for function in FUNCTIONS}
    said = {word for function in released().values() for word in function.words}
    groups = {group for row in ROWS for group in (*row.words, *row.in_loop)}
    assert [group for group in groups if said.isdisjoint(group.split("|"))] == []


def test_an_expression_too_deep_to_be_compared_is_no_error(tmp_path: Path) -> None:
    deep = USUAL.replace("own_loss(", f"own{'.a' * 940}(")
    proposed, _withheld = keys_of(json.loads(advised(tmp_path, deep)))
    assert SIZE in proposed
