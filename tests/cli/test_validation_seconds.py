"""Validations that come so often that they are a good part of the step stand in the short answer."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import run
from tuner.trainers.verl.defaults import read_defaults

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=64",
    "data.max_prompt_length=1024",
    "data.max_response_length=1024",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
    "trainer.n_gpus_per_node=8",
)
EVERY_STEP = "trainer.test_freq=1"
ROWS = ("--val-rows", "1319")


def short(*overrides: str, version: str = "0.7.1") -> str:
    result = run("advise", "/dev/null", *JOB, *overrides, "--gpu", "h100-sxm", "--verl-version", version)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def reported(*overrides: str, version: str = "0.7.1") -> dict[str, Any]:
    options = ("--gpu", "h100-sxm", "--verl-version", version, "-f", "json")
    return dict(json.loads(run("advise", "/dev/null", *JOB, *overrides, *options).out))


def seconds(*overrides: str, version: str = "0.7.1") -> float:
    return float(reported(EVERY_STEP, *overrides, version=version)["validation"]["seconds"]["seconds"])


def test_one_after_every_step_is_told_with_its_share_and_with_what_is_less() -> None:
    said, report = short(EVERY_STEP, *ROWS), reported(EVERY_STEP, *ROWS)
    taken, step_s = report["validation"]["seconds"]["seconds"], report["step_time"]["seconds"]
    assert f"every step, {taken:.0f} s of generation for 1,319 rows of validation data" in said
    assert f"rewards not counted: {taken / (taken + step_s):.0%} of the step with it" in said
    assert "trainer.test_freq=50 leaves" in said
    assert said.index("Yours to decide") < said.index("Validation: every step")
    left = reported("trainer.test_freq=50", *ROWS)["validation"]["step_seconds"]
    assert left < 0.05 * (left + step_s)


def test_the_last_step_is_validated_whatever_its_number() -> None:
    """One planned step is a validation a step, which a lower frequency does not make less."""
    one_step = ("trainer.total_training_steps=1", "trainer.test_freq=10")
    assert reported(*one_step)["validation"]["every_steps"] == 1
    said = short(*one_step, *ROWS)
    assert "Validation: every step" in said
    assert "the last step is validated whatever trainer.test_freq says" in said
    assert "trainer.test_freq=50" not in said
    assert (
        reported("trainer.total_training_steps=40", "trainer.test_freq=10")["validation"]["every_steps"] == 10
    )


def test_small_batches_are_told_where_larger_ones_save_enough_of_the_step() -> None:
    """A batch lasts as long as its longest response; one of all rows has one of these."""
    small = "data.val_batch_size=32"
    said = short("trainer.test_freq=5", small, "--val-rows", "297")
    before, after = seconds(small, "--val-rows", "297"), seconds("--val-rows", "297")
    told = re.search(
        r"in 10 batches, one after the other, in ([\d.]+) s; in 1 batch that is ([\d.]+) s", said
    )
    assert told is not None
    assert [float(told[1]), float(told[2])] == pytest.approx([before, after], rel=0.02)
    assert said.index("ROL032 validation-rounds: 297 rows") < said.index("data.val_batch_size=297")
    for silent in (
        ("trainer.test_freq=200", small, "--val-rows", "297"),
        (EVERY_STEP, small),
        (EVERY_STEP, *ROWS),
    ):
        assert "ROL032" not in short(*silent)


@pytest.mark.parametrize(
    "overrides", [("trainer.test_freq=-1",), ("trainer.test_freq=200",), ("trainer.test_freq=null",)]
)
def test_seldom_ones_are_not_told(overrides: tuple[str, ...]) -> None:
    assert "Validation:" not in short(*overrides, *ROWS)


def test_generation_is_that_of_a_step_with_as_many_sequences() -> None:
    """The job's own step has 1,320 prompts with one response each; the engine sleeps only behind it."""
    job = reported(
        "data.train_batch_size=1320", "actor_rollout_ref.rollout.n=1", EVERY_STEP, "--val-rows", "1320"
    )
    rollout, validation = (
        {part["name"]: part["seconds"] for part in phase["parts"]}
        for phase in (
            next(phase for phase in job["time"] if phase["phase"] == "rollout"),
            job["validation"]["phases"][0],
        )
    )
    assert rollout.pop("asleep") > 0
    assert rollout.pop("collections") > 0
    assert validation == rollout


def test_repeated_rows_take_longer() -> None:
    assert seconds(*ROWS, "actor_rollout_ref.rollout.val_kwargs.n=8") > 3 * seconds(*ROWS)


def test_batches_come_one_after_the_other_since_0_4() -> None:
    small = "data.val_batch_size=128"
    assert reported(EVERY_STEP, *ROWS, small)["validation"]["batches"] == 11
    assert seconds(*ROWS, small) > 2 * seconds(*ROWS)
    assert reported(EVERY_STEP, *ROWS, small, version="0.3.0.post1")["validation"]["batches"] == 1


