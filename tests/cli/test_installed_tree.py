"""An installed verl that is not bundled is read by its own configuration and code, and never imported."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.runner import ROOT, process
from tests.cli.test_copies_of_the_trainer import LAUNCH, REFUSES
from tuner.inputs.tree import Tree, merged
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.releases import BUNDLED

pytestmark = pytest.mark.sampled(12)

IMPORTED = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"
OWN = {"data": {"train_batch_size": 96, "house_prompts": 3}}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages with verl 0.10.0.dev0, whose configuration has a key of its own."""
    folder = tmp_path / "site-packages"
    install(folder, "0.10.0.dev0", merged(dict(read_defaults("0.9.1", CONFIGS[0]).tree), OWN))
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "run.sh").write_text(f"{LAUNCH} data.house_prompts=7")
    return project / "run.sh"


def install(site: Path, version: str, tree: Tree) -> None:
    config = site / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))
    (site / "verl" / "__init__.py").write_text(IMPORTED)
    about = site / f"verl-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: verl\nVersion: {version}\n")


def text(site: Path, script: Path, *options: str) -> str:
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}
    answer = process("advise", str(script), "--gpu", "h100-sxm", *options, env=path)
    assert answer.code == 0, answer.err
    assert not (site / "verl" / "imported").exists()
    return answer.out


def advice(site: Path, script: Path, *options: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text(site, script, "-f", "json", *options))
    return content


def finding(answer: dict[str, Any], code: str) -> dict[str, Any] | None:
    return next((item for item in answer["findings"] if item["code"] == code), None)


@pytest.mark.parametrize("options", [(), ("--verl-version", "0.10.0.dev0")])
def test_its_configuration_is_what_the_launch_rests_on(
    options: tuple[str, ...], site: Path, script: Path
) -> None:
    answer = advice(site, script, *options)
    premises = answer["premises"]

    assert answer["workload"]["batch"]["prompts"] == 96
    assert finding(answer, "CFG001") is None
    assert (premises["release"], premises["checkout"]) == (BUNDLED[-1], "0.10.0.dev0")
    assert answer["release_range"] is None
    remarks = " ".join(remark["text"] for remark in premises["script_remarks"])
    assert f"laid on {site}/verl/trainer/config/ppo_trainer.yaml" in remarks


def test_the_header_says_that_it_is_installed(site: Path, script: Path) -> None:
    header = f"verl 0.10.0.dev0 (installed; checks of {BUNDLED[-1]})"

    assert header in " ".join(text(site, script).split())
    assert header in " ".join(text(site, script, "--full").split())


def test_its_code_decides_what_is_refused(site: Path, script: Path) -> None:
    before = finding(advice(site, script), "CFG118")
    (site / "verl" / "trainer" / "house.py").write_text(REFUSES)
    after = finding(advice(site, script), "CFG118")

    assert before is not None and after is not None
    assert before["severity"] == "warning"
    assert before["message"].startswith("the code in site-packages/verl was not found to do so: ")
    assert after["severity"] == "error"
    assert "It stops at verl/trainer/house.py:3 of this copy." in after["notes"]


@pytest.mark.parametrize("version", ["0.9.1", "0.8.0"])
def test_another_release_that_is_asked_for_is_that_release(version: str, site: Path, script: Path) -> None:
    answer = advice(site, script, "--verl-version", version)

    assert answer["workload"]["batch"]["prompts"] == 1024
    assert answer["premises"]["checkout"] is None
    assert finding(answer, "CFG001") is not None


def test_an_installed_release_that_is_bundled_is_the_bundled_one(tmp_path: Path, script: Path) -> None:
    site = tmp_path / "other"
    install(site, "0.8.0", merged(dict(read_defaults("0.8.0", CONFIGS[0]).tree), OWN))
    answer = advice(site, script)

    assert (answer["premises"]["release"], answer["premises"]["checkout"]) == ("0.8.0", None)
    assert answer["workload"]["batch"]["prompts"] == 1024


def test_a_copy_around_the_launch_comes_before_what_is_installed(site: Path, script: Path) -> None:
    config = script.parent / "verl" / "trainer" / "config"
    config.mkdir(parents=True)
    tree = merged(dict(read_defaults("0.9.1", CONFIGS[0]).tree), OWN)
    tree["data"]["train_batch_size"] = 48
    (config / "ppo_trainer.yaml").write_text(yaml.safe_dump(tree))

    assert advice(site, script)["workload"]["batch"]["prompts"] == 48


def test_a_copy_that_is_installed_from_its_tree_is_read_there(script: Path) -> None:
    """A metadata folder that was committed beside it names a release that is not bundled."""
    install(script.parent, "0.2.0.dev0", merged(dict(read_defaults("0.3.0.post1", CONFIGS[0]).tree), OWN))
    (script.parent / "verl" / "version").mkdir()
    (script.parent / "verl" / "version" / "version").write_text("0.2.0.dev\n")
    answer = advice(script.parent, script)

    assert answer["premises"]["checkout"] == "0.2.0.dev"
    assert answer["release_range"] is None


def test_one_that_cannot_be_composed_is_served_by_the_nearest_release(site: Path, script: Path) -> None:
    (site / "verl" / "trainer" / "config" / "ppo_trainer.yaml").write_text("defaults:\n  - gone@data: gone\n")
    answer = advice(site, script)

    assert answer["premises"]["checkout"] is None
    assert answer["release_range"]["release"] == "verl 0.10.0.dev0"
    assert answer["workload"]["batch"]["prompts"] == 1024
