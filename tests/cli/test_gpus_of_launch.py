"""How many GPUs a launch has: what it shows to its processes, counts, or leaves to an argument."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

SFT = (
    "-m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=2 data.train_batch_size=4 "
    "data.max_length=2048 model.partial_pretrain=Qwen/Qwen2.5-0.5B"
)
PPO = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True"
)
USAGE = """\
if [ "$#" -lt 2 ]; then
  echo "Usage: run.sh <nproc_per_node> <save_path>"
  exit 1
fi
n=$1
shift 2
"""


def advised(folder: Path, script: str, *words: str, gpu: str = "h100-sxm") -> dict[str, Any]:
    """The answer on a script."""
    file = folder / "run.sh"
    file.write_text(script)
    result = run("advise", str(file), *words, "--gpu", gpu, "-f", "json", "--verl-version", "0.4.1")
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def gpus(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["workload"]["cluster"]["gpus_per_node"], answer["premises"]["gpus_reason"]


@pytest.mark.parametrize(
    ("script", "count"),
    [
        (f"{USAGE}CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=$n {SFT} $@\n", 2),
        (f"export CUDA_VISIBLE_DEVICES=0,1,2\n{USAGE}torchrun --nproc_per_node $n {SFT} $@\n", 3),
        (f"CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=gpu {SFT}\n", 2),
        (f"export CUDA_VISIBLE_DEVICES=4,5,6,7\n{PPO} trainer.n_gpus_per_node=$N\n", 4),
        (f"set -a\nCUDA_VISIBLE_DEVICES=4,5,6,7\nset +a\nexport CUDA_VISIBLE_DEVICES\n{PPO}\n", 4),
        (f"env HIP_VISIBLE_DEVICES=0,1 {PPO}\n", 2),
    ],
)
def test_devices_that_a_launch_shows_are_the_node(script: str, count: int, tmp_path: Path) -> None:
    number, reason = gpus(advised(tmp_path, script))
    assert (number, reason.partition("=")[0][-15:]) == (count, "VISIBLE_DEVICES")
    told = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1").out
    assert f"GPUs: {count} of a node, by " in told
    assert gpus(advised(tmp_path, script, gpu="8xh100-sxm")) == (8, "--gpu")
    told = run("advise", str(tmp_path / "run.sh"), "--gpu", "8xh100-sxm", "--verl-version", "0.4.1").out
    assert "of a node, by" not in told


@pytest.mark.parametrize(
    ("script", "count"),
    [
        (f"CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=2 {SFT}\n", 2),
        (f"CUDA_VISIBLE_DEVICES=0,1\n{PPO} trainer.n_gpus_per_node=4\n", 4),
        (f"CUDA_VISIBLE_DEVICES=0,1\n{PPO}\n", 8),  # it is exported to nothing
        (f"export CUDA_VISIBLE_DEVICES=$DEVICES\n{PPO}\n", 8),
        (f"export CUDA_VISIBLE_DEVICES=\n{PPO}\n", 8),
        (f"CUDA_VISIBLE_DEVICES=0,1 torchrun {SFT}\n", 1),
    ],
)
def test_what_is_told_otherwise_or_not_known_is_no_number_of_devices(
    script: str, count: int, tmp_path: Path
) -> None:
    number, reason = gpus(advised(tmp_path, script))
    assert number == count
    assert "VISIBLE_DEVICES" not in reason


def refusals(folder: Path, script: str) -> list[str]:
    """The refusals of one kind that a script gets, and what they would have pasted."""
    findings = advised(folder, script)["findings"]
    return [one["overrides"][0] for one in findings if one["code"] == "CFG201" and one["refuses"]]


ASKING = f"{PPO} trainer.n_gpus_per_node=4"


@pytest.mark.parametrize("shown", ["export CUDA_VISIBLE_DEVICES=0,1\n", "CUDA_VISIBLE_DEVICES=3,5 "])
def test_a_ray_of_its_own_that_sees_too_few_gpus_stops_the_job(shown: str, tmp_path: Path) -> None:
    assert refusals(tmp_path, f"{shown}{ASKING}\n") == ["trainer.n_gpus_per_node=2"]


@pytest.mark.parametrize(
    ("batch", "mini_batch", "tensor"), [(512, 448, 1), (448, 4, 1), (448, 448, 2), (448, 448, 8)]
)
def test_as_many_gpus_as_are_shown_are_offered_where_the_job_starts_on_them(
    batch: int, mini_batch: int, tensor: int, tmp_path: Path
) -> None:
    """Seven do not divide 512 sequences, are more than a mini-batch of 4, and no whole engines of 2 or 8."""

    def job(batch: int, mini_batch: int, tensor: int) -> str:
        return (
            f"export CUDA_VISIBLE_DEVICES=1,2,3,4,5,6,7\n{PPO} trainer.n_gpus_per_node=8 "
            f"data.train_batch_size={batch} actor_rollout_ref.actor.ppo_mini_batch_size={mini_batch} "
            f"actor_rollout_ref.rollout.tensor_model_parallel_size={tensor}\n"
        )

    script = job(batch, mini_batch, tensor)
    (refusal,) = (one for one in advised(tmp_path, script)["findings"] if one["code"] == "CFG201")
    assert refusal["overrides"] == []
    assert "Show 8 devices by CUDA_VISIBLE_DEVICES." in refusal["notes"]
    assert refusals(tmp_path, job(448, 448, 1)) == ["trainer.n_gpus_per_node=7"]


@pytest.mark.parametrize(
    "script",
    [
        f"ray start --head\nCUDA_VISIBLE_DEVICES=0,1 {ASKING}\n",
        f"export CUDA_VISIBLE_DEVICES=0,1\nray job submit -- {ASKING}\n",
        f"export RAY_ADDRESS=auto\nexport CUDA_VISIBLE_DEVICES=0,1\n{ASKING}\n",
        f"CUDA_VISIBLE_DEVICES=0,1 {ASKING} +ray_init.address=auto\n",
        f"CUDA_VISIBLE_DEVICES=0,1 {ASKING} trainer.nnodes=2\n",
        f"CUDA_VISIBLE_DEVICES=0,1,2,3 {ASKING}\n",
        f"CUDA_VISIBLE_DEVICES=0,1\n{ASKING}\n",
    ],
)
def test_a_ray_that_is_not_the_programs_own_has_its_own_devices(script: str, tmp_path: Path) -> None:
    assert not refusals(tmp_path, script)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"export CUDA_VISIBLE_DEVICES=0,1\n{PPO} trainer.n_gpus_per_node=4\n", "4 of a node, of which {}"),
        (f"CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 {SFT}\n", "4 of a node, of which {}"),
        (f"export CUDA_VISIBLE_DEVICES=0,1\n{PPO} trainer.n_gpus_per_node=2\n", ""),
        (f"export CUDA_VISIBLE_DEVICES=0,1,2,3\n{PPO} trainer.n_gpus_per_node=2\n", ""),
    ],
)
def test_more_gpus_than_the_launch_shows_are_said(script: str, said: str, tmp_path: Path) -> None:
    """0.9.1 single_controller/ray/base.py:241: verl stops where Ray has fewer than it asks for."""
    advised(tmp_path, script)
    told = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm", "--verl-version", "0.4.1").out
    assert ("  GPUs: " in told) is bool(said)
    assert said.format("CUDA_VISIBLE_DEVICES=0,1 shows 2") in " ".join(told.split())


def test_an_argument_that_decides_the_number_is_named(tmp_path: Path) -> None:
    script = f"{USAGE}torchrun --nproc_per_node=$n {SFT} data.train_batch_size=64 $@\n"
    assert gpus(advised(tmp_path, script)) == (8, "an assumption: $1 decides it")
    file = tmp_path / "run.sh"
    words = ("--verl-version", "0.4.1", "--gpu")
    told = " ".join(run("advise", str(file), *words, "h100-sxm").out.split())
    assert f"GPUs: $1 decides how many a node has ({file}:7:10); 8 assumed: give --gpu 2xh100-sxm" in told
    for given in (("2", "out", *words, "h100-sxm"), (*words, "2xh100-sxm")):
        told = run("advise", str(file), *given).out
        assert "2 x h100-sxm" in " ".join(told.split())
        assert "decides how many" not in told


def test_what_only_the_assumed_number_refuses_is_open(tmp_path: Path) -> None:
    answer = advised(tmp_path, f"{USAGE}torchrun --nproc_per_node=$n {SFT} $@\n")  # 4 sequences for 8 ranks
    (finding,) = (one for one in answer["findings"] if one["code"] == "CFG181")
    assert (finding["severity"], finding["refuses"], finding["overrides"]) == ("warning", False, [])
    assert "on 8 GPUs; $1 decides how many there are" in finding["message"]
    answer = advised(tmp_path, f"{USAGE}torchrun --nproc_per_node=$n {SFT} $@\n", gpu="8xh100-sxm")
    assert "CFG181" in [one["code"] for one in answer["findings"] if one["refuses"]]


def test_what_counts_the_cards_follows_the_number_that_is_assumed(tmp_path: Path) -> None:
    script = (
        f"N=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\n{PPO} trainer.n_gpus_per_node=$N "
        "actor_rollout_ref.rollout.tensor_model_parallel_size=$N\n"
    )
    answer = advised(
        tmp_path, script.replace("tensor_model_parallel_size=$N", "tensor_model_parallel_size=1")
    )
    assert gpus(answer)[0] == 8
    (remark,) = answer["premises"]["not_followed"]
    assert remark["text"].endswith("8 cards are assumed, --gpu 4xNAME says otherwise")
    answer = advised(tmp_path, script, gpu="8xh100-sxm")
    (refusal,) = (one for one in answer["findings"] if one["refuses"])
    assert "tensor_model_parallel_size=8 does not divide the 14 attention heads" in refusal["message"]


def test_cards_that_a_script_counts_are_as_many_as_its_job_starts_on(tmp_path: Path) -> None:
    """Its author ran it, on a number that 14 heads can be divided by."""
    script = (
        f"N=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\n{PPO} trainer.n_gpus_per_node=$N "
        "actor_rollout_ref.rollout.tensor_model_parallel_size=$N\n"
    )
    answer = advised(tmp_path, script)
    assert gpus(answer)[0] == answer["workload"]["rollout"]["tensor_parallel"] == 2
    assert not [one for one in answer["findings"] if one["refuses"]]
    (remark,) = answer["premises"]["not_followed"]
    assert remark["text"].endswith(
        "2 GPUs are assumed, since on 8 cards the job does not start; --gpu 8xNAME says otherwise"
    )
    answer = advised(tmp_path, script.replace("parallel_size=$N", "parallel_size=5"))
    assert gpus(answer)[0] == 8  # it starts on none


COUNTS = f"N=$(nvidia-smi -L | wc -l)\n{PPO} trainer.n_gpus_per_node=$N\n"


def of_slurm(folder: Path, lines: str, script: str, *options: str) -> dict[str, Any]:
    """The answer on a script with ``#SBATCH`` lines."""
    file = folder / "job.sh"
    file.write_text(f"#!/bin/bash\n{lines}\n{script}")
    result = run("advise", str(file), "-f", "json", "--verl-version", "0.4.1", *options)
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def test_what_the_script_asks_slurm_for_is_the_node(tmp_path: Path) -> None:
    answer = of_slurm(tmp_path, "#SBATCH --gres=gpu:L40S:4", COUNTS)
    cluster = answer["workload"]["cluster"]
    assert (cluster["gpu"]["name"], cluster["gpus_per_node"]) == ("l40s", 4)
    place = f"{tmp_path / 'job.sh'}:2"
    assert answer["premises"]["gpu_reason"] == place
    (remark,) = answer["premises"]["not_followed"]
    assert remark["text"].endswith(f"; 4 GPUs taken, by {place}")


