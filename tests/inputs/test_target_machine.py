"""What a script asks of the machine is answered by the cards that the configuration is read for."""

from pathlib import Path

import pytest

from tuner.inputs.machine import AMD, HUAWEI, NVIDIA, TargetMachine, read_for
from tuner.inputs.script import read_script

PROBES = {
    "python3 -c 'import torch_npu' 2>/dev/null": HUAWEI,
    "command -v npu-smi > /dev/null": HUAWEI,
    "[ -e /dev/davinci0 ]": HUAWEI,
    "[[ -d /usr/local/Ascend/ascend-toolkit ]]": HUAWEI,
    "rocm-smi > /dev/null": AMD,
    "which rocminfo": AMD,
    "test -c /dev/kfd": AMD,
    "[ -d /opt/rocm ]": AMD,
    "nvidia-smi": NVIDIA,
    "command -v nvcc": NVIDIA,
    "[ -e /dev/nvidia0 ]": NVIDIA,
}


def read(script: str, machine: TargetMachine) -> list[str]:
    """What the one launch of a script gets on a machine."""
    with read_for(machine):
        (launch,) = read_script(Path("run.sh"), script.encode(), ()).launches
    return [str(argument.text) for argument in launch.arguments]


@pytest.mark.parametrize("vendor", [AMD, HUAWEI, NVIDIA])
@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_finds_what_the_machine_has(probe: str, vendor: str) -> None:
    script = f"if {probe}; then X=there; else X=gone; fi\npython3 -m a.b x.y=$X"
    expected = "there" if PROBES[probe] == vendor else "gone"
    assert read(script, TargetMachine(vendor=vendor)) == [f"x.y={expected}"]


@pytest.mark.parametrize(("vendor", "device"), [(AMD, "cuda"), (HUAWEI, "npu"), (NVIDIA, "cuda")])
def test_the_device_that_verl_names_is_that_of_the_cards(vendor: str, device: str) -> None:
    script = (
        "D=$(python3 -c 'from verl.utils.device import get_device_name; print(get_device_name())')\n"
        'case "$D" in cuda) N=8 ;; npu) N=16 ;; esac\npython3 -m a.b x.n=$N x.d=$D'
    )
    count = "16" if device == "npu" else "8"
    assert read(script, TargetMachine(vendor=vendor)) == [f"x.n={count}", f"x.d={device}"]


@pytest.mark.parametrize(
    "count",
    [
        "nvidia-smi -L | wc -l",
        "nvidia-smi --list-gpus | wc -l",
        "nvidia-smi --query-gpu=index --format=csv,noheader | wc -l",
        "python3 -c 'import torch; print(torch.cuda.device_count())'",
    ],
)
def test_cards_are_counted_where_their_number_is_said(count: str) -> None:
    script = f"N=$({count})\npython3 -m a.b x.n=$N x.m=$((N * 2))"
    assert read(script, TargetMachine(per_node=4)) == ["x.n=4", "x.m=8"]
    assert read(script, TargetMachine())[0] == f"x.n=$({count})"


def test_what_a_card_is_called_is_not_made_up() -> None:
    (argument,) = read("python3 -m a.b x.n=$(nvidia-smi -L)", TargetMachine(per_node=1))
    assert argument.startswith("x.n=$(")


def test_the_same_script_is_read_anew_for_another_machine() -> None:
    script = "D=$(command -v npu-smi > /dev/null && echo npu || echo gpu)\npython3 -m a.b x.d=$D"
    assert read(script, TargetMachine(vendor=HUAWEI)) == ["x.d=npu"]
    assert read(script, TargetMachine()) == ["x.d=gpu"]
