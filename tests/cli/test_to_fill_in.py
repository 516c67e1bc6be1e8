"""Paths and names in angle brackets that a script has its reader fill in are open, and end no answer."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import Result, run

LAUNCH = (
    'python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files="<train_data>" '
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True "
    "trainer.n_gpus_per_node=8 trainer.default_local_dir=$ROOT/run "
)
MODEL = "actor_rollout_ref.model.path"


def advise(folder: Path, more: str, *options: str) -> Result:
    (folder / "run.sh").write_text(f'ROOT="<where_to_keep_it>"\n{LAUNCH}{more}\n')
    return run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.6.1", *options)


def test_files_that_are_to_be_filled_in_are_open(tmp_path: Path) -> None:
    result = advise(tmp_path, f"{MODEL}=Qwen/Qwen2.5-0.5B-Instruct", "-f", "json")
    assert result.code == 0, result.err
    unsettled = {item["key"]: item["text"] for item in json.loads(result.out)["premises"]["open_values"]}
    assert unsettled == {
        "data.train_files": "<train_data>",
        "trainer.default_local_dir": "<where_to_keep_it>/run",
    }


def test_a_model_that_is_to_be_filled_in_is_asked_for(tmp_path: Path) -> None:
    result = advise(tmp_path, f'{MODEL}="<your_model_path>"')
    assert result.code == 2
    assert f"{MODEL}: the model is <your_model_path>, which is to be filled in" in result.err
    assert "--model NAME" in result.err
    assert advise(tmp_path, f'{MODEL}="<your_model_path>"', "--model", "Qwen2.5-0.5B-Instruct").code == 0


@pytest.mark.parametrize("word", ["+data.end=<eos>", "data.train_batch_size=<64>", f"{MODEL}=a<b"])
def test_what_else_hydra_does_not_read_is_refused(tmp_path: Path, word: str) -> None:
    result = advise(tmp_path, f'"{word}"')
    assert result.code == 2
    assert "is not an override that Hydra can read" in result.err