def test_weights_are_handed_over_for_every_batch_before_0_7_1() -> None:
    small = "data.val_batch_size=660"
    phases = {
        version: [
            phase["phase"]
            for phase in reported(EVERY_STEP, *ROWS, small, version=version)["validation"]["phases"]
        ]
        for version in ("0.6.1", "0.7.1")
    }
    assert phases == {"0.6.1": ["rollout", "update_weights"], "0.7.1": ["rollout"]}
    sent = [
        reported(EVERY_STEP, *ROWS, *batches, version="0.6.1")["validation"]["phases"][1]["seconds"]
        for batches in ((), (small,))
    ]
    assert sent[1] == pytest.approx(2 * sent[0])


def test_a_bound_of_the_rows_counts_since_0_6_1() -> None:
    few = "data.val_max_samples=200"
    said = reported(EVERY_STEP, few)["validation"]
    assert (said["rows"], said["rows_known"]) == (200, "at_most")
    assert "at most 200 rows of validation data (data.val_max_samples)" in short(EVERY_STEP, few)
    assert reported(EVERY_STEP, few, *ROWS)["validation"]["rows"] == 200
    assert reported(EVERY_STEP, "--val-rows", "50", few)["validation"]["rows"] == 50


def test_rows_that_nobody_says_are_asked_for_in_the_line_at_the_end() -> None:
    said = short(EVERY_STEP)
    assert "Validation every step: 100 rows would take" in said
    assert "--val-rows says how many there are." in said.partition("Validation every step")[2]
    assert "Yours to decide Validation" not in said
    assert reported(EVERY_STEP)["validation"]["rows_known"] == "unknown"


def test_rows_that_nobody_says_are_told_where_a_hundred_are_a_part_of_the_step() -> None:
    taken = reported("trainer.test_freq=1")["validation"]["seconds"]["seconds"]
    step_s = reported()["step_time"]["seconds"]
    frequencies = range(1, 60)
    seldom = next(every for every in frequencies if taken / every < 0.01 * (taken / every + step_s))
    assert "Validation every" in short(f"trainer.test_freq={seldom - 1}")
    assert "Validation every" not in short(f"trainer.test_freq={seldom}")


@pytest.mark.parametrize(
    ("files", "rows", "data"),
    [
        ("$HOME/data/gsm8k/test.parquet", 1319, "GSM8K"),
        ("['/d/gsm8k/test.parquet','/d/math/test.parquet']", 6319, "GSM8K, MATH"),
        ("/d/gsm8k/train.parquet", None, ""),
        ("/d/gsm8k_in_turns/test.parquet", 1319, "GSM8K"),
        ("/d/aime.parquet", 30, "AIME"),
        ("/d/AIME_2025/train.parquet", 30, "AIME 2025"),
        ("['/d/test_aime24.parquet','/d/math-500.parquet']", 530, "AIME 2024, MATH-500"),
        ("/d/aime-2024.parquet", None, ""),  # has each question many times over
        ("/d/aime_and_amc.parquet", None, ""),
        ("['/d/gsm8k/test.parquet','/d/mine/test.parquet']", None, ""),
    ],
)
def test_rows_of_data_that_their_file_names(files: str, rows: int | None, data: str) -> None:
    named = f"data.val_files={files}"
    validation = reported(EVERY_STEP, named)["validation"]
    known = ("unknown", 100) if rows is None else ("named", rows)
    assert (validation["rows_known"], validation["rows"]) == known
    if rows is not None:
        assert f"if their file is the test set of {data} as its name says" in short(EVERY_STEP, named)
        assert reported(EVERY_STEP, named, *ROWS[:1], "50")["validation"]["rows"] == 50
        few = reported(EVERY_STEP, named, "data.val_max_samples=200")["validation"]
        assert (few["rows"], few["rows_known"]) == ((200, "at_most") if rows > 200 else (rows, "named"))


def test_hours_count_validations_of_known_rows_with_the_one_before_training() -> None:
    steps = "trainer.total_training_steps=1000"
    asked = ("trainer.test_freq=300", steps)
    assert "with 5 validations, without rewards and checkpoints" in short(*asked, *ROWS)
    assert "with 4 validations," in short(*asked, *ROWS, "trainer.val_before_train=False")
    assert "with 1 validation," in short(steps, *ROWS)
    assert "without validation and checkpoints" in short(*asked)


def test_hours_with_the_block_have_its_own_generation() -> None:
    """The block makes smaller replicas, by which a validation is answered sooner, too."""
    rollout = "actor_rollout_ref.rollout"
    job = (f"{rollout}.tensor_model_parallel_size=4", f"{rollout}.n=8")
    packed = "actor_rollout_ref.model.use_remove_padding=True"
    asked = (*job, packed, "trainer.total_training_steps=1000", EVERY_STEP, *ROWS)
    report = reported(*asked, version="0.6.1")
    said = re.search(r"([\d.]+) h \([^)]*\) with the block", short(*asked, version="0.6.1"))
    assert said is not None
    pasted = report["combination"]["overrides"]
    assert f"{rollout}.tensor_model_parallel_size=1" in pasted
    alone = reported(*asked, *pasted, version="0.6.1")
    step_s, one_s = alone["step_time"]["seconds"], alone["validation"]["seconds"]["seconds"]
    assert one_s < 0.8 * report["validation"]["seconds"]["seconds"]
    assert float(said[1]) == pytest.approx((1000 * step_s + 1001 * one_s) / 3600, abs=0.5)  # whole hours


