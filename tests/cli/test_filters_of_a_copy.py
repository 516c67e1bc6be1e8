"""A filter of groups that a copy of verl has under keys of its own, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import CONFIGS, read_defaults

JOB = """actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct algorithm.adv_estimator=grpo \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.n=8 data.train_batch_size=128 trainer.n_gpus_per_node=8 """
ROUNDS = """class RayPPOTrainer:
    def fit(self):
        size = self.config.data.train_batch_size * self.config.data.oversample_factor
        for rows in self.loader(size):
            if self.config.data.filter_accuracy:
                rows = self.within_bounds(rows)
            kept = rows if kept is None else DataProto.concat([kept, rows])
            if len(kept) < self.config.data.train_batch_size:
                continue
"""
ONCE = """class RayPPOTrainer:
    def fit(self):
        size = self.config.data.train_batch_size * self.config.data.oversample_factor
        batch = self.filter_and_downsample(scores, batch)

    def filter_and_downsample(self, scores, batch):
        if self.config.data.filter_accuracy:
            return self.best(batch)
"""
RECIPE = """class RayDAPOTrainer:
    def fit(self):
        for rows in self.loader:
            if self.config.algorithm.filter_groups.enable:
                most = max_num_gen_batches = self.config.algorithm.filter_groups.max_num_gen_batches
                if most <= 0 or num_gen_batches < most:
                    continue
                {end}
"""
STOPS, GOES_ON = 'raise ValueError(f"{num_gen_batches=} >= {max_num_gen_batches=}")', "batch = batch[:size]"
DROPS = ROUNDS.replace("DataProto.concat([kept, rows])", "rows")
ASKED = "data.filter_accuracy=True data.oversample_factor=2"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl 0.3, whose trainer a test writes."""
    for name in (".git", "verl/trainer/ppo", "verl/trainer/config", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    tree = dict(read_defaults("0.3.0.post1", CONFIGS[0]).tree)
    tree["data"] = {**tree["data"], "filter_accuracy": False, "oversample_factor": 1.0}
    (tmp_path / "verl/trainer/config/ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (tmp_path / "verl/trainer/main_ppo.py").write_text(
        "from verl.trainer.ppo.ray_trainer import RayPPOTrainer\n"
    )
    return tmp_path


def filtered(repository: Path, trainer: str, overrides: str, *words: str) -> dict[str, Any] | None:
    """The filter of the job."""
    (repository / "verl/trainer/ppo/ray_trainer.py").write_text(trainer)
    (repository / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {JOB} {overrides}\n")
    given = ("--verl-version", "0.3.0.post1", "--gpu", "h100-sxm", *words)
    answer = run("advise", str(repository / "run.sh"), *given, "-f", "json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] | None = json.loads(answer.out)["workload"]["batch"]["group_filter"]
    return found


def test_batches_are_generated_until_enough_groups_are_kept(repository: Path) -> None:
    found = filtered(repository, ROUNDS, ASKED, "--kept-groups", "0.4")

    assert found is not None
    assert (found["round_prompts"], found["kept_share"], found["once"]) == (256, 0.4, False)
    assert found["sends_weights"] is True


def test_the_best_of_one_larger_batch_are_taken(repository: Path) -> None:
    found = filtered(repository, ONCE, ASKED)

    assert found is not None
    assert (found["round_prompts"], found["once"], found["assumed"]) == (256, True, False)
    shown = run(
        "advise", str(repository / "run.sh"), "--verl-version", "0.3.0.post1", "--gpu", "h100-sxm", "--full"
    )
    said = " ".join(shown.out.split())
    assert "256 prompts are generated for a step, and 128 of them trained on" in said


@pytest.mark.parametrize(
    ("trainer", "overrides"),
    [
        (ROUNDS, "data.oversample_factor=2"),  # the filter is off
        (ONCE, "data.filter_accuracy=True"),  # no more than a step's are generated
        (DROPS, ASKED),  # fewer groups are trained on, nobody knows how many
        ("class RayPPOTrainer:\n    pass\n", ASKED),
    ],
)
def test_where_nothing_is_filtered_in_rounds_a_step_generates_its_own(
    repository: Path, trainer: str, overrides: str
) -> None:
    assert filtered(repository, trainer, overrides) is None


@pytest.mark.parametrize(("bounds", "filters"), [((0.0, 1.0), False), ((0.1, 1.0), True), ((0.0, 0.9), True)])
def test_bounds_that_hold_every_accuracy_drop_no_group(
    repository: Path, bounds: tuple[float, float], filters: bool
) -> None:
    data = "self.config.data"
    keeps = f"kept = (acc >= {data}.accuracy_lower_bound) & (acc <= {data}.accuracy_upper_bound)"
    trainer = f"{ROUNDS}\n    def within_bounds(self, acc):\n        {keeps}\n        return kept\n"
    keys = "data.filter_accuracy=True "
    keys += f"+data.accuracy_lower_bound={bounds[0]} +data.accuracy_upper_bound={bounds[1]}"

    assert (filtered(repository, trainer, keys) is not None) is filters


def test_a_recipe_that_lies_in_the_copy_and_is_not_started_tells_nothing(repository: Path) -> None:
    (repository / "recipe/prime").mkdir(parents=True)
    (repository / "recipe/prime/prime_ray_trainer.py").write_text(ROUNDS)

    assert filtered(repository, "class RayPPOTrainer:\n    pass\n", ASKED) is None


def seconds(*overrides: str) -> float:
    launch = f"python3 -m recipe.prime.main_prime {JOB} {' '.join(overrides)}"
    given = ("--verl-version", "0.4.1", "--gpu", "h100-sxm", "--mean-response-length", "300", "-f", "json")
    answer = run("advise", "-", *given, stdin=launch)
    assert answer.out, answer.err
    return float(next(one["seconds"] for one in json.loads(answer.out)["time"] if one["phase"] == "rollout"))


def test_prime_generates_four_times_what_it_trains_on() -> None:
    """verl 0.4.1 ``recipe/prime/config/prime_trainer.yaml``: ``oversample_factor: 4.0``."""
    assert seconds() > 2 * seconds("data.oversample_factor=1")


@pytest.mark.parametrize(("end", "limit"), [(STOPS, 3), (GOES_ON, None)], ids=["stops", "goes on"])
def test_a_recipe_that_a_copy_has_before_its_release_is_read(
    repository: Path, end: str, limit: int | None
) -> None:
    """Copies of verl 0.2 and 0.3 have DAPO already; its code tells whether its most rounds end the job."""
    (repository / "recipe" / "dapo").mkdir(parents=True)
    (repository / "recipe" / "dapo" / "main_dapo.py").write_text("from .dapo_ray_trainer import *\n")
    (repository / "recipe" / "dapo" / "dapo_ray_trainer.py").write_text(RECIPE.replace("{end}", end))
    keys = "+data.gen_batch_size=256 +algorithm.filter_groups.enable=True "
    keys += "+algorithm.filter_groups.max_num_gen_batches=3"
    (repository / "verl/trainer/ppo/ray_trainer.py").write_text("class RayPPOTrainer:\n    pass\n")
    (repository / "run.sh").write_text(f"python3 -m recipe.dapo.main_dapo {JOB} {keys}\n")
    answer = run("advise", str(repository / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)["workload"]["batch"]["group_filter"]
    assert found is not None
    assert (found["round_prompts"], found["most_rounds"]) == (256, limit)
