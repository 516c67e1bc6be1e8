"""The GPUs and the host memory that ``#SBATCH`` lines ask for, by sbatch(1)."""

import pytest

from tuner.inputs.slurm import slurm_gpus, slurm_memory
from tuner.units import GIB


@pytest.mark.parametrize(
    ("lines", "name", "per_node"),
    [
        ("#SBATCH --gres=gpu:L40S:4", "L40S", 4),
        ("#SBATCH --gres=gpu:4   # of any kind", "", 4),
        ("#SBATCH --gres gpu:a100", "a100", 1),
        ("#SBATCH --gres=gpu", "", 1),
        ("#SBATCH --gres=tmp:100G,gpu:h100:2(S:0-1)", "h100", 2),
        ("#SBATCH --gpus-per-node=h200:8\n#SBATCH --gres=tmp:1", "h200", 8),
        ("#SBATCH --gpus=rtx_a6000:4", "rtx_a6000", 4),
        ("#SBATCH -N2 -G 8", "", 4),
        ("#SBATCH --nodes=2\n#SBATCH --gpus=16", "", 8),
        ("#SBATCH --gpus=h100:16", "h100", None),
        ("#SBATCH --nodes=1-3 --gpus=h100:6", "h100", None),
        ("#SBATCH --gres=gpu:2\n\n#SBATCH --gres=gpu:4", "", 4),
    ],
)
def test_what_a_job_gets_on_a_node(lines: str, name: str, per_node: int | None) -> None:
    found = slurm_gpus(f"#!/bin/bash\n{lines}\nset -x\n#SBATCH --gres=gpu:v100:7\n")
    assert found is not None
    assert (found.name, found.per_node) == (name, per_node)


@pytest.mark.parametrize(
    "lines",
    [
        "##SBATCH --gres=gpu:4",
        "# SBATCH --gres=gpu:4",
        "#SBATCH --gres=gpu_mem:40G",
        "#SBATCH --gres=gpu:a100:4,gpu:v100:2",
        "#SBATCH --gres=gpu:1g.10gb:1",
        "#SBATCH --gpus-per-node=$N",
        "#SBATCH --gpus-per-task=1",
        "#SBATCH --nodes=2",
        "set -x\n#SBATCH --gres=gpu:4",
    ],
)
def test_what_asks_for_no_gpu_or_for_none_that_is_known(lines: str) -> None:
    assert slurm_gpus(f"#!/bin/bash\n{lines}\n") is None


def test_the_line_is_that_of_the_option_that_counts() -> None:
    found = slurm_gpus("#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --mem=8G\n#SBATCH --gres=gpu:4\n")
    assert found is not None
    assert found.line == 4


@pytest.mark.parametrize(
    ("lines", "gib"),
    [
        ("#SBATCH --mem=256G", 256),
        ("#SBATCH --mem=1T --nodes=2", 1024),
        ("#SBATCH --mem 65536", 64),
        ("#SBATCH --mem=64GB  # of a node", 64),
        ("#SBATCH --mem-per-gpu=60G", 240),
        ("#SBATCH --mem-per-cpu=4G --cpus-per-task=16", 64),
        ("#SBATCH --mem-per-cpu=4G -c 8 --ntasks-per-node=4", 128),
        ("#SBATCH --mem-per-cpu=4G -c8 -n4 -N2", 64),
        ("#SBATCH --mem-per-cpu=2G --cpus-per-gpu=12", 96),
        ("#SBATCH --mem=0", None),  # all that the node has
        ("#SBATCH --mem=$MEM", None),
        ("#SBATCH --mem-per-cpu=4G", None),
        ("#SBATCH --mem-per-cpu=4G -c8 -n4", None),  # they may spread
        ("#SBATCH --mem-per-gpu=60G --exclusive", None),
        ("#SBATCH --mem-bind=local", None),
        ("", None),
    ],
)
def test_the_host_memory_that_a_job_gets_on_a_node(lines: str, gib: int | None) -> None:
    memory = slurm_memory(f"#!/bin/bash\n#SBATCH --gres=gpu:4\n{lines}\nset -x\n#SBATCH --mem=1G\n")
    assert (None if memory is None else memory.size / GIB) == gib
    assert memory is None or memory.line == 3
    assert slurm_memory(f"#!/bin/bash\n{lines}\n") is None  # a job that only starts another
