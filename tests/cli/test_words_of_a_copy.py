"""A value is held against the words that the release, or the copy of verl that would run, knows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8"""
ESTIMATORS = """class AdvantageEstimator(str, Enum):
    GAE = "gae"
    GRPO = "grpo"
    HOUSE = "house_grpo"

class RayPPOTrainer:
    def __init__(self, config):
        if config.algorithm.adv_estimator in [AdvantageEstimator.GRPO, AdvantageEstimator.RLOO]:
            self.use_critic = False
        else:
            raise NotImplementedError
"""
LOSSES = """@register_policy_loss("house_loss")
def house_loss(): ...

def get_policy_loss_fn(name):
    raise ValueError(f"Unsupported loss mode: {name}")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl, whose code a test writes."""
    for name in (".git", "verl/trainer/ppo", "verl/experimental/reward_loop", "verl/workers/reward_manager"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl" / "__init__.py").touch()
    return tmp_path


def findings(script: Path, launch: str, release: str, code: str) -> list[dict[str, Any]]:
    script.write_text(f"{LAUNCH} {launch}")
    answer = run("advise", str(script), "--gpu", "h100-sxm", "--verl-version", release, "-f", "json")
    return [item for item in json.loads(answer.out)["findings"] if item["code"] == code]


def words(message: str) -> list[str]:
    return message.partition(" is none of ")[2].partition(":")[0].split(", ")


@pytest.mark.parametrize(
    ("release", "launch", "known", "unknown"),
    [
        ("0.3.0.post1", "algorithm.adv_estimator=hybrid", "rloo", "opo"),
        ("0.4.1", "algorithm.adv_estimator=hybrid", "opo", "gpg"),
        ("0.5.0", "algorithm.adv_estimator=hybrid", "gpg", "rloo_vectorized"),
        ("0.7.0", "algorithm.adv_estimator=hybrid", "rloo_vectorized", "gdpo"),
        ("0.7.1", "algorithm.adv_estimator=hybrid", "gdpo", ""),
        ("0.5.0", "actor_rollout_ref.actor.policy_loss.loss_mode=x", "gpg", "gspo"),
        ("0.6.1", "actor_rollout_ref.actor.policy_loss.loss_mode=x", "rollout_correction", "sapo"),
        ("0.7.0", "actor_rollout_ref.actor.policy_loss.loss_mode=x", "sapo", "rollout_correction"),
        ("0.8.0", "actor_rollout_ref.actor.policy_loss.loss_mode=x", "dppo_kl", "dro"),
        ("0.9.1", "actor_rollout_ref.actor.policy_loss.loss_mode=x", "dro", ""),
    ],
)
def test_the_words_are_those_of_the_release(
    tmp_path: Path, release: str, launch: str, known: str, unknown: str
) -> None:
    (finding,) = findings(tmp_path / "run.sh", launch, release, "CFG148")
    assert known in words(finding["message"])
    assert unknown not in words(finding["message"])


def test_an_estimator_of_a_later_release_is_refused(tmp_path: Path) -> None:
    """verl 0.3.0.post1 ``trainer/ppo/ray_trainer.py:288-291``."""
    (finding,) = findings(tmp_path / "run.sh", "algorithm.adv_estimator=opo", "0.3.0.post1", "CFG148")
    assert finding["severity"] == "error"


@pytest.mark.parametrize(
    ("launch", "listed"),
    [
        ("algorithm.adv_estimator=hybrid", ["gae", "grpo", "house_grpo"]),
        ("algorithm.adv_estimator=rloo", ["gae", "grpo", "house_grpo"]),  # which the release knows
        ("algorithm.adv_estimator=house_grpo", None),
        ("algorithm.adv_estimator=grpo", None),
    ],
)
def test_the_words_are_those_of_the_copy(repository: Path, launch: str, listed: list[str] | None) -> None:
    (repository / "verl" / "trainer" / "ppo" / "ray_trainer.py").write_text(ESTIMATORS)
    found = findings(repository / "run.sh", launch, "0.3.0.post1", "CFG148")
    assert [words(finding["message"]) for finding in found] == ([] if listed is None else [listed])
    assert all(finding["severity"] == "error" for finding in found)


@pytest.mark.parametrize(
    ("name", "severity", "override"),
    [
        ("egpo", "advice", ""),
        ("reinforce_plus_plus_multiturn_baseline", "advice", ""),
        ("gpro", "warning", "grpo"),
        ("REINFORCE-plus-plus", "warning", "reinforce_plus_plus"),
    ],
)
def test_an_estimator_of_ones_own_is_not_replaced(
    tmp_path: Path, name: str, severity: str, override: str
) -> None:
    launch = f"algorithm.adv_estimator={name}"
    (finding,) = findings(tmp_path / "run.sh", launch, "0.7.1", "CFG148")
    assert finding["severity"] == severity
    assert finding["overrides"] == ([f"algorithm.adv_estimator={override}"] if override else [])


def test_losses_that_the_copy_registers(repository: Path) -> None:
    (repository / "verl" / "trainer" / "ppo" / "core_algos.py").write_text(LOSSES)
    key = "algorithm.adv_estimator=grpo actor_rollout_ref.actor.policy_loss.loss_mode"
    (finding,) = findings(repository / "run.sh", f"{key}=other", "0.7.1", "CFG148")
    assert words(finding["message"]) == ["vanilla", "house_loss"]
    assert not findings(repository / "run.sh", f"{key}=house_loss", "0.7.1", "CFG148")


LOOP = """@register("naive")
class NaiveRewardManager(RewardManagerBase): ...

@register("house")
class HouseRewardManager(RewardManagerBase): ...

def get_reward_manager_cls(name):
    if name not in REWARD_MANAGER:
        raise ValueError(f"Unknown reward manager: {name}")
"""


@pytest.mark.parametrize(
    ("name", "severity"), [("prime", "error"), ("house", None), ("naive", None), ("other", "warning")]
)
def test_reward_managers_are_those_of_the_loop_of_the_copy(
    repository: Path, name: str, severity: str | None
) -> None:
    """verl 0.8.0 ``trainer/ppo/reward.py:95``; ``workers/reward_manager/prime.py:102`` is not asked."""
    (repository / "verl" / "experimental" / "reward_loop" / "registry.py").write_text(LOOP)
    older = repository / "verl" / "workers" / "reward_manager" / "prime.py"
    older.write_text('@register("prime")\nclass PrimeRewardManager(AbstractRewardManager): ...\n')
    launch = f"algorithm.adv_estimator=grpo reward.reward_manager.name={name}"
    found = findings(repository / "run.sh", launch, "0.8.0", "CFG194")
    assert [finding["severity"] for finding in found] == [severity] * (severity is not None)
    assert all(words(finding["message"]) == ["naive", "house"] for finding in found)


@pytest.mark.parametrize(("name", "severity"), [("naiv", "warning"), ("house", "advice")])
def test_a_name_like_none_of_a_release_is_its_authors_own(name: str, severity: str) -> None:
    """It is nobody's slip; a copy of the code, which would have it, does not lie beside the launch."""
    launch = f"python3 -m verl.trainer.main_ppo reward.reward_manager.name={name}"
    options = ("--verl-version", "0.8.0", "--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "h100-sxm")
    report = json.loads(run("check", "-", *options, "-f", "json", stdin=launch).out)
    found = [one["severity"] for one in report["findings"] if one["code"] == "CFG194"]
    assert found == [severity]


CHAIN = """def load(config):
    reward_manager_name = config.reward_model.get("reward_manager", "naive")
    if reward_manager_name == "naive":
        manager = 1
    elif reward_manager_name == "house":
        manager = 2
    else:
        {last}
"""


@pytest.mark.parametrize("file", ["main_ppo.py", "ppo/reward.py"])
@pytest.mark.parametrize(
    ("name", "last", "told"),
    [
        ("house", "raise NotImplementedError", False),
        ("other", "raise NotImplementedError", True),
        ("other", "manager = plugin(reward_manager_name)", False),
    ],
)
def test_an_older_copy_compares_the_names_of_reward_managers(
    repository: Path, file: str, name: str, last: str, told: bool
) -> None:
    """verl 0.3.0 ``trainer/main_ppo.py:144-153``, 0.4.0 ``trainer/ppo/reward.py:61-92``."""
    (repository / "verl" / "trainer" / file).write_text(CHAIN.format(last=last))
    launch = f"algorithm.adv_estimator=grpo reward_model.reward_manager={name}"
    listed = findings(repository / "run.sh", launch, "0.3.0.post1", "CFG194")
    assert [finding["severity"] for finding in listed] == ["error"] * told
    assert all(f"none of naive, house, and verl/trainer/{file}:3 raises" in one["message"] for one in listed)
