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
    found = {line["target"]: line for line in map(json.loads, lines)}
    assert found.keys() == LIMITS.keys()
    for target, limit in LIMITS.items():
        assert found[target]["shared_bytes"] <= limit * KIB
        assert found[target]["matrix_instructions"] > 0
        assert (found[target]["copy_engine"] > 0) == (target == "hopper")
