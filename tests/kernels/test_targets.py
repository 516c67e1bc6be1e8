"""The kernels compile for GPUs that are not here, with matrix instructions, within their shared memory."""

import json
import subprocess
import sys

import pytest

from tuner.units import KIB

LIMITS = {"hopper": 227, "ampere": 163, "blackwell": 227, "mi300": 64}


@pytest.mark.slow
@pytest.mark.triton
def test_kernels_compile() -> None:
    command = [sys.executable, "-m", "tests.kernels.targets", *LIMITS]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    by_target = {line["target"]: line for line in map(json.loads, lines)}
    assert by_target.keys() == LIMITS.keys()
    for target, limit in LIMITS.items():
        assert by_target[target]["shared_bytes"] <= limit * KIB
        assert by_target[target]["matrix_instructions"] > 0
        assert (by_target[target]["copy_engine"] > 0) == (target == "hopper")
