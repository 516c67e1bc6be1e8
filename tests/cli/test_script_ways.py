"""A script whose tests nobody knows: one way is read, and what the others mean is said where they differ."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

JOB = (
    "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B "
    "actor_rollout_ref.actor.use_dynamic_bsz=True"
)
LAUNCH = f"python3 -m verl.trainer.main_ppo {JOB}"
ROLLOUT = "actor_rollout_ref.rollout"
GPU = ("--gpu", "h100-sxm")


def config(folder: Path, script: str, *words: str) -> dict[str, Any]:
    """What ``tuner config`` reads of a script."""
    file = folder / "run.sh"
    file.write_text(script)
    result = run("config", str(file), *words, "-f", "json")
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    return content


def values(content: dict[str, Any], *keys: str) -> list[Any]:
    """The values that were read of some keys; None where a key is not among those that the user set."""
    by_key = {setting["key"]: setting["value"] for setting in content["settings"]}
    return [by_key.get(key) for key in keys]


def remarks(content: dict[str, Any]) -> list[str]:
    """What is said of the tests, with the lines."""
    return [f"{remark['location']['line']}: {remark['text']}" for remark in content["not_followed"]]


def test_a_test_of_a_variable_is_read_as_without_it_and_says_what_the_other_way_is(tmp_path: Path) -> None:
    script = (
        'if [ "$USE_SGLANG" = 1 ]; then ENGINE=sglang; else ENGINE=vllm; fi\n'
        f"{LAUNCH} {ROLLOUT}.name=$ENGINE\n"
    )
    content = config(tmp_path, script)
    assert values(content, f"{ROLLOUT}.name") == ["vllm"]
    assert remarks(content) == [
        f"1: whether $USE_SGLANG = 1 is not known, and read as if not: {ROLLOUT}.name=vllm; "
        f"if so: {ROLLOUT}.name=sglang; USE_SGLANG=VALUE behind the script settles it"
    ]
    given = config(tmp_path, script, "USE_SGLANG=1")
    assert (values(given, f"{ROLLOUT}.name"), remarks(given)) == (["sglang"], [])


def test_a_branch_that_may_add_to_an_array_loses_none_of_it(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        f"ARGS=({ROLLOUT}.name=vllm)\n"
        'case "$SIZE" in\n'
        f"  small) ARGS+=({ROLLOUT}.n=4) ;;\n"
        f"  big) ARGS+=({ROLLOUT}.n=16 trainer.nnodes=2) ;;\n"
        "esac\n"
        f"ARGS+=({ROLLOUT}.gpu_memory_utilization=0.6)\n"
        f'{LAUNCH} "${{ARGS[@]}}" data.train_batch_size=64\n',
    )
    keys = ("name", "n", "gpu_memory_utilization")
    assert values(content, *(f"{ROLLOUT}.{key}" for key in keys)) == ["vllm", None, 0.6]
    small, big = remarks(content)
    assert small.startswith(f"3: whether $SIZE = small is not known, and read as if not: no {ROLLOUT}.n; ")
    assert f"if so: {ROLLOUT}.n=16, trainer.nnodes=2; SIZE=VALUE" in big


@pytest.mark.parametrize(
    "before",
    [
        'L=(python3); if [ "$UV" = 1 ]; then L=(uv run --extra vllm python3); fi',
        "L=(python3); [ -f uv.lock ] && L=(uv run python3)",
        "L=(python3); grep -q uv tools && L=(nohup python3)",
        'L=python3; [[ -n "$PYTHON_BIN" ]] && L=/usr/bin/python3',
    ],
)
def test_ways_that_end_in_the_same_job_ask_nobody(before: str, tmp_path: Path) -> None:
    content = config(tmp_path, f'{before}\n"${{L[@]}}" {LAUNCH.removeprefix("python3 ")} trainer.nnodes=2\n')
    assert (values(content, "trainer.nnodes"), remarks(content)) == ([2], [])


def test_two_programs_of_two_branches_are_one_job_where_they_get_the_same(tmp_path: Path) -> None:
    script = (
        f'if [ "$X" = 1 ]; then\n  {LAUNCH} trainer.nnodes=2\nelse\n  uv run {LAUNCH} trainer.nnodes=2\nfi\n'
    )
    assert remarks(config(tmp_path, script)) == []


def test_of_two_different_jobs_the_one_that_starts_as_typed_is_read(tmp_path: Path) -> None:
    script = f'if [ "$X" = 1 ]; then\n  {LAUNCH} trainer.nnodes=4\nelse\n  {LAUNCH} trainer.nnodes=2\nfi\n'
    content = config(tmp_path, script)
    assert values(content, "trainer.nnodes") == [2]
    assert remarks(content) == [
        "1: whether $X = 1 is not known, and read as if not: trainer.nnodes=2; if so: trainer.nnodes=4; "
        "X=VALUE behind the script settles it"
    ]
    assert values(config(tmp_path, script, "--launch", "1"), "trainer.nnodes") == [4]
    assert values(config(tmp_path, script, "X=1"), "trainer.nnodes") == [4]


def test_what_one_test_decides_is_taken_along_by_the_next_of_the_same_variable(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        'if [ "$KIND" = moe ]; then N=4; else N=2; fi\n'
        f"if [[ $KIND == moe ]]; then M=8; else M=6; fi\n{LAUNCH} trainer.nnodes=$N {ROLLOUT}.n=$M\n",
    )
    assert values(content, "trainer.nnodes", f"{ROLLOUT}.n") == [2, 6]
    (remark,) = remarks(content)
    assert f"if so: trainer.nnodes=4, {ROLLOUT}.n=8" in remark


@pytest.mark.parametrize(
    "before",
    [
        'if [ -z "${MODEL_PATH:-}" ]; then echo "set MODEL_PATH" >&2; exit 1; fi',
        '[[ -z ${MODEL_PATH:-} ]] && { echo "usage: MODEL_PATH=... $0"; exit 1; }',
        ': "${MODEL_PATH:?set MODEL_PATH}"',
        'MODEL_PATH=${MODEL_PATH:-}\ntest -n "$MODEL_PATH" || exit 1',
    ],
)
def test_a_script_that_needs_a_variable_says_so(before: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    launch = LAUNCH.replace("Qwen/Qwen2.5-0.5B", "$MODEL_PATH")
    file.write_text(f"{before}\n{launch} trainer.nnodes=2\n")
    result = run("advise", str(file), *GPU)
    assert result.code == 2
    assert "the model is $MODEL_PATH, which only a run would tell; give MODEL_PATH=PATH" in result.err
    assert run("advise", str(file), "MODEL_PATH=Qwen/Qwen2.5-0.5B", *GPU).code == 0


def test_a_variable_that_stands_for_the_program_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"$COMMAND {JOB} trainer.nnodes=2\n")
    result = run("advise", str(file), *GPU)
    assert result.code == 2
    assert "nobody sets $COMMAND, which stands for the program: give COMMAND=VALUE" in result.err
    assert run("advise", str(file), "COMMAND=python3 -m verl.trainer.main_ppo", *GPU).code == 0


def test_a_file_that_may_be_there_and_a_choice_of_the_node_are_tests_like_others(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        'R=disable\nif [ -d "$HOME/ckpt" ]; then R=auto; fi\n'
        "if (( NODES > 1 )); then N=$NODES; else N=3; fi\n"
        f"{LAUNCH} trainer.resume_mode=$R trainer.nnodes=$N\n",
    )
    assert values(content, "trainer.resume_mode", "trainer.nnodes") == ["disable", 3]
    file, nodes = remarks(content)
    assert file == (
        "2: whether -d $HOME/ckpt is not known, and read as if not: trainer.resume_mode=disable; "
        "if so: trainer.resume_mode=auto"
    )
    assert nodes.endswith(
        "trainer.nnodes=3; if so: trainer.nnodes=$NODES; NODES=VALUE behind the script settles it"
    )


def test_a_job_that_starts_only_if_a_test_holds_says_so(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        f'case "$STAGE" in\n  prepare) python3 prepare.py ;;\n  train) {LAUNCH} trainer.nnodes=2 ;;\nesac\n',
    )
    assert remarks(content) == ["3: the trainer starts only if $STAGE = train, which is taken to be so"]


def test_a_job_behind_two_tests_is_found(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        f'D=$(cat device)\nif [ -n "$D" ] && [ "$D" = cuda ]; then {LAUNCH} trainer.nnodes=2\n'
        f'elif [ -n "$D" ] && [ "$D" = rocm ]; then {LAUNCH} trainer.nnodes=3; fi\n',
    )
    assert values(content, "trainer.nnodes") == [2]
    assert remarks(content)[:2] == [
        "2: the trainer starts only if -n $(cat device), which is taken to be so",
        "2: the trainer starts only if $(cat device) = cuda, which is taken to be so",
    ]


@pytest.mark.parametrize(("count", "decided"), [(10, 10), (15, 12)])
def test_many_tests_are_followed_one_by_one_and_what_is_too_many_stays_open(
    count: int, decided: int, tmp_path: Path
) -> None:
    tests = "\n".join(f'[ "$T{number}" = 1 ] && A+=(trainer.k{number}=1)' for number in range(count))
    content = config(tmp_path, f'A=()\n{tests}\n{LAUNCH} "${{A[@]}}" trainer.nnodes=2\n')
    assert values(content, "trainer.nnodes") == [2]
    said = remarks(content)
    assert sum("read as if not: no trainer.k" in remark for remark in said) == decided
    assert sum("it decides further arguments" in remark for remark in said) == count - decided


def test_a_loop_that_may_go_on_is_not_decided(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        f'while [ ! -f ready ]; do sleep 5; W=1; done\nuntil ping -c 1 "$HEAD"; do sleep 1; done\n'
        f"{LAUNCH} trainer.nnodes=2\n",
    )
    assert (values(content, "trainer.nnodes"), remarks(content)) == ([2], [])


STAGES = (
    "OUT=$(pwd)/out\n"
    "torchrun --nproc_per_node=4 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-0.5B "
    "data.max_length=2048 trainer.default_local_dir=$OUT\n"
    "MODEL=\n"
    'for folder in "$OUT/hf_model" "$OUT/huggingface"; do\n'
    '  if [ -d "$folder" ]; then MODEL="$folder"; break; fi\ndone\n'
    'if [ -z "$MODEL" ]; then echo "no checkpoint"; exit 1; fi\n'
    f"{LAUNCH.replace('Qwen/Qwen2.5-0.5B', '$MODEL')}\n"
)


def test_a_step_behind_a_test_of_what_an_earlier_step_writes_is_read(tmp_path: Path) -> None:
    content = config(tmp_path, STAGES)
    assert values(content, "algorithm.adv_estimator") == ["grpo"]
    said = remarks(content)
    assert any(
        "2 launches: --launch 1: verl.trainer.fsdp_sft_trainer, line 2; --launch 2: "
        "verl.trainer.main_ppo, line 8; judged is launch 2" in remark
        for remark in said
    )
    assert any("the trainer starts only if -d $PWD/out/huggingface" in remark for remark in said)
    assert values(config(tmp_path, STAGES, "--launch", "1"), "data.max_length") == [2048]


def test_a_model_that_an_earlier_launch_of_the_script_has_trained_is_the_one_it_trained(
    tmp_path: Path,
) -> None:
    file = tmp_path / "run.sh"
    file.write_text(STAGES)
    result = run("advise", str(file), *GPU, "-f", "json")
    assert result.code == 0, result.err
    premises = json.loads(result.out)["premises"]
    assert "what verl.trainer.fsdp_sft_trainer" in json.dumps(premises)


def test_of_launches_that_train_alike_one_has_to_be_chosen(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{LAUNCH} trainer.nnodes=2\n{LAUNCH} trainer.nnodes=4\n")
    assert run("advise", str(file), *GPU).code == 2


def test_a_loop_that_waits_and_ends_the_script_in_its_last_round_may_be_left_before(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        "for i in 1 2; do\n  if grep -q ready state; then N=2; break; fi\n"
        f"  if [ $i = 2 ]; then exit 1; fi\ndone\n{LAUNCH} trainer.nnodes=2\n",
    )
    assert values(content, "trainer.nnodes") == [2]


def test_fixes_go_to_the_launch_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    sft = "python3 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-0.5B"
    file.write_text(f"{sft}\n{LAUNCH} +actor_rollout_ref.actor.strategy=fsdp\n")
    run("check", str(file), *GPU, "--verl-version", "0.7.0", "--fix")
    first, second = file.read_text().splitlines()
    assert first == sft
    assert " actor_rollout_ref.actor.strategy=fsdp" in second


def test_variables_that_are_asked_for_one_after_another_are_open_together(tmp_path: Path) -> None:
    content = config(
        tmp_path,
        'require() { if [ -z "${!1:-}" ]; then echo "no $1"; exit 2; fi; }\n'
        f"require MODEL\nrequire DATA\nrequire OUT\n{LAUNCH} trainer.nnodes=2 data.train_files=$DATA\n",
    )
    assert values(content, "trainer.nnodes") == [2]
