"""A launch of a recipe is read as that, whose configuration has keys that verl's own trainer refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tests.corpus import launches
from tests.loading import load
from tests.trainers.launches import ALL, workload_of
from tuner.trainers.verl.recipes import RECIPES, started_as, started_by
from tuner.trainers.verl.roles import uses_critic
from tuner.workload import Backend

pytestmark = pytest.mark.sampled(6)

#: Hydra refuses these in the scripts that set them, which have them below ``policy_loss`` as well.
MISTAKEN = {
    f"actor_rollout_ref.actor.{key}" for key in ("loss_mode", "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub")
}
DAPO = "reward_model.overlong_buffer.len=128"
MODEL = "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"


def of_recipes() -> list[dict[str, Any]]:
    """Launches that say by a key of their own which recipe they are for."""
    modules = {module for recipe in RECIPES for module in recipe.modules}
    told = ("overlong_buffer.", "gen_batch_size", "filter_accuracy", "beta_train", "sppo_eta", "dpo_beta")
    return [
        launch
        for launch in launches()
        if launch["entry"] in modules and any(key in text for text in launch["overrides"] for key in told)
    ]


def test_no_key_of_a_recipe_is_unknown_in_its_own_launch() -> None:
    assert len(of_recipes()) > 20
    for launch in of_recipes():
        version = launch["tags"][0].removeprefix("v")
        unknown = load(None, launch["overrides"], version=version).settings.unknown
        assert {key.key for key in unknown if key.refused} <= MISTAKEN, (launch["path"], version)


def test_the_answer_names_the_recipe_and_refuses_nothing() -> None:
    launch = next(it for it in launches() if it["path"] == "tests/special_e2e/run_prime.sh")
    version = launch["tags"][0].removeprefix("v")
    said = run(
        "advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", version, "--", *launch["overrides"]
    )
    assert said.out.startswith("FITS  ")
    words = " ".join(said.out.split())
    assert "), without what recipe.prime.main_prime does beside the PPO trainer " in words


def started(*overrides: str, version: str = "0.5.0") -> tuple[str, ...]:
    """The programs that settings rest on; none for verl's own."""
    known = load(None, (), version=version).settings.defaults
    found = started_by(load(None, overrides, version=version).settings.defaults, known, version)
    return () if found is None else found[0].modules


def test_a_key_that_is_marked_as_new_tells_nothing() -> None:
    assert "recipe.dapo.main_dapo" in started(DAPO)
    assert not started(f"+{DAPO}")
    assert not started("data.train_batch_size=512")
    assert not started("data.gen_batch_size=512")  # verl's own trainer has it from 0.9.0 on
    megatron = ("--config-name=ppo_megatron_trainer", "actor_rollout_ref.model.use_remove_padding=True")
    assert not started(*megatron)


def test_a_release_without_the_recipe_refuses_its_keys() -> None:
    settings = load(None, [DAPO], version="0.9.1").settings
    assert not started(DAPO, version="0.9.1")
    assert [key.key for key in settings.unknown if key.refused] == [DAPO.partition("=")[0]]


def test_the_name_of_its_configuration_is_enough() -> None:
    assert started("--config-name=sppo_trainer") == ("recipe.sppo.main_sppo",)


@pytest.mark.parametrize(("estimator", "critic"), [("null", False), ("gae", True)])
def test_a_recipe_without_an_estimator_has_no_critic(tmp_path: Path, estimator: str, critic: bool) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"defaults: [ppo_trainer, _self_]\nalgorithm:\n  adv_estimator: {estimator}\n")
    assert uses_critic(load(file, (), version="0.4.1").settings) is critic


def test_a_critic_that_nobody_asked_for_is_explained() -> None:
    given = (MODEL, "actor_rollout_ref.actor.use_dynamic_bsz=True", "critic.use_dynamic_bsz=False")
    said = run("advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", "0.4.1", "--", *given)
    words = " ".join(said.out.split())
    assert "a critic is trained where algorithm.adv_estimator=gae, the default" in words


