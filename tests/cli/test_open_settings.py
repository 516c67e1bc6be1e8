"""A key that some way of a script sets refuses no launch and rests on no default: it is said to be open."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B"
)
DYNAMIC = f"{LAUNCH} {ACTOR}.use_dynamic_bsz=True"
GPU = ("--gpu", "h100-sxm", "--verl-version", "0.9.1")


def advised(folder: Path, script: str, *words: str) -> dict[str, Any]:
    """The answer on a script."""
    file = folder / "run.sh"
    file.write_text(script)
    result = run("advise", str(file), *words, *GPU, "-f", "json")
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def finding(answer: dict[str, Any], code: str) -> dict[str, Any] | None:
    """The one finding of a code; None where there is none."""
    findings = [item for item in answer["findings"] if item["code"] == code]
    assert len(findings) <= 1
    return next(iter(findings), None)


ENGINE = f'A=()\nif [ "$USE_SGLANG" = 1 ]; then A+=({ROLLOUT}.name=sglang); fi\n{DYNAMIC} "${{A[@]}}"\n'


def test_a_key_that_only_the_other_way_sets_refuses_no_launch(tmp_path: Path) -> None:
    answer = advised(tmp_path, ENGINE)
    assert answer["verdict"] == "fits"
    open_name = finding(answer, "CFG137")
    assert open_name is not None
    assert (open_name["severity"], open_name["refuses"], open_name["overrides"]) == ("warning", False, [])
    assert open_name["message"] == (
        f"{ROLLOUT}.name: no rollout engine named where there is no default, only if not $USE_SGLANG = 1; "
        "USE_SGLANG=VALUE behind the script settles it"
    )
    assert open_name["location"]["line"] == 2
    assert finding(advised(tmp_path, ENGINE, "USE_SGLANG=1"), "CFG137") is None
    settled = finding(advised(tmp_path, ENGINE, "USE_SGLANG=0"), "CFG137")
    assert settled is not None
    assert settled["refuses"]


def test_check_fails_on_no_open_key(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(ENGINE)
    assert "CFG137" in run("check", str(file), *GPU).out
    words = (*GPU, "--select", "CFG137", "--fail-on", "error")
    assert run("check", str(file), *words).code == 0
    assert run("check", str(file), "USE_SGLANG=0", *words).code == 1


def test_what_every_way_is_refused_for_refuses_as_before(tmp_path: Path) -> None:
    answer = advised(tmp_path, ENGINE.replace("name=sglang", "n=8"))
    assert answer["verdict"] == "will_not_start"
    refusal = finding(answer, "CFG137")
    assert refusal is not None
    assert f"{ROLLOUT}.name is not set" in refusal["message"]


def test_a_way_that_sets_a_key_to_what_nobody_knows_is_not_said_to_be_refused(tmp_path: Path) -> None:
    script = f'A=()\nif [ -n "$ENGINE" ]; then A+=({ROLLOUT}.name=$ENGINE); fi\n{DYNAMIC} "${{A[@]}}"\n'
    answer = advised(tmp_path, script)
    open_name = finding(answer, "CFG137")
    assert open_name is not None
    assert not open_name["refuses"]
    assert "only if not -n $ENGINE; ENGINE=VALUE" in open_name["message"]


@pytest.mark.parametrize(
    ("before", "settles"),
    [
        ("", f"{ROLLOUT}.name is $ENGINE"),
        ("ENGINE=$(cat engine.txt)\n", f"{ROLLOUT}.name is $(cat engine.txt)"),
    ],
)
def test_a_key_of_unknown_value_is_not_unset(before: str, settles: str, tmp_path: Path) -> None:
    answer = advised(tmp_path, f"{before}{DYNAMIC} {ROLLOUT}.name=$ENGINE\n")
    assert answer["verdict"] == "fits"
    open_name = finding(answer, "CFG137")
    assert open_name is not None
    assert (open_name["severity"], open_name["overrides"]) == ("warning", [])
    assert open_name["message"].startswith(
        f"{ROLLOUT}.name: no rollout engine named where there is no default, if left out; {settles} ("
    )


def test_a_configuration_that_is_not_there_may_set_what_is_missing(tmp_path: Path) -> None:
    launch = DYNAMIC.replace("main_ppo", "main_ppo --config-path=config --config-name=own_trainer")
    answer = advised(tmp_path, f"{launch} {ROLLOUT}.mode=sync +trainer.nnodes=1\n")
    for code in ("CFG137", "CFG160"):
        item = finding(answer, code)
        assert item is not None
        assert not item["refuses"]
        assert "--config-name is own_trainer, which was not found here" in item["message"]
    own = finding(answer, "CFG119")  # the launch itself says what is refused
    assert own is not None
    assert own["refuses"]


def test_of_what_a_configuration_that_is_not_there_may_set_nothing_is_proposed(tmp_path: Path) -> None:
    launch = DYNAMIC.replace("main_ppo", "main_ppo --config-path=config --config-name=own_trainer")
    sets = f"{launch} {ROLLOUT}.name=vllm actor_rollout_ref.model.enable_gradient_checkpointing=True\n"

    def proposed(script: str) -> set[str]:
        findings = advised(tmp_path, script)["findings"]
        return {text.partition("=")[0] for item in findings for text in item["overrides"] if item["price"]}

    assert proposed(f"{launch} {ROLLOUT}.name=vllm\n") <= {f"{ACTOR}.use_dynamic_bsz"}
    assert "actor_rollout_ref.model.enable_gradient_checkpointing" in proposed(sets)
    whole = sets.replace("--config-path=config --config-name=own_trainer ", "")
    assert len(proposed(whole)) > len(proposed(sets))


def test_a_value_that_only_one_way_has_refuses_on_that_way_alone(tmp_path: Path) -> None:
    script = f'M=async\n[ "$SYNC" = 0 ] || M=sync\n{DYNAMIC} {ROLLOUT}.name=vllm {ROLLOUT}.mode=$M\n'
    answer = advised(tmp_path, script)
    mode = finding(answer, "CFG119")
    assert mode is not None
    assert (mode["severity"], answer["verdict"]) == ("warning", "fits")
    assert "only if not $SYNC = 0" in mode["message"]


def test_open_keys_do_not_stand_among_those_that_rest_on_defaults(tmp_path: Path) -> None:
    script = (
        f'A=()\nif [ "$LONG" = 1 ]; then A+=(data.max_response_length=8192); fi\n'
        f'{DYNAMIC} {ROLLOUT}.name=vllm data.train_batch_size=$BATCH "${{A[@]}}"\n'
    )
    answer = advised(tmp_path, script)
    resting = answer["premises"]["resting_on_defaults"]
    assert "data.max_prompt_length" in resting
    assert not {"data.max_response_length", "data.train_batch_size"} & set(resting)
    (tmp_path / "run.sh").write_text(script)
    for form in ((), ("--full",), ("-f", "markdown")):
        text = " ".join(run("advise", str(tmp_path / "run.sh"), *GPU, *form).out.split())
        unset = text.partition("not set")[2].partition("(defaults)")[0]
        assert "max_prompt_length=512" in unset
        assert "max_response_length" not in unset
        assert "train_batch_size" not in unset
        assert "max_response_length=512 only if not $LONG = 1 (" in text
        assert "data.train_batch_size is $BATCH (" in text
        assert "train_batch_size=1024 is taken" in text


def test_a_critic_that_an_open_estimator_may_not_want_refuses_no_launch(tmp_path: Path) -> None:
    launch = f"{DYNAMIC} {ROLLOUT}.name=vllm critic.use_dynamic_bsz=False\n".replace("=grpo", "=$ESTIMATOR")
    answer = advised(tmp_path, launch)
    critic = finding(answer, "CFG104")
    assert critic is not None
    assert (critic["refuses"], answer["verdict"] != "will_not_start") == (False, True)
    assert "algorithm.adv_estimator is $ESTIMATOR (" in critic["message"]
    settled = finding(advised(tmp_path, launch, "ESTIMATOR=gae"), "CFG104")
    assert settled is not None
    assert settled["refuses"]


def test_a_folder_of_files_that_nobody_names_is_open(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "export DATA_DIR=data/nq\nOUT_DIR=${OUT_DIR:-out}\n"
        "python3 -m verl.trainer.main_ppo data.train_files=$TRAIN_DATA_DIR/train.parquet "
        "data.val_files=$TRAIN_DATA_DIR/test.parquet trainer.validation_data_dir=$OUT_DIR/kept.jsonl "
        "custom_reward_function.path=$HOME/reward.py actor_rollout_ref.rollout.name=vllm "
        "actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.use_dynamic_bsz=True\n"
    )
    text = " ".join(run("advise", str(script), "--gpu", "h100-sxm").out.split())
    assert "open: data.train_files is $TRAIN_DATA_DIR/train.parquet" in text
    assert "give TRAIN_DATA_DIR=VALUE" in text
    assert "data.val_files is" not in text  # the same variable
    assert "OUT_DIR=VALUE" not in text
    assert "HOME=VALUE" not in text
    given = run("advise", str(script), "TRAIN_DATA_DIR=data", "--gpu", "h100-sxm").out
    assert "TRAIN_DATA_DIR" not in given


def test_open_arguments_that_no_figure_waits_for_are_left_to_the_full_answer(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$MODEL {ROLLOUT}.name=vllm "
        f"trainer.experiment_name=$NAME data.train_files=$FILES {ACTOR}.use_dynamic_bsz=True "
        "trainer.nnodes=$NODES\n"
    )
    words = ("advise", str(script), "--model", "Qwen/Qwen3-8B", *GPU)
    short, full = (" ".join(run(*words, *more).out.split()) for more in ((), ("--full",)))
    assert "open: trainer.nnodes is $NODES (" in short
    for name in ("MODEL", "NAME", "FILES"):
        assert f"give {name}=VALUE" not in short
        assert f"give {name}=VALUE" in full


def test_what_is_open_is_named_once(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"MORE=$(cat more.txt)\n{DYNAMIC} {ROLLOUT}.name=vllm $MORE trainer.nnodes=2 $MORE\n")
    text = " ".join(run("advise", str(script), *GPU).out.split())
    assert text.count("open: further arguments is $(cat more.txt)") == 1


SHARED = (
    f"{DYNAMIC} {ROLLOUT}.name=vllm data.train_batch_size=60 {ACTOR}.ppo_mini_batch_size=60 "
    "trainer.n_gpus_per_node=$1\n"
)


def test_an_open_number_of_gpus_is_one_on_which_the_job_starts(tmp_path: Path) -> None:
    answer = advised(tmp_path, SHARED)
    assert answer["verdict"] == "fits" and finding(answer, "CFG109") is None
    assert answer["workload"]["cluster"]["gpus_per_node"] == 4
    said = " ".join(run("advise", str(tmp_path / "run.sh"), *GPU).out.split())
    assert "GPUs: 4 of a node assumed, since nothing refuses the job on them as it does on 8" in said


def test_a_number_of_gpus_that_somebody_gives_is_that(tmp_path: Path) -> None:
    for words in (("8",), ("--gpus-per-node", "8")):
        answer = advised(tmp_path, SHARED, *words)
        assert answer["verdict"] == "will_not_start" and finding(answer, "CFG109") is not None


def test_a_job_that_starts_on_no_number_of_gpus_is_judged_on_the_default(tmp_path: Path) -> None:
    answer = advised(tmp_path, SHARED.replace("$1", "$1 trainer.no_such_key=1"))
    assert answer["workload"]["cluster"]["gpus_per_node"] == 8


def test_a_key_that_nothing_reads_is_told_beside_a_configuration_that_is_missing(tmp_path: Path) -> None:
    launch = DYNAMIC.replace("main_ppo", "main_ppo --config-name my_own")
    answer = advised(tmp_path, f"{launch} {ROLLOUT}.name=vllm {ACTOR}.grad_clip=5\n")
    dead = finding(answer, "CFG101")
    assert dead is not None
    assert dead["severity"] == "warning"
    assert f"{ACTOR}.grad_clip=5 does nothing" in dead["message"]
    assert f"reads {ACTOR}.optim.clip_grad instead and clips gradients at 1.0" in dead["message"]
    assert dead["overrides"] == [f"{ACTOR}.optim.clip_grad=5"]
    assert (Path(dead["location"]["source"]).name, dead["location"]["line"]) == ("run.sh", 1)
    assert dead["location"]["column"] > launch.index("--config-name")


def test_what_is_read_in_place_of_an_unread_key_is_not_said_to_be_unread(tmp_path: Path) -> None:
    answer = advised(tmp_path, f'{DYNAMIC} {ROLLOUT}.name=vllm {ACTOR}.grad_clip=5 "$@"\n')
    dead = finding(answer, "CFG101")
    assert dead is not None
    assert dead["message"].startswith(f"{ACTOR}.grad_clip")
    assert f"{ACTOR}.optim.clip_grad: a setting that this release never reads" not in dead["message"]