@pytest.mark.parametrize(
    ("overrides", "version"),
    [
        (("trainer.val_only=True",), "0.7.1"),
        (("reward_model.enable=True",), "0.6.1"),
        (("trainer.val_before_train=False", "trainer.test_freq=-1"), "0.7.1"),
    ],
    ids=["nothing but one", "a reward model ends it", "none"],
)
def test_no_price_where_it_is_not_known(overrides: tuple[str, ...], version: str) -> None:
    assert reported(EVERY_STEP, *overrides, version=version)["validation"] is None


def test_the_full_answer_has_the_interval() -> None:
    result = run("advise", "/dev/null", *JOB, EVERY_STEP, *ROWS, "--gpu", "h100-sxm", "--full")
    said = " ".join(result.out.split())
    assert "for 1,319 rows of validation data, without rewards. It comes every step," in said


def test_nothing_is_told_where_the_engine_has_no_cache() -> None:
    """What generation would take there is no figure to go by."""
    none = "actor_rollout_ref.rollout.gpu_memory_utilization=0.05"
    assert reported(EVERY_STEP, none)["validation"] is None


OLD_TRAINER = """class RayPPOTrainer:
    def _create_dataloader(self):
        self.val_dataloader = DataLoader(self.val_dataset)

    def _validate(self):
        for batch in self.val_dataloader:
            batch = batch.repeat(repeat_times=self.config.actor_rollout_ref.rollout.{key})

    def fit(self):
        if self.global_steps % self.config.trainer.test_freq == 0:
            self._validate()
"""


def test_rows_are_repeated_as_the_trainer_of_a_copy_does(tmp_path: Path) -> None:
    for name in (".git", "verl/trainer/ppo", "verl/trainer/config"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "verl/trainer/main_ppo.py").write_text("import verl.trainer.ppo.ray_trainer\n")
    own: dict[str, Any] = deepcopy(dict(read_defaults("0.3.0.post1", "ppo_trainer").tree))
    own["actor_rollout_ref"]["rollout"]["n_val"] = 1
    (tmp_path / "verl/trainer/config/ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    words = " ".join((*JOB, EVERY_STEP, "actor_rollout_ref.rollout.n_val=16"))
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {words}\n")

    def told(key: str) -> tuple[float, list[str]]:
        (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text(OLD_TRAINER.format(key=key))
        options = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1", *ROWS, "-f", "json")
        report = json.loads(run("advise", str(tmp_path / "run.sh"), *options).out)
        return report["validation"]["seconds"]["seconds"], report["premises"]["keys_of_copy"]

    by_its_key, nothing = told("n_val")
    by_verls, unread = told("val_kwargs.n")
    assert by_its_key > 8 * by_verls
    assert (nothing, unread) == ([], ["actor_rollout_ref.rollout.n_val"])


@pytest.mark.parametrize(
    ("shuffle", "drop", "sure"),
    [
        ('self.config.data.get("validation_shuffle", True)', "False", False),
        ('self.config.data.get("validation_shuffle", True)', "True", True),
        ("False", "True", True),
    ],
    ids=["as since 0.4.1", "that drops the rest", "as before 0.3"],
)
def test_a_copy_has_a_batch_of_rows_only_where_its_loader_drops_the_rest(
    tmp_path: Path, shuffle: str, drop: str, sure: bool
) -> None:
    trainer = tmp_path / "verl" / "trainer" / "ppo"
    (trainer.parent / "config").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    trainer.mkdir()
    (trainer.parent / "main_ppo.py").write_text("")
    (trainer / "ray_trainer.py").write_text(
        "class RayPPOTrainer:\n    def _create_dataloader(self):\n"
        "        self.val_dataloader = StatefulDataLoader(\n"
        "            dataset=self.val_dataset, batch_size=self.config.data.val_batch_size, "
        f"shuffle={shuffle}, drop_last={drop})\n\n"
        "    def fit(self):\n        if self.global_steps % self.config.trainer.test_freq == 0:\n"
        "            self._validate()\n"
    )
    own = dict(read_defaults("0.4.1", "ppo_trainer").tree)
    (trainer.parent / "config" / "ppo_trainer.yaml").write_text(yaml.safe_dump(own))
    words = (*JOB, EVERY_STEP, "data.val_batch_size=512")
    (tmp_path / "run.sh").write_text(" ".join(("python3 -m verl.trainer.main_ppo", *words)) + "\n")
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm")
    assert result.code == 0, result.err
    assert ("that have to be there" in " ".join(result.out.split())) is sure
