"""What a script decides by something that is not run stands among the premises, with its line."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import RELEASE, run

pytestmark = pytest.mark.sampled(12)

LAUNCH = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True"
)
GPU = ("--gpu", "h100-sxm")
SOURCED = "is not run: what it sets is not known"
PRINTS = "is not run: what it prints decides"
CARDS = "; 8 cards are assumed, --gpu 4xNAME says otherwise"
SUCCEEDS = "is not run: whether it succeeds decides"
READ_AS_NOT = "is not known, and read as if not:"


def said(folder: Path, before: str, further: str = "", *, within: str = "{}") -> list[tuple[int, str]]:
    """The lines and sentences of the premises of a script, which all forms of the answer agree on."""
    script = folder / "run.sh"
    script.write_text(f"{before}\n{within.format(f'{LAUNCH} {further}')}\n")
    answer = json.loads(run("advise", *RELEASE, str(script), *GPU, "-f", "json").out)
    remarks = answer["premises"]["not_followed"]
    settings = json.loads(run("config", str(script), "-f", "json").out)
    # An answer takes a number of cards where nobody says it; settings that are run again do not.
    assumed = [{**one, "text": one["text"].removesuffix(CARDS)} for one in remarks]
    assert settings["not_followed"] == assumed
    full = " ".join(run("advise", *RELEASE, str(script), *GPU, "--full").out.split())
    listed = " ".join(run("config", str(script)).out.split())
    for remark, known in zip(remarks, assumed, strict=True):
        place = f" ({script}:{remark['location']['line']}:"
        assert f"{remark['text']}{place}".replace(" ", "") in full.replace(" ", "")
        assert f"{known['text']}{place}".replace(" ", "") in listed.replace(" ", "")
    return [(remark["location"]["line"], remark["text"]) for remark in remarks]


@pytest.mark.parametrize(
    ("before", "further", "expected"),
    [
        (
            "set -x\nsource <(curl -s https://example.org/env.sh)",
            "",
            [(2, f"<(curl -s https://example.org/env.sh) {SOURCED}")],
        ),
        ('eval "$(cat vars.sh)"', "", [(1, f"eval $(cat vars.sh) {SOURCED}")]),
        (
            "N=$(nvidia-smi -L | wc -l)",
            "trainer.n_gpus_per_node=$N",
            [
                (
                    1,
                    f"$(nvidia-smi -L | wc -l) {PRINTS} trainer.n_gpus_per_node{CARDS}",
                )
            ],
        ),
        (
            "L=$(cat length.txt)\nM=$((L * 2))",
            "data.max_response_length=$M data.max_prompt_length=$L",
            [(1, f"$(cat length.txt) {PRINTS} data.max_response_length, data.max_prompt_length")],
        ),
        (
            "X=$(\n  python3 -c 'print(8)'\n)\nY=${X%0}",
            "trainer.nnodes=${Y}",
            [(1, f"$( python3 -c 'print(8)' ) {PRINTS} trainer.nnodes")],
        ),
        (
            'if [ "$(hostname)" = big ]; then T=8; else T=4; fi',
            "actor_rollout_ref.rollout.tensor_model_parallel_size=$T",
            [
                (
                    1,
                    f"whether $(hostname) = big {READ_AS_NOT} "
                    "actor_rollout_ref.rollout.tensor_model_parallel_size=4; if so: "
                    "actor_rollout_ref.rollout.tensor_model_parallel_size=8",
                )
            ],
        ),
        (
            "K=$(uname -n)\ncase $K in a*) T=1 ;; b) T=2 ;; esac",
            "trainer.nnodes=$T",
            [
                (2, f"whether $(uname -n) = a* {READ_AS_NOT} trainer.nnodes=$T; if so: trainer.nnodes=1"),
                (2, f"whether $(uname -n) = b {READ_AS_NOT} trainer.nnodes=$T; if so: trainer.nnodes=2"),
            ],
        ),
        (
            "K=$(wc -l < hosts)\nif ((K > 1)); then T=$K; fi",
            "trainer.nnodes=${T:-1}",
            [
                (
                    2,
                    f"whether (( K > 1 )) {READ_AS_NOT} trainer.nnodes=1; if so: "
                    "trainer.nnodes=$(wc -l < hosts)",
                )
            ],
        ),
        (
            'R=False\npython3 -c "import flash_attn" && R=True',
            "actor_rollout_ref.model.use_remove_padding=$R",
            [
                (
                    2,
                    "python3 -c import flash_attn is not run, and taken to fail: "
                    "actor_rollout_ref.model.use_remove_padding=False; if it succeeds: "
                    "actor_rollout_ref.model.use_remove_padding=True",
                )
            ],
        ),
        (
            "i=0\nwhile true; do i=$((i + 1)); done",
            "",
            [(2, "while true has no end that can be seen: it is followed for 1,000 rounds")],
        ),
        (
            "for ((;1;)); do :; done",
            "",
            [(1, "for ((;1;)) has no end that can be seen: it is followed for 1,000 rounds")],
        ),
    ],
)
def test_what_decides_and_is_not_run_is_said(
    before: str, further: str, expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    assert said(tmp_path, before, further) == expected


def test_a_command_that_decides_whether_the_trainer_starts_is_said(tmp_path: Path) -> None:
    within = "if grep -q H100 cards; then\n{}\nfi"
    expected = [(2, f"grep -q H100 cards {SUCCEEDS} whether the trainer is started here")]
    assert said(tmp_path, "", within=within) == expected


@pytest.mark.parametrize(
    ("before", "further"),
    [
        ("echo $(date)\nmkdir -p out/$(date +%s)", ""),
        ("DIR=$(dirname $(readlink -f $0))\ncd $DIR", "trainer.default_local_dir=$DIR/out"),
        ("", "trainer.experiment_name=run-$(date +%s)"),
        ("X=$(cat a); Y=$(cat b)\nif [ $X = 1 ]; then Z=1; fi", "trainer.nnodes=2"),
        ("(while true; do nvidia-smi >> log; sleep 5; done) &", ""),
        ("while true; do sleep 5; done &", ""),
        ('eval "$(conda shell.bash hook)"', ""),
        ("command -v nvcc || exit 1\n[ -f data ] || exit 1", ""),
        ("for i in 1 2 3; do echo $i; done", ""),
        ("N=$(cat n)\nN=4", "trainer.nnodes=$N"),
    ],
)
def test_what_decides_nothing_is_not_said(before: str, further: str, tmp_path: Path) -> None:
    assert said(tmp_path, before, further) == []


def test_a_short_answer_names_three_and_counts_the_others(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    names = ("trainer.nnodes", "trainer.n_gpus_per_node", "data.train_batch_size", "data.max_prompt_length")
    script.write_text(" ".join([LAUNCH, *(f"{name}=$(cat {name})" for name in names)]) + "\n")
    short = " ".join(run("advise", str(script), *GPU).out.split())
    assert short.count(PRINTS) == 3
    assert "script: 1 more of that kind: --full" in short
    assert " ".join(run("advise", *RELEASE, str(script), *GPU, "--full").out.split()).count(PRINTS) == 4


def test_a_script_without_a_launch_names_what_may_start_one(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        f"LAUNCH=(true)\nread kind < $(cat file)\nLAUNCH=($(cat $kind))\n"
        f'"${{LAUNCH[@]}}" {LAUNCH.removeprefix("python3 ")} trainer.experiment_name=$(date)\n'
    )
    result = run("advise", str(script), *GPU)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"not run, and it decides: $(cat $kind) ({script}:3:9); give the arguments" in result.err


def test_a_comparison_says_what_either_side_does_not_run(tmp_path: Path) -> None:
    script, other = tmp_path / "run.sh", tmp_path / "other.sh"
    script.write_text(f"{LAUNCH} trainer.nnodes=$(cat nodes)\n")
    other.write_text(f"{LAUNCH}\n")
    text = run("diff", str(script), str(other), *GPU).out
    assert f"$(cat nodes) {PRINTS} trainer.nnodes" in " ".join(text.split())


_FROM_FILE = """\
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
eval "$(python3 "$HERE/load.py" "$HERE/config.yaml")"
model=$model_default
if [ -n "$pair" ]; then
    IFS=':' read -r checkpoint model <<< "$pair"
