"""On which GPUs a copy of verl puts its models is read from its own program, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_split algorithm.adv_estimator=gae \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct critic.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True \\
    critic.use_dynamic_bsz=True actor_rollout_ref.actor.use_kl_loss=True trainer.n_gpus_per_node=8 """
MAIN = """import ray
from verl.trainer.ppo.ray_trainer import RayPPOTrainer, ResourcePoolManager, Role
from verl.workers.fsdp_workers import ActorRolloutRefWorker, CriticWorker

def main(config):
    ray.get(main_task.remote(config))

@ray.remote
def main_task(config):
    role_worker_mapping = {
        Role.ActorRollout: ray.remote(ActorRolloutRefWorker),
        Role.Critic: ray.remote(CriticWorker),
        Role.RefPolicy: ray.remote(ActorRolloutRefWorker),
    }
    pool = "policy_pool"
    POOLS
    trainer = RayPPOTrainer(config, role_worker_mapping, ResourcePoolManager(SPEC, mapping=mapping))
    trainer.init_workers()
    trainer.fit()
"""
TRAINER = """class RayPPOTrainer:
    def __init__(self, config, role_worker_mapping, resource_pool_manager):
        self.config = config
        self.role_worker_mapping = role_worker_mapping
        self.use_reference_policy = Role.RefPolicy in role_worker_mapping
        self.use_critic = True
        self.use_rm = False

    def init_workers(self):
        workers = self.role_worker_mapping
        actor = RayClassWithInitArgs(cls=workers[Role.ActorRollout], config=self.config.actor_rollout_ref)
        critic = RayClassWithInitArgs(cls=workers[Role.Critic], config=self.config.critic)
        ref = RayClassWithInitArgs(workers[Role.RefPolicy], config=self.config.actor_rollout_ref)

    def fit(self):
        self.actor_rollout_wg.update_actor(self.batch)
"""
HALVES = """if config.trainer.nnodes // 2 == 0 and config.trainer.n_gpus_per_node // 2 > 0:
        spec = {
            pool: [config.trainer.n_gpus_per_node // 2] * config.trainer.nnodes,
            "critic_pool": [config.trainer.n_gpus_per_node // 2] * config.trainer.nnodes,
        }
    else:
        spec = {
            pool: [config.trainer.n_gpus_per_node] * (config.trainer.nnodes // 2),
            "critic_pool": [config.trainer.n_gpus_per_node] * (config.trainer.nnodes // 2),
        }
    mapping = {Role.ActorRollout: pool, Role.Critic: "critic_pool", Role.RefPolicy: pool}"""
ONE = """spec = {pool: [config.trainer.n_gpus_per_node] * config.trainer.nnodes}
    mapping = {Role.ActorRollout: pool, Role.Critic: pool, Role.RefPolicy: pool}"""