def test_a_launch_that_no_key_tells_is_told_how_to_say_its_recipe() -> None:
    launch = next(it for it in launches() if it["path"] == "recipe/sppo/run_qwen2.5-7b_rm.sh")
    options = (
        "--gpu",
        "h100-sxm",
        "--verl-version",
        "0.4.1",
        "--model",
        "Qwen/Qwen2.5-7B-Instruct",
        "--full",
    )
    said = run("advise", "/dev/null", *options, "--", *launch["overrides"])
    assert (
        "a recipe that trains no critic is told by --config-name=spin_trainer or --config-name=sppo_trainer"
        in " ".join(said.out.split())
    )
    told = run("advise", "/dev/null", *options, "--", "--config-name=sppo_trainer", *launch["overrides"])
    assert not told.out.startswith("WILL NOT START")


ONE_STEP = (MODEL, "rollout.nnodes=1", "rollout.n_gpus_per_node=2")
STREAMED = ("async_training.staleness_threshold=0.5", "data.gen_batch_size=1")


def of_trainers_apart() -> list[dict[str, Any]]:
    names = ("one_step_off_policy", "fully_async_policy")
    return [launch for launch in launches() if any(name in launch["entry"] for name in names)]


def test_the_launches_of_the_trainers_apart_know_their_keys() -> None:
    assert len(of_trainers_apart()) > 10
    for launch in of_trainers_apart():
        version = launch["tags"][0].removeprefix("v")
        named = (f"--config-name={launch['config_name']}",) if launch["config_name"] else ()
        unknown = load(None, (*named, *launch["overrides"]), version=version).settings.unknown
        assert not [key.key for key in unknown if key.refused], (launch["path"], version)


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.1"])
def test_gpus_for_the_rollout_tell_the_trainer_one_step_off_policy(version: str) -> None:
    module = "recipe" if version < "0.7.1" else "verl.experimental"
    assert started(*ONE_STEP, version=version) == (f"{module}.one_step_off_policy.main_ppo",)


@pytest.mark.parametrize("version", ["0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.1"])
def test_staleness_tells_the_fully_asynchronous_trainer(version: str) -> None:
    module = "recipe" if version < "0.7.1" else "verl.experimental"
    told = started(*ONE_STEP, *STREAMED, version=version)
    assert told == (f"{module}.fully_async_policy.fully_async_main",)


def test_their_configurations_for_megatron_rest_on_its() -> None:
    loaded = load(None, ("--config-name=one_step_off_ppo_megatron_trainer",), version="0.8.0")
    assert loaded.settings.get("actor_rollout_ref.actor.strategy") == "megatron"
    assert loaded.settings.get("rollout.nnodes") == 1
    assert loaded.base.words == ("--config-name=one_step_off_ppo_megatron_trainer",)


def test_the_new_workers_of_071_go_by_the_engines_own_strategy() -> None:
    """0.7.1 has no line that copies the role's strategy to the engine, which 0.8.0 added."""
    new = "trainer.use_legacy_worker_impl=disable"
    role, engine = (f"actor_rollout_ref.actor.{key}strategy=fsdp2" for key in ("", "fsdp_config."))
    backends = [
        workload_of((*ALL["static"], *words), version).actor.engine.backend
        for words, version in (((new, role), "0.7.1"), ((new, engine), "0.7.1"), ((role,), "0.8.0"))
    ]
    assert backends == [Backend.FSDP, Backend.FSDP2, Backend.FSDP2]


def test_a_tree_between_two_releases_has_the_trainer_that_it_names() -> None:
    """0.6.0 has no fully asynchronous one, and its keys alone tell the other that generates apart."""
    report = advised("fully_async_policy.fully_async_main", "0.6.0")
    assert "what recipe.fully_async_policy.fully_async_main does beside the PPO trainer" in [
        part["name"] for part in report["left_out"]
    ]
    assert "one_step_off_policy" not in json.dumps(report)


