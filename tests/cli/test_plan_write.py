"""``tuner plan --write``: each plan as a file that is read back as what the table says."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tests.cli.test_plan import ACTOR, JOB, ROLLOUT

CARD = ("--gpu", "2xh100-sxm")
OPTIONS = (*CARD, "--gpus-per-node", "2", "--verl-version", "0.9.1", "--output-format", "json")
MODEL = "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct"
SCRIPT = f"""#!/usr/bin/env bash
# A job of ours.
python3 -m verl.trainer.main_ppo \\
    {MODEL} \\
    {f" {chr(92)}{chr(10)}    ".join(JOB)} \\
    trainer.n_gpus_per_node=2 "$@"
"""
YAML = """# A job of ours.
actor_rollout_ref:
  model:
    path: Qwen/Qwen2.5-0.5B-Instruct  # the model
    use_remove_padding: true
  actor:
    ppo_mini_batch_size: 64
    ppo_micro_batch_size_per_gpu: 4
  rollout:
    name: vllm
    n: 4
    log_prob_micro_batch_size_per_gpu: 4
algorithm: {adv_estimator: grpo}
data:
  train_batch_size: 128
  max_prompt_length: 512
  max_response_length: 1536
trainer:
  n_gpus_per_node: 2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT)
    Path("job.yaml").write_text(YAML)
    return tmp_path


def written(
    *words: str, options: tuple[str, ...] = OPTIONS, stdin: str = ""
) -> tuple[dict[str, Any], Result]:
    result = run("plan", *options, "--write", "plans", *words, stdin=stdin)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer, result


def names() -> list[str]:
    return sorted(path.name for path in Path("plans").iterdir() if path.suffix != ".toml")


def expect_read_back(answer: dict[str, Any], suffix: str, *words: str) -> None:
    """Each file says the seconds and peaks of its setting, read with the settings of its folder alone."""
    cluster, settings = answer["plan"]["cluster"], answer["plan"]["settings"]
    assert settings
    for place, setting in enumerate(settings, start=1):
        file = f"plans/{cluster['gpus_per_node']}x{cluster['card']}-{place}{suffix}"
        expect_is(file, setting, *words)


def expect_is(file: str, setting: dict[str, Any], *words: str) -> None:
    """A file says the seconds and peaks of a setting, read with the settings of its folder alone."""
    result = run("advise", file, *words, "--output-format", "json")
    assert result.code == 0, result.err
    read = json.loads(result.out)
    assert read["step_time"]["seconds"] == setting["seconds"]
    peaks = {phase["phase"]: phase["peak_bytes"] for phase in setting["phases"]}
    assert {phase["phase"]: phase["peak_bytes"] for phase in read["memory"]["phases"]} == peaks


def test_a_yaml_file_keeps_its_comments_and_takes_what_was_typed() -> None:
    answer, _ = written("job.yaml", "trainer.total_training_steps=50")
    expect_read_back(answer, ".yaml")
    text = Path("plans/2xh100-sxm-1.yaml").read_text()
    assert text.startswith("# A job of ours.\n") and "# the model" in text
    assert "total_training_steps: 50" in text
    assert Path("job.yaml").read_text() == YAML


def test_a_script_stays_a_script() -> None:
    answer, _ = written("run.sh", "trainer.total_epochs=3")
    expect_read_back(answer, ".sh")
    text = Path("plans/2xh100-sxm-1.sh").read_text()
    assert text.startswith("#!/usr/bin/env bash\n# A job of ours.\n") and "trainer.total_epochs=3" in text
    assert all(line in text for line in answer["plan"]["settings"][0]["overrides"])
    subprocess.run(["bash", "-n", "plans/2xh100-sxm-1.sh"], check=True)
    assert Path("run.sh").read_text() == SCRIPT


def test_words_that_a_script_takes_are_named_and_not_written() -> None:
    Path("run.sh").write_text(SCRIPT.replace("rollout.n=4", "rollout.n=${ROUNDS:-4}"))
    answer, result = written("run.sh", "ROUNDS=2")
    assert "give them the words that the script takes: ROUNDS=2" in result.err
    expect_read_back(answer, ".sh", "ROUNDS=2")