LEFT_OVER = """spec = {pool: [config.trainer.n_gpus_per_node - config.trainer.get("spare", 2)]}
    mapping = {Role.ActorRollout: pool, Role.Critic: pool}
    spec["judges"] = [2]
    mapping[Role.RefPolicy] = "judges\""""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl 0.4.1, whose program a test writes."""
    for name in (".git", "verl/trainer/ppo", "verl/trainer/config", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    tree = dict(read_defaults("0.4.1", CONFIGS[0]).tree)
    (tmp_path / "verl/trainer/config/ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text(TRAINER)
    return tmp_path


def advice(repository: Path, pools: str, *overrides: str, main: str = MAIN) -> dict[str, Any]:
    program = main.replace("POOLS", pools).replace("SPEC", "resource_pool_spec=spec")
    (repository / "verl/trainer/main_split.py").write_text(program)
    script = repository / "run.sh"
    script.write_text(LAUNCH + " ".join(overrides) + "\n")
    answer = run("advise", str(script), "--gpu", "h100-sxm", "-f", "json")
    assert answer.out, answer.err
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


def read(answer: dict[str, Any]) -> tuple[int, int, set[str]]:
    """The GPUs of a node, the nodes, and the models that are counted on them."""
    job = answer["workload"]
    cluster = job["cluster"]
    models = {name for name in ("critic", "reference") if job[name] is not None}
    return cluster["gpus_per_node"], cluster["nodes"], models


@pytest.mark.parametrize(
    ("pools", "overrides", "job"),
    [
        (ONE, (), (8, 1, {"critic", "reference"})),
        (HALVES, (), (4, 1, {"reference"})),
        (HALVES, ("trainer.nnodes=4",), (8, 2, {"reference"})),
        (LEFT_OVER, (), (6, 1, {"critic"})),
        (LEFT_OVER, ("+trainer.spare=4",), (4, 1, {"critic"})),
        (HALVES.replace("pool: [", "pool: gpus() or ["), (), (8, 1, {"critic", "reference"})),  # nobody knows
        (f"{HALVES}\n    mapping = own_mapping(mapping)", (), (8, 1, {"critic", "reference"})),
        (f"{HALVES}\n    if on_few():\n        spec[pool] = [2]", (), (8, 1, {"critic", "reference"})),
        (f"{HALVES}\n    spec = {{name: [0] for name in spec}}", (), (8, 1, {"critic", "reference"})),
    ],
)
def test_the_policy_has_the_gpus_of_its_pool(
    repository: Path, pools: str, overrides: tuple[str, ...], job: tuple[int, int, set[str]]
) -> None:
    assert read(advice(repository, pools, *overrides)) == job


@pytest.mark.parametrize(("card", "gpus"), [("h100-sxm", 4), ("8xh100-sxm", 4), ("2xh100-sxm", 2)])
def test_an_option_that_repeats_the_nodes_changes_no_pool(repository: Path, card: str, gpus: int) -> None:
    advice(repository, HALVES)
    answer = run("advise", str(repository / "run.sh"), "--gpu", card, "-f", "json")

    assert read(json.loads(answer.out)) == (gpus, 1, {"reference"})


def test_a_model_in_another_pool_is_named_as_left_out(repository: Path) -> None:
    split, whole = advice(repository, HALVES), advice(repository, ONE)

    assert {"the critic"} == {it["name"] for it in split["left_out"]} - {
        it["name"] for it in whole["left_out"]
    }
    assert "update_critic" not in {phase["phase"] for phase in split["memory"]["phases"]}
    assert split["workload"]["actor"]["engine"]["parallel"]["gpus"] == 4
    assert split["workload"]["rollout"]["gpus"] == 4


def test_a_rollout_in_a_pool_of_its_own_shares_no_gpus(repository: Path) -> None:
    pools = """spec = {pool: [config.trainer.n_gpus_per_node - 2], "rollout_pool": [2]}
    mapping = {Role.Actor: pool, Role.Rollout: "rollout_pool", Role.Critic: pool, Role.RefPolicy: pool}"""
    main = MAIN.replace("Role.ActorRollout: ray", "Role.Actor: ray.remote(Worker), Role.Rollout: ray")
    rollout = advice(repository, pools, main=main)["workload"]["rollout"]

    assert (rollout["colocated"], rollout["gpus"]) == (False, 2)


FURTHER = """spec = {pool: [4], "judge_pool": [4]}
    mapping = {Role.ActorRollout: pool, Role.Critic: pool, Role.RefPolicy: pool}
    if config.ownjudge.enable:
        role_worker_mapping[Role.OwnJudge] = ray.remote(ActorRolloutRefWorker)
        mapping[Role.OwnJudge] = "judge_pool\""""
SMALL = "Qwen/Qwen2.5-0.5B-Instruct"
JUDGED = (
    "+ownjudge.enable=True",
    f"actor_rollout_ref.model.path={SMALL}",
    f"critic.model.path={SMALL}",
    "actor_rollout_ref.model.use_remove_padding=True",
    "critic.model.use_remove_padding=True",
)
TRIED = "    ray.get(main_task.remote(config))"
AGAIN = """    try:
        ray.get(main_task.remote(config))
    except Exception as error:
        print(error)
        raise error"""


def doubted(answer: dict[str, Any]) -> bool:
    """Whether models that nobody counts may make the job too large."""
    return answer["verdict"] == "may_not_fit" and answer["combination"] is None


def test_a_model_of_the_copys_own_in_another_pool_takes_no_room(repository: Path) -> None:
    apart = advice(repository, FURTHER, *JUDGED)
    beside = advice(repository, FURTHER.replace('= "judge_pool"', "= pool"), *JUDGED)

    assert (doubted(apart), doubted(beside)) == (False, True)
    assert any("ownjudge" in it["name"] for it in apart["left_out"])
    assert read(apart) == (4, 1, {"critic", "reference"})


def test_a_program_that_raises_what_it_catches_is_followed(repository: Path) -> None:
    answer = advice(repository, FURTHER, *JUDGED, main=MAIN.replace(TRIED, AGAIN))

    assert read(answer) == (4, 1, {"critic", "reference"})
