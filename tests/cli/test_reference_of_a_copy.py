"""What a copy of verl learns from its reference is read from its code, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.use_kl_loss=True \\
    actor_rollout_ref.actor.kl_loss_coef=0 actor_rollout_ref.model.use_remove_padding=True \\
    trainer.n_gpus_per_node=8"""
TERM = """class DataParallelPPOActor:
    def update_policy(self, data):
        if self.config.use_kl_loss:
            select_keys.append("ref_log_prob")
"""
DISTILLS = """        if self.config.policy_loss.only_reverse_kl_advantages:
            advantages = -(old_log_prob - model_inputs["ref_log_prob"])
"""
PENALTY = """def compute_advantage(data):
    data.batch["advantages"] = data.batch["ref_log_prob"] - data.batch["old_log_probs"]
"""
SFT = """class FSDPSFTTrainer:
    def _build_model_optimizer(self):
        self.model = AutoModelForCausalLM.from_pretrained(self.config.model.partial_pretrain)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl, whose code a test writes."""
    for name in (".git", "verl/trainer/ppo", "verl/workers/actor", "verl/experimental"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl" / "trainer" / "main_ppo.py").write_text("config.ref.fsdp_config.param_offload\n")
    (tmp_path / "verl" / "workers" / "actor" / "dp_actor.py").write_text(TERM)
    return tmp_path


def advice(repository: Path, more: str = "") -> dict[str, Any]:
    (repository / "run.sh").write_text(LAUNCH + more)
    answer = run(
        "advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.6.1", "-f", "json"
    )
    assert answer.code == 0, answer.err
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def drops_reference(answer: dict[str, Any]) -> bool:
    return "ROL028" in {finding["code"] for finding in answer["findings"]}


@pytest.mark.parametrize(
    ("file", "code", "learns"),
    [
        ("workers/actor/dp_actor.py", TERM, False),
        ("workers/actor/dp_actor.py", TERM + DISTILLS, True),
        ("trainer/ppo/ray_trainer.py", PENALTY, True),
        ("trainer/ppo/ray_trainer.py", PENALTY.replace("compute_advantage", "apply_kl_penalty"), False),
    ],
)
def test_a_reference_that_the_copy_learns_from_without_a_kl_term_is_kept(
    repository: Path, file: str, code: str, learns: bool
) -> None:
    (repository / "verl" / file).write_text(code)

    assert drops_reference(advice(repository)) is not learns


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ("", False),
        (" +actor_rollout_ref.actor.policy_loss.distill=True", True),
        (" +actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-14B-Instruct", True),
        (" +actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-7B-Instruct", False),
    ],
)
def test_a_reference_that_may_be_a_teacher_is_kept(repository: Path, more: str, kept: bool) -> None:
    assert drops_reference(advice(repository, more)) is not kept


def test_a_model_of_the_reference_is_said_to_be_left_out_once(repository: Path) -> None:
    (repository / "verl" / "trainer" / "fsdp_sft_trainer.py").write_text(SFT)
    answer = advice(repository, " +actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-14B-Instruct")

    left_out = [part["key"] for part in answer["left_out"]]
    assert left_out.count("actor_rollout_ref.ref.model.path") == 1
    assert "added_models" not in json.dumps(answer["workload"]) or not answer["workload"]["added_models"]


def test_what_fine_tuning_loads_is_no_part_of_reinforcement_learning(repository: Path) -> None:
    (repository / "verl" / "trainer" / "fsdp_sft_trainer.py").write_text(SFT.replace("model", "judge"))

    assert not advice(repository, " +judge.path=Qwen/Qwen2.5-14B-Instruct")["left_out"]


DROPS = """def main_task(config):
    if config.actor_rollout_ref.actor.use_kl_loss == False and config.algorithm.kl_ctrl.kl_coef == 0.0:
        del role_worker_mapping[Role.RefPolicy]
"""
SPARES = """def fit(self):
    if not self.config.actor_rollout_ref.actor.use_kl_loss:
        batch = apply_kl_penalty(batch, kl_ctrl=self.kl_ctrl)
"""
ALWAYS = """def fit(self):
    batch = apply_kl_penalty(batch, kl_ctrl=self.kl_ctrl)
"""


@pytest.mark.parametrize(
    ("program", "trainer", "more", "drops"),
    [
        (DROPS, SPARES, "", True),
        (DROPS, SPARES, " actor_rollout_ref.actor.use_kl_loss=False", False),
        (DROPS, ALWAYS, "", False),
        ("config.ref.fsdp_config.param_offload\n", SPARES, "", False),
    ],
    ids=["dropped", "the rewards have the term", "and the loss", "as the release"],
)
def test_a_copy_of_an_old_release_does_without_a_reference_by_its_own_switches(
    repository: Path, program: str, trainer: str, more: str, drops: bool
) -> None:
    (repository / "verl" / "trainer" / "main_ppo.py").write_text(program)
    (repository / "verl" / "trainer" / "ppo" / "ray_trainer.py").write_text(trainer)
    (repository / "run.sh").write_text(LAUNCH + more)
    answer = run(
        *("advise", str(repository / "run.sh"), "--gpu", "h100-sxm"),
        *("--verl-version", "0.3.0.post1", "-f", "json"),
    )
    findings = {finding["code"]: finding for finding in json.loads(answer.out)["findings"]}
    assert ("ROL028" in findings) is drops
    if drops:
        switches = ["actor_rollout_ref.actor.use_kl_loss=False", "algorithm.kl_ctrl.kl_coef=0.0"]
        assert findings["ROL028"]["overrides"] == switches


@pytest.mark.parametrize(("size", "told"), [("14B", True), ("7B", False)])
def test_what_the_seconds_take_for_another_reference_is_said(repository: Path, size: str, told: bool) -> None:
    model = f" +actor_rollout_ref.ref.model.path=Qwen/Qwen2.5-{size}-Instruct"
    (repository / "run.sh").write_text(LAUNCH.replace("kl_loss_coef=0 ", "kl_loss_coef=0.01 ") + model)
    answer = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.6.1")
    assert answer.code == 0, answer.err
    text = "The seconds of the reference are those of a model as large as the actor's."
    assert (text in " ".join(answer.out.split())) is told