@pytest.mark.parametrize(
    ("script", "options", "gpu", "number"),
    [
        (COUNTS, ("--gpu", "2xh100-sxm"), "h100-sxm", 2),
        (COUNTS, ("--gpu", "h100-sxm"), "h100-sxm", 4),
        (f"{PPO} trainer.n_gpus_per_node=2\n", (), "l40s", 2),
    ],
)
def test_what_else_says_the_node_stands_before_slurm(
    script: str, options: tuple[str, ...], gpu: str, number: int, tmp_path: Path
) -> None:
    cluster = of_slurm(tmp_path, "#SBATCH --gres=gpu:L40S:4", script, *options)["workload"]["cluster"]
    assert (cluster["gpu"]["name"], cluster["gpus_per_node"]) == (gpu, number)


def test_the_host_memory_that_slurm_gives_bounds_the_job(tmp_path: Path) -> None:
    offloads = " ".join(
        f"actor_rollout_ref.actor.fsdp_config.{it}_offload=True" for it in ("param", "optimizer")
    )
    script = f"{PPO} trainer.n_gpus_per_node=4 {offloads}\n"
    lines = "#SBATCH --gres=gpu:h100:4\n#SBATCH --mem-per-gpu=1G"
    answer = of_slurm(tmp_path, lines, script)
    assert answer["memory"]["host_capacity_bytes"] == 4 * 2**30
    assert answer["verdict"] == "does_not_fit"
    (said,) = (one for one in answer["premises"]["project_settings"] if one["option"] == "--host-memory")
    assert said["location"]["line"] == 3
    text = " ".join(run("advise", str(tmp_path / "job.sh"), "--verl-version", "0.4.1").out.split())
    assert f"Slurm gives 4.0 GiB of host memory on a node ({tmp_path / 'job.sh'}:3)" in text
    larger = of_slurm(tmp_path, lines, script, "--host-memory", "500")
    assert larger["memory"]["host_capacity_bytes"] == 500 * 2**30
    assert larger["verdict"] != "does_not_fit"


