import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import ROOT
from tests.validate.called import called
from tests.validate.parts import MACHINE
from tests.validate.report.test_render import report
from tuner.errors import InputError
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
from tuner.validate.nodes.merged_reports import merged
from tuner.validate.nodes.ray_tasks import on_ray
from tuner.validate.nodes.torchrun import TorchrunProcess, launched
from tuner.validate.report.schema import ValidationFile

ENVIRONMENT = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "head",
    "MASTER_PORT": "29500",
}

# One node: it validates (its report names it), gathers, and prints what it was given.
NODE = """
import os, sys
from tests.validate.nodes.test_nodes import fine, worse
from tuner.validate.nodes import torchrun
launch = torchrun.launched(os.environ)
file = worse() if launch.node else fine()
for found in torchrun.gathered(launch, file, wait_s=60):
    machine = found.validation.machine
    print(machine.nodes, found.validation.refuted, machine.versions["torch"])
"""


def fine(torch: str = "2.11.0") -> ValidationFile:
    machine = MACHINE.model_copy(update={"versions": {"torch": torch}})
    return report(parts=(), recommendations=(), machine=machine)


def worse(torch: str = "2.11.0") -> ValidationFile:
    machine = MACHINE.model_copy(update={"versions": {"torch": torch}})
    return report(machine=machine)


def test_torchrun_is_known_by_its_variables() -> None:
    assert launched(ENVIRONMENT) == TorchrunProcess(
        node=1, nodes=2, local_rank=1, address="head", port=29500, hosted=False
    )
    hosted = launched(ENVIRONMENT | {"TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert hosted is not None
    assert hosted.hosted
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        assert launched({key: value for key, value in ENVIRONMENT.items() if key != name}) is None
    one = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert launched(one) == TorchrunProcess(node=0, nodes=1, local_rank=0, address="a", port=1, hosted=False)


def test_unusable_variables_are_bad_input() -> None:
    for changes in ({"RANK": "first"}, {"LOCAL_WORLD_SIZE": "0"}):
        with pytest.raises(InputError, match="torchrun sets these variables"):
            launched(ENVIRONMENT | changes)


def test_one_report_for_each_kind_of_node() -> None:
    files = merged([fine(), fine("2.13.0"), worse(), fine()])
    assert [file.validation.machine.nodes for file in files] == [3, 1]
    assert [file.validation.refuted for file in files] == [True, False]
    assert files[0].notes[-1].startswith("3 nodes of this kind reported, 1 of them refuted something; ")
    assert files[1] == fine("2.13.0")


def test_a_silent_node_is_named() -> None:
    (file,) = merged([fine()], ["node 10.0.0.7: CUDA error"])
    assert file.notes[-1] == "No report of node 10.0.0.7: CUDA error."


@pytest.mark.sampled(6)
@pytest.mark.slow
def test_two_nodes_hand_their_reports_to_the_first() -> None:
    port = str(processes._free_port())
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", NODE],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "RANK": rank, "LOCAL_RANK": "0", **shared},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    printed = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert printed == ["2 True 2.11.0\n", ""]


def test_without_ray_one_message() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        with pytest.raises(InputError, match=r"--ray needs Ray, .*pip install '\.\[ray\]'"):
            on_ray("auto", str, None, device="cpu", wait_s=1.0)


def on_a_node(request: object) -> str:
    """Called in a Ray task: where it runs is in the report, and that a process of its own can be run."""
    import ray

    if request == "fail":
        raise InputError("this node is not well")
    doubled = processes.run(called("double"), (21,), setup=Setup(device="cpu"), timeout_s=100)
    node = ray.get_runtime_context().get_node_id()
    versions = {"torch": "2.11.0" if request == "alike" else node, "doubled": str(doubled)}
    machine = MACHINE.model_copy(update={"versions": versions})
    return report(machine=machine).model_dump_json(by_alias=True)


# Ray has threads and warnings of its own, so it is kept out of this process.
RAY = """
import os, sys
from ray.cluster_utils import Cluster
from tests.validate.nodes.test_nodes import on_a_node
from tuner.errors import InputError
from tuner.validate.nodes.ray_tasks import on_ray

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
for request in ("alike", "differ", "fail"):
    try:
        files = on_ray(cluster.address, on_a_node, request, device="cpu", wait_s=100)
    except InputError as error:
        print("error:", str(error).replace(chr(10), " "))
    else:
        print(*(f"{f.validation.machine.nodes}x{f.validation.machine.versions['doubled']}" for f in files))
try:
    on_ray(cluster.address, on_a_node, "alike", device="cuda", wait_s=100)
except InputError as error:
    print("error:", error)
cluster.shutdown()
"""


@pytest.mark.slow
def test_every_node_of_a_ray_cluster_has_one_task(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RAY],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(("error", "1x", "2x"))]
    assert lines[:2] == ["2x42", "1x42 1x42"]
    assert lines[2].startswith("error: no node of the Ray cluster gave a report; node ")
    assert lines[2].endswith(": this node is not well")
    assert lines[3] == "error: no node of the Ray cluster has a GPU; --device cpu tries the flow"