@pytest.mark.parametrize(
    ("further", "version", "computes"),
    [
        ((), "0.6.1", False),  # v0.6.1 recipe/fully_async_policy/ray_trainer.py: use_rollout_log_probs
        ((), "0.7.0", False),
        (("async_training.use_rollout_log_probs=False",), "0.7.0", True),
        (("async_training.compute_prox_log_prob=True",), "0.7.0", True),
    ],
)
def test_the_log_probabilities_of_the_engine_need_no_pass_of_the_actor(
    further: tuple[str, ...], version: str, computes: bool
) -> None:
    report = advised("fully_async_policy.fully_async_main", version, *further)
    phases = {phase["phase"] for phase in report["memory"]["phases"]}
    assert ("old_log_prob" in phases) is computes
    assert (report["workload"]["actor"]["log_prob"] is not None) is computes


def advised(module: str, version: str, *further: str) -> dict[str, Any]:
    """The answer on a launch of a recipe's trainer."""
    words = ("python3", "-m", f"recipe.{module}", MODEL, "algorithm.adv_estimator=grpo", "rollout.nnodes=1")
    words += ("rollout.n_gpus_per_node=4", "trainer.n_gpus_per_node=4", "data.train_batch_size=0")
    words += (
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        "data.gen_batch_size=1",
    )
    words += ("actor_rollout_ref.actor.use_dynamic_bsz=True", "actor_rollout_ref.hybrid_engine=False")
    answer = run("advise", "--gpu", "h100-sxm", "--verl-version", version, "-f", "json", *words, *further)
    assert answer.code == 0, answer.err
    report: dict[str, Any] = json.loads(answer.out)
    return report


FILTERED = (
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True "
    "actor_rollout_ref.model.use_remove_padding=True algorithm.filter_groups.enable=True "
    "reward_model.overlong_buffer.enable=True"
)
MAIN = """import hydra


@hydra.main(config_path="config", config_name="ppo_trainer", version_base=None)
def main(config):
    pass
"""


# What a launch of the recipe SPPO sets, whose loss is not modelled.
OF_SPPO = FILTERED.partition("algorithm.filter_groups")[0] + "actor_rollout_ref.actor.sppo_eta=0.5"


def left_out_of(folder: Path, program: str, settings: str = FILTERED) -> list[str]:
    (folder / "run.sh").write_text(f"python3 -m {program} {settings}\n")
    said = run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.5.0", "-f", "json")
    return [part["name"] for part in json.loads(said.out)["left_out"]]


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("recipe.sppo.main_sppo", "recipe.sppo.main_sppo"),
        ("verl.mine.sppo.src.main_sppo", "verl.mine.sppo.src.main_sppo"),
        ("verl_y.trainer.main_ppo", "verl_y.trainer.main_ppo, which has keys of recipe.sppo.main_sppo,"),
    ],
)
def test_the_program_that_is_started_is_named(program: str, named: str, tmp_path: Path) -> None:
    assert f"what {named} does beside the PPO trainer" in left_out_of(tmp_path, program, OF_SPPO)


def test_keys_tell_no_recipe_where_the_program_s_code_names_another_configuration(tmp_path: Path) -> None:
    package = tmp_path / "verl_y" / "trainer"
    package.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (package / "main_ppo.py").write_text(MAIN)
    assert not [name for name in left_out_of(tmp_path, "verl_y.trainer.main_ppo") if "dapo" in name]


@pytest.mark.parametrize("program", ["recipe.dapo.src.main_dapo", "verl.recipe.dapo.main_dapo"])
def test_a_recipe_that_was_moved_is_told_by_its_folder_and_its_program(program: str) -> None:
    recipe = started_as(program, "0.5.0")
    assert recipe is not None and recipe.configs[0] == "dapo_trainer"
    assert started_as("mine.trainer.main_dapo", "0.5.0") is None