def test_processes_that_torchrun_starts_by_a_count_are_those_of_slurm(tmp_path: Path) -> None:
    script = f"torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) {SFT}\n"
    number, _reason = gpus(of_slurm(tmp_path, "#SBATCH --gpus-per-node=2", script))
    assert number == 2


def test_a_name_of_the_cluster_that_tells_no_card_is_left(tmp_path: Path) -> None:
    answer = of_slurm(tmp_path, "#SBATCH --gres=gpu:house:4", COUNTS)
    assert answer["workload"]["cluster"]["gpus_per_node"] == 4
    assert answer["premises"]["gpu_reason"] == "assumed"


def test_two_scripts_are_compared_on_the_cards_that_they_ask_for(tmp_path: Path) -> None:
    for name, card in (("a", "L40S"), ("b", "H100")):
        (tmp_path / f"{name}.sh").write_text(f"#SBATCH --gres=gpu:{card}:4\n{COUNTS}")
    told = run("diff", str(tmp_path / "a.sh"), str(tmp_path / "b.sh"), "--verl-version", "0.4.1").out
    assert "4 x l40s" in " ".join(told.split())
    assert "4 x h100-sxm" in " ".join(told.split())


@pytest.mark.parametrize("comment", ["#SBATCH --gres=gpu:h100:4", "# 4xH100"])
@pytest.mark.parametrize(
    "script",
    [
        f'N="$(( $(echo $SLURM_JOB_GPUS | grep -o , | wc -l) + 1 ))"\n{PPO} trainer.n_gpus_per_node=$N\n',
        f"{USAGE}torchrun --nproc_per_node=$n {SFT} $@\n",
    ],
)
def test_a_number_that_stays_open_is_the_one_that_the_script_has(
    comment: str, script: str, tmp_path: Path
) -> None:
    answer = of_slurm(tmp_path, comment, script)
    assert gpus(answer) == (4, f"{tmp_path / 'job.sh'}:2")
    assert gpus(of_slurm(tmp_path, comment, script, "--gpus-per-node", "2"))[0] == 2


