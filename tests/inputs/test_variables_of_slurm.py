"""An unset variable in front of Python, and variables of Slurm that the lines of a script decide."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run

PPO = """-m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8 trainer.nnodes={nodes}
"""
GIVEN = ("--gpu", "h100-sxm", "--verl-version", "0.6.1")


def nodes_of(tmp_path: Path, script: str, *arguments: str) -> int:
    file = tmp_path / "job.sh"
    file.write_text(script)
    answer = run("advise", str(file), *arguments, *GIVEN, "-f", "json")
    assert answer.code == 0, answer.err
    number: int = json.loads(answer.out)["workload"]["cluster"]["nodes"]
    return number


@pytest.mark.parametrize("word", ['"${TOOLS}python"', "${TOOLS}python3.11", "$ROOT${TOOLS}python"])
def test_python_behind_a_variable_that_is_not_set_is_python(tmp_path: Path, word: str) -> None:
    assert nodes_of(tmp_path, f"{word} {PPO.format(nodes=2)}") == 2


def test_what_gets_overrides_and_may_be_anything_is_not_said_to_get_none(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(f"start-it {PPO.format(nodes=1)}")
    error = run("advise", str(file), *GIVEN).err
    assert "start-it" in error
    assert "gets no key=value" not in error


@pytest.mark.parametrize("name", ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"])
@pytest.mark.parametrize("asked", ["--nodes=4", "-N 4"])
def test_the_number_of_nodes_is_what_the_script_asks_for(tmp_path: Path, name: str, asked: str) -> None:
    script = f"#!/bin/bash\n#SBATCH {asked}\nN=${name}\npython3 {PPO.format(nodes='$N')}"
    assert nodes_of(tmp_path, script) == 4
    assert nodes_of(tmp_path, script, f"{name}=3") == 3


def test_a_range_of_nodes_says_no_number(tmp_path: Path) -> None:
    script = f"#SBATCH --nodes=2-4\npython3 {PPO.format(nodes='${SLURM_NNODES:-5}')}"
    assert nodes_of(tmp_path, script) == 5


@pytest.mark.parametrize(
    "counted",
    [
        'N=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l)',
        'nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST"); all=($nodes); N=${#all[@]}',
        "all=( $(scontrol show hostname $SLURM_NODELIST) ); N=${#all[@]}",
        'mapfile -t all < <(scontrol show hostnames "$SLURM_JOB_NODELIST"); N=${#all[@]}',
    ],
)
def test_the_nodes_that_a_script_has_listed_are_those_that_it_asks_for(tmp_path: Path, counted: str) -> None:
    script = f"#!/bin/bash\n#SBATCH --nodes=6\n{counted}\npython3 {PPO.format(nodes='$N')}"
    assert nodes_of(tmp_path, script) == 6


def test_the_nodes_of_another_list_stay_unknown(tmp_path: Path) -> None:
    script = (
        f"#SBATCH --nodes=6\nN=$(scontrol show hostnames $OF_ALL | wc -l)\npython3 {PPO.format(nodes='$N')}"
    )
    assert nodes_of(tmp_path, script) == 1


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("--gres=gpu:h100:4", "SLURM_GPUS_ON_NODE"),
        ("--gpus-per-node=4", "SLURM_GPUS_PER_NODE"),
        ("--ntasks-per-node=4", "SLURM_NTASKS_PER_NODE"),
        ("-n 4", "SLURM_NTASKS"),
    ],
)
def test_what_a_node_has_is_what_the_script_asks_for(tmp_path: Path, asked: str, name: str) -> None:
    script = f"#!/bin/bash\n#SBATCH {asked}\npython3 {PPO.format(nodes=f'${name}')}"
    assert nodes_of(tmp_path, script) == 4


@pytest.mark.parametrize(
    ("loop", "of_node"),
    [
        ('for i in "${!all[@]}"', "--node_rank=$i"),
        ('for node in "${all[@]}"', "trainer.default_local_dir=/runs/$node"),
        ("for ((i = 0; i < SLURM_NNODES; i++))", "--node_rank=$i"),
    ],
)
def test_what_is_started_on_each_node_is_one_launch(tmp_path: Path, loop: str, of_node: str) -> None:
    rank, own = (of_node, "") if of_node.startswith("--") else ("", of_node)
    program = f"torchrun --nnodes=4 --nproc_per_node=8 {rank} {PPO.format(nodes=4).strip()} {own}"
    script = (
        "#!/bin/bash\n#SBATCH --nodes=4\nall=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )\n"
        f"{loop}; do srun {program} &\ndone\nwait\n"
    )
    assert nodes_of(tmp_path, script) == 4