fi
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=$model \\
    data.train_batch_size=$batch actor_rollout_ref.actor.ppo_mini_batch_size=$mini \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$micro actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=$micro \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=$micro trainer.experiment_name=$name
"""


def test_a_file_that_the_script_takes_its_settings_from_leaves_the_job_open(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(_FROM_FILE)
    words = ("advise", str(script), "--model", "Qwen3-8B", "--gpu", "h100-sxm")
    text = " ".join(run(*words).out.split())
    assert text.startswith("CANNOT SAY")
    assert "from config.yaml, which is not read: give key=value" in text
    answer = json.loads(run(*words, "--output-format", "json").out)
    assert answer["verdict"] == "cannot_say"
    assert answer["combination"] is None
    assert not any(item["overrides"] for item in answer["findings"])
    assert not {"CFG104"} & {item["code"] for item in answer["findings"]}
    given = ("batch=64", "mini=64", "micro=2")
    by_key = (
        "data.train_batch_size=64",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
    )
    for more in (given, by_key):
        settled = json.loads(run("advise", str(script), *more, *words[2:], "--output-format", "json").out)
        assert settled["verdict"] != "cannot_say"


def test_a_variable_that_the_script_sets_itself_is_not_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(_FROM_FILE)
    error = run("advise", str(script), "--gpu", "h100-sxm").err
    assert "the model is $model" in error
    assert "model=PATH" not in error
    assert "--model NAME" in error


_FROM_ARGUMENT = """\
CONFIG=${1:?a file with settings}
get() { python3 -c "import yaml; print(yaml.safe_load(open('$CONFIG')).get('$1', '$2'))"; }
batch=$(get batch_size 64)
length=$(get max_length 2048)
"""


def test_so_does_a_file_that_the_script_is_given(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    overrides = "data.train_batch_size=$batch data.max_response_length=$length"
    script.write_text(f"{_FROM_ARGUMENT}{LAUNCH} {overrides}\n")
    text = " ".join(run("advise", str(script), "--gpu", "h100-sxm").out.split())
    assert text.startswith("CANNOT SAY")
    assert "takes 2 of its settings from *.yaml, which is not read" in text
