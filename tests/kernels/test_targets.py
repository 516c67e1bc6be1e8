"""The kernels compile for GPUs that are not here, with matrix instructions, within their shared memory."""

import json
import subprocess
import sys

import pytest

from tuner.units import KIB

LIMITS = {"hopper": 227, "hopper, half lines": 227, "ampere": 163, "blackwell": 227, "mi300": 64}


@pytest.mark.sampled(16)
@pytest.mark.slow
@pytest.mark.triton
@pytest.mark.parametrize("target", LIMITS)
def test_kernels_compile(target: str) -> None:
    command = [sys.executable, "-m", "tests.kernels.targets", target]
    line = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert line["target"] == target
    assert line["shared_bytes"] <= LIMITS[target] * KIB
    assert line["matrix_instructions"] > 0
    assert (line["copy_engine"] > 0) == target.startswith("hopper")