def test_a_script_whose_value_is_computed_becomes_yaml_with_all_settings() -> None:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    Path("run.sh").write_text(SCRIPT.replace(f"{key}=4096", f"{key}=$((2 * 2048))"))
    answer, result = written("run.sh")
    assert (
        "YAML with all settings, since the file itself cannot take them: the value comes out of"
        in " ".join(result.err.split())
    )
    expect_read_back(answer, ".yaml")


def test_a_job_from_options_becomes_yaml() -> None:
    given = ("--model", "qwen2.5-0.5b", "/dev/null", "--", *JOB)
    answer, result = written(*given)
    assert "since the file itself" not in result.err
    expect_read_back(answer, ".yaml")
    assert f"{ROLLOUT.rpartition('.')[2]}:" in Path("plans/2xh100-sxm-1.yaml").read_text()


def test_a_command_becomes_a_script_and_only_on_what_its_launcher_starts() -> None:
    launch = ("torchrun", "--nproc_per_node=2", "-m", "verl.trainer.sft_trainer", "data.train_batch_size=64")
    options = ("--gpu", "h100-sxm", "--verl-version", "0.9.1", "--output-format", "json")
    answer, _ = written(*launch, "model.path=Qwen/Qwen2.5-0.5B", options=options)
    expect_read_back(answer, ".sh")
    rows = {row["plan"]["cluster"]["gpus"] for row in answer["capacity"] if row["plan"]["settings"]}
    assert 1 in rows
    assert [name for name in names() if not name.startswith("2xh100-sxm-")] == []


ELSEWHERE = ("--vary", "placement=colocated,one-step-off,fully-async,separate")
PROGRAMS = ("one-step-off", "fully-async")


def expect_placed(answer: dict[str, Any], suffix: str, *words: str) -> None:
    """Every placement lies in a file, whose command starts its program or is that of the job."""
    for one in answer["placements"][1:]:
        file = f"plans/2xh100-sxm-{one['placement']}{'.sh' if one['launch'] else suffix}"
        expect_is(file, one["setting"], *words)
        assert bool(one["launch"]) is (one["placement"] in PROGRAMS)
    assert len(names()) == len(answer["plan"]["settings"]) + 3


def test_a_script_starts_the_program_that_a_placement_needs() -> None:
    answer, _ = written("run.sh", "trainer.total_epochs=3", options=(*OPTIONS, *ELSEWHERE))
    expect_placed(answer, ".sh")
    for one in answer["placements"][1:3]:
        text = Path(f"plans/2xh100-sxm-{one['placement']}.sh").read_text()
        assert text.startswith("#!/usr/bin/env bash\n# A job of ours.\n") and '"$@"' in text
        assert f"python3 -m {one['needs']['program']} --config-name=" in text
        assert "main_ppo" not in text.replace(one["needs"]["program"], "")
        subprocess.run(["bash", "-n", f"plans/2xh100-sxm-{one['placement']}.sh"], check=True)


def test_a_placement_of_a_yaml_file_is_a_command_where_it_needs_another_program() -> None:
    Path("job.yaml").write_text(YAML + "  run_token: Aq3bR8xZ1LmQ\n")
    answer, result = written("job.yaml", options=(*OPTIONS, *ELSEWHERE))
    expect_placed(answer, ".yaml")
    text = Path("plans/2xh100-sxm-one-step-off.sh").read_text()
    assert "path=Qwen/Qwen2.5-0.5B-Instruct" in text and "Aq3bR8xZ1LmQ" in text
    assert "these values look like secrets" in result.err and "Aq3bR8xZ1LmQ" not in result.err + result.out