@pytest.mark.parametrize(("gpus", "told"), [("8xh100-sxm", True), ("4xh100-sxm", False), ("h100-sxm", False)])
def test_more_gpus_than_the_launch_asks_for_are_told(gpus: str, told: bool, tmp_path: Path) -> None:
    """A job of a part of the cards that are there is another one with all of them."""
    script = tmp_path / "run.sh"
    script.write_text(
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct "
        "algorithm.adv_estimator=grpo actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=4 "
        "actor_rollout_ref.actor.use_dynamic_bsz=True\n"
    )
    text = " ".join(run("advise", str(script), "--gpu", gpus, "--verl-version", "0.7.1").out.split())
    assert ("8 of a node, as --gpu says; the launch itself asks for 4" in text) is told


OWN = f"{PPO} trainer.n_gpus_per_node=4\n"


@pytest.mark.parametrize(
    ("script", "card", "told"),
    [
        (OWN, "2xh100-sxm", "2 of a node, as --gpu says; the launch itself asks for 4"),
        (f"# 8xA100\n{OWN}", "h100-sxm", "h100-sxm, as --gpu says; the launch itself names a100-sxm"),
        (f"#SBATCH --gres=gpu:h200:4\n{OWN}", "h100-sxm", "as --gpu says; the launch itself names h200-sxm"),
        (f"torchrun --nproc_per_node=4 {SFT}\n", "8xh100-sxm", "4 of a node, by torchrun --nproc_per_node=4"),
        (f"# 8xH100\n{OWN}", "h100-sxm", ""),
        (f"{PPO}\n", "2xh100-sxm", ""),  # the number is a default
        (f"torchrun --nproc_per_node=4 {SFT}\n", "4xh100-sxm", ""),
    ],
)
def test_an_option_that_overrules_the_launch_is_told(
    script: str, card: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(script)
    words = ("--gpu", card, "--verl-version", "0.7.0", "--model", "Qwen/Qwen2.5-0.5B-Instruct")
    text = " ".join(run("advise", str(tmp_path / "run.sh"), *words).out.split())
    assert (told in text) if told else ("as --gpu says" not in text and "whatever --gpu" not in text), text


@pytest.mark.parametrize(
    "test", ['-n "${SHOWN:-}"', '-n "${SHOWN:+yes}"', '"${SHOWN:-}"', '! -z "${SHOWN:-}"']
)
def test_a_variable_that_nobody_sets_is_an_empty_word_of_a_test(test: str, tmp_path: Path) -> None:
    shown = f'shown() {{\n  if [ {test} ]; then\n    echo "$SHOWN"\n    return\n  fi\n  echo 3\n}}\n'
    answer = advised(tmp_path, f'{shown}{PPO} trainer.n_gpus_per_node="$(shown)"\n')
    assert gpus(answer)[0] == 3
    lists = 'list=()\nn=2\n[ -n "${list[@]+"${list[@]}"}" ] || n=4\n'  # that one is no word at all
    assert gpus(advised(tmp_path, f"{lists}{PPO} trainer.n_gpus_per_node=$n\n"))[0] == 2


@pytest.mark.parametrize(
    ("micro", "set_number", "gpu", "refused"),
    [
        (8, "trainer.n_gpus_per_node=4", "8xh100-sxm", False),  # 16 sequences of each of its four
        (8, "trainer.n_gpus_per_node=4", "2xh100-sxm", False),
        (8, "", "16xh100-sxm", True),  # a default is no word of the launch
        (5, "trainer.n_gpus_per_node=4", "8xh100-sxm", True),
    ],
)
def test_what_refuses_a_launch_is_asked_of_its_own_number(
    micro: int, set_number: str, gpu: str, refused: bool, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    sizes = (
        "data.train_batch_size=16 actor_rollout_ref.rollout.n=4 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=16 "
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro}"
    )
    if gpu.startswith("8"):
        sizes = sizes.replace("=16 ", "=12 ").replace("n=4", "n=8")  # 96 sequences: 24 of each of four
    ppo = PPO.replace("use_dynamic_bsz=True", "use_dynamic_bsz=False")
    script.write_text(
        f"{ppo} {sizes} actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 {set_number}\n"
    )
    result = run("advise", str(script), "--gpu", gpu, "--verl-version", "0.4.1")
    assert ("refused by CFG109" in result.out) is refused, result.out
    listed = run("check", str(script), "--gpu", gpu, "--verl-version", "0.4.1").out
    milder = "on 8 GPUs of a node; the launch itself asks for 4" in " ".join(listed.split())
    assert milder is (gpu.startswith("8") and not refused)


@pytest.mark.parametrize(("device", "refused"), [("cuda", True), ("npu", False), ("hpu", False)])
def test_ray_is_told_of_no_gpus_where_the_job_has_another_device(
    device: str, refused: bool, tmp_path: Path
) -> None:
    script = f"{PPO} +ray_kwargs.ray_init.num_gpus=0 trainer.device={device} trainer.n_gpus_per_node=1"
    script += " actor_rollout_ref.rollout.tensor_model_parallel_size=1\n"
    (tmp_path / "run.sh").write_text(script)
    given = ("--gpu", "h100-sxm", "-f", "json", "--verl-version", "0.9.1")
    answer = json.loads(run("advise", str(tmp_path / "run.sh"), *given).out)
    assert ("CFG201" in {finding["code"] for finding in answer["findings"]}) is refused
