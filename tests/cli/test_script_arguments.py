"""Arguments of a script that nobody gave are open, and asked for by the script's own words."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True critic.use_dynamic_bsz=True"
)
PATHS = "actor_rollout_ref.model.path=$MODEL_PATH critic.model.path=$MODEL_PATH"
BY_PLACE = (
    f"GPUS=$2\nMODEL_PATH=$4\nNAME=${{MODEL_PATH##*/}}\n{LAUNCH} {PATHS} trainer.n_gpus_per_node=$GPUS\n"
)
ASKING = (
    'if [ -z "$1" ]; then\n  echo "Usage: $0 <category> <model_path>"\n  exit 1\nfi\n'
    f"MODEL_PATH=${{2}}\n{LAUNCH} {PATHS}\n"
)
GPU = ("--gpu", "h100-sxm", "--verl-version", "0.9.1")


def script(folder: Path, content: str) -> Path:
    file = folder / "run.sh"
    file.write_text(content)
    return file


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        (BY_PLACE, "the model is $4, which only a run would tell; {give}: MODEL_PATH=$4 (line 2)"),
        (
            ASKING,
            "the model is $2, which only a run would tell; {give}: MODEL_PATH=${{2}} (line 5); "
            "Usage: $0 <category> <model_path>",
        ),
    ],
)
def test_the_argument_that_names_the_model_is_asked_for(content: str, asked: str, tmp_path: Path) -> None:
    answer = run("advise", str(script(tmp_path, content)), *GPU)
    assert answer.code == 2
    assert asked.format(give="give the script its arguments, or --model NAME") in answer.err
    assert "speaks of one" not in answer.err


TEACHER = "+actor_rollout_ref.ref.model.path=/models/Qwen3-30B-A3B-Thinking-2507"
BY_SIZE = f"""usage() {{
    cat >&2 <<'EOF'
Usage: run.sh {{4b|8b}} {{plain|warm}}
EOF
}}
if [[ $# -ne 2 ]]; then
    usage
    exit 2
fi
SCALE=$1
MODE=$2
case "${{MODE}}" in
    plain|warm) ;;
    *) usage; exit 2 ;;
esac
SMALL=${{SMALL:-Qwen/Qwen3-4B}}
case "${{SCALE}}" in
    4b)
        STUDENT=${{SMALL}}
        ;;
    8b)
        STUDENT=Qwen/Qwen3-8B
        ;;
    *)
        usage
        exit 2
        ;;
esac
METHOD=()
case "${{MODE}}" in
    plain)
        METHOD=(trainer.critic_warmup=0)
        ;;
    warm)
        STEPS=1
        if [[ "${{SCALE}}" == "8b" ]]; then
            STEPS=2
        fi
        METHOD=(trainer.critic_warmup="${{STEPS}}")
        ;;
esac
CMD=(
    {LAUNCH} actor_rollout_ref.model.path="${{STUDENT}}" critic.model.path="${{STUDENT}}" {TEACHER}
    "${{METHOD[@]}}"
)
exec "${{CMD[@]}}"
"""


def test_an_argument_by_which_the_script_chooses_the_model_comes_before_any_offer(tmp_path: Path) -> None:
    answer = run("advise", str(script(tmp_path, BY_SIZE)), *GPU)
    assert answer.code == 2
    asked = "give the script its arguments, or --model NAME: SCALE=$1 (line 10); MODE=$2 (line 11); Usage: "
    assert asked in answer.err
    assert "speaks of one" not in answer.err


def test_the_model_of_a_teacher_is_no_offer_for_the_policy(tmp_path: Path) -> None:
    answer = run("advise", str(script(tmp_path, f"{LAUNCH} {TEACHER}\n")), *GPU)
    assert answer.code == 2
    assert "speaks of one" not in answer.err


def test_a_model_that_judges_is_no_offer_for_the_policy(tmp_path: Path) -> None:
    judge = "reward_model.model.path=sfairXC/FsfairX-LLaMA3-RM-v0.1"
    for line in (f"{BY_PLACE.rstrip()} {judge}\n", f"{LAUNCH} actor_rollout_ref.model.path=/mine {judge}\n"):
        answer = run("advise", str(script(tmp_path, line)), *GPU)
        assert answer.code == 2
        assert "speaks of one" not in answer.err


def test_what_an_argument_decides_is_open_and_no_error(tmp_path: Path) -> None:
    file = script(tmp_path, BY_PLACE)
    answer = run("advise", str(file), *GPU, "--model", "Qwen/Qwen2.5-7B", "-f", "json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    opened = {value["key"]: value["text"] for value in report["premises"]["open_values"]}
    assert opened == {
        "actor_rollout_ref.model.path": "$4",
        "critic.model.path": "$4",
        "trainer.n_gpus_per_node": "$2",
    }
    assert report["workload"]["critic"]["model"]["name"] == "Qwen2.5-7B"
    given = ("-n", "2", "-m", "Qwen/Qwen2.5-3B")
    report = json.loads(run("advise", str(file), *GPU, "-f", "json", "--", *given).out)
    assert report["workload"]["cluster"]["gpus_per_node"] == 2
    assert not report["premises"]["open_values"]


def test_a_configuration_of_the_tree_names_no_model_that_the_script_takes(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/own.yaml").write_text("actor_rollout_ref:\n  model:\n    path: Qwen/Qwen2.5-7B\n")
    launch = BY_PLACE.replace("main_ppo", "main_ppo --config-path=config --config-name=own")
    answer = run("advise", str(script(tmp_path, launch)), *GPU)
    assert answer.code == 2
    assert "the model is $4" in answer.err


def test_an_optional_argument_keeps_its_default(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        f"N=${{1:-4}}\n{LAUNCH} actor_rollout_ref.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=$N\n",
    )
    report = json.loads(run("advise", str(file), *GPU, "-f", "json").out)
    assert report["workload"]["cluster"]["gpus_per_node"] == 4


def test_of_many_open_values_a_short_answer_names_four(tmp_path: Path) -> None:
    engine = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "gpu_memory_utilization")
    keys = ("trainer.nnodes", "trainer.save_freq", *(f"actor_rollout_ref.rollout.{key}" for key in engine))
    idle = "trainer.project_name=$7"  # no answer waits for it
    further = " ".join((*(f"{key}=${number}" for number, key in enumerate(keys, 1)), idle))
    file = script(tmp_path, f"{LAUNCH} actor_rollout_ref.model.path=Qwen/Qwen2.5-7B {further}\n")
    short = " ".join(run("advise", str(file), *GPU).out.split())
    assert "rollout.max_num_batched_tokens is $4" in short
    assert "2 more: --full" in short and "project_name" not in short
    assert "trainer.project_name is $7" in " ".join(run("advise", str(file), *GPU, "--full").out.split())


def test_an_argument_that_nobody_gives_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "N=$1\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=$N "
        "actor_rollout_ref.model.path=Qwen/Qwen3-8B\n"
    )
    shown = " ".join(run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm").out.split())
    assert "actor_rollout_ref.rollout.n is $1" in shown
    assert ": give it behind the script, as its argument 1" in shown