def test_a_script_whose_program_nobody_can_replace_is_left_for_the_command_alone() -> None:
    body = SCRIPT.replace("-m verl.trainer", "-m $PACKAGE.trainer").replace(
        "python3", "PACKAGE=verl\npython3"
    )
    Path("run.sh").write_text(body)
    answer, result = written("run.sh", options=(*OPTIONS, *ELSEWHERE))
    expect_placed(answer, ".sh")
    assert "since the script itself cannot take the program" in " ".join(result.err.split())


def test_standard_input_is_read_for_every_number_of_gpus() -> None:
    options = ("--gpu", "2xh100-sxm", "--verl-version", "0.9.1", "--output-format", "json")
    answer, _ = written("-", options=options, stdin=YAML)
    expect_read_back(answer, ".yaml")
    assert "1xh100-sxm-1.yaml" in names()


def test_each_card_and_number_has_a_file_of_its_own() -> None:
    options = ("--gpu", "h100-sxm,l40s", "--gpus-per-node", "1,2", "--verl-version", "0.9.1")
    answer, _ = written("job.yaml", options=(*options, "--output-format", "json"))
    for row in answer["capacity"]:
        cluster = row["plan"]["cluster"]
        file = f"plans/{cluster['gpus_per_node']}x{cluster['card']}-1.yaml"
        if row["plan"]["settings"]:
            read = json.loads(run("advise", file, "--output-format", "json").out)
            assert read["step_time"]["seconds"] == row["plan"]["settings"][0]["seconds"]


def test_diff_and_check_read_them_as_they_lie_there() -> None:
    answer, _ = written("run.sh")
    seconds = [setting["seconds"] for setting in answer["plan"]["settings"][:2]]
    files = ("plans/2xh100-sxm-1.sh", "plans/2xh100-sxm-2.sh")
    result = run("diff", *files, "--output-format", "json")
    assert result.code == 0, result.err
    sides = json.loads(result.out)
    assert [sides[side]["step_time"]["seconds"] for side in ("before", "after")] == seconds
    checked = run("check", *files)
    assert checked.code in (0, 1) and "2 files checked" in checked.err


def test_what_is_there_is_replaced_only_where_that_is_asked_for() -> None:
    written("job.yaml")
    before = {name: Path("plans", name).read_bytes() for name in names()}
    result = run("plan", *OPTIONS, "job.yaml", "--write", "plans")
    assert result.code == 2 and "the file is there already" in result.err
    Path("plans/2xh100-sxm-1.yaml").write_text("a: 1\n")
    assert run("plan", *OPTIONS, "job.yaml", "--write", "plans", "--force").code == 0
    assert {name: Path("plans", name).read_bytes() for name in names()} == before


def test_the_users_own_files_are_never_replaced() -> None:
    written("job.yaml")
    own = Path("plans/2xh100-sxm-1.yaml")
    before = own.read_bytes()
    result = run("plan", *OPTIONS, str(own), "--write", "plans", "--force")
    assert result.code == 2 and "the plan was made of this file" in result.err
    assert own.read_bytes() == before
    Path("ours").mkdir()
    Path("ours/tuner.toml").write_text('gpu = "a100-sxm-80gb"\n')
    result = run("plan", *OPTIONS, "job.yaml", "--write", "ours", "--force")
    assert result.code == 2 and "the folder has settings of its own" in result.err
    assert [path.name for path in Path("ours").iterdir()] == ["tuner.toml"]


def test_the_settings_of_the_project_still_hold() -> None:
    Path("tuner.toml").write_text('mean-response-length = 300\nignore = ["ALL"]\n')
    answer, _ = written("job.yaml")
    expect_read_back(answer, ".yaml")
    assert "no findings (" in run("check", "plans/2xh100-sxm-1.yaml").err  # so many not asked for


def test_where_nothing_fits_nothing_is_written() -> None:
    given = (
        "--gpu",
        "1xrtx-4090",
        "--verl-version",
        "0.9.1",
        "--model",
        "deepseek-v3",
        "/dev/null",
        "--",
        *JOB,
    )
    result = run("plan", "--write", "plans", *given)
    assert result.code == 1
    assert "nothing is written" in result.err and not Path("plans").exists()
