"""The head in unpacked releases of verl, where there are any: ``VERL_RELEASES=FOLDER``, FOLDER/*/verl."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("VERL_RELEASES")
ROOT = Path(__file__).parents[2]


def sources() -> list[Path]:
    """The folders that hold a release the head knows."""
    from tuner.inside_verl.patching import RELEASES

    versions = Path(FOLDER or os.devnull).glob("*/verl/version/version")
    return sorted(path.parents[2] for path in versions if path.read_text().strip() in RELEASES)


@pytest.mark.skipif(FOLDER is None, reason="VERL_RELEASES names no folder with releases of verl")
@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
def test_a_release_computes_the_same_with_the_head(source: Path) -> None:
    path = os.pathsep.join((str(ROOT), str(source), *filter(None, [os.environ.get("PYTHONPATH")])))
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("with_sources.py"))],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["head"]
    for name, theirs in found["theirs"].items():
        assert found["ours"][name] == pytest.approx(theirs, rel=1e-5, abs=1e-5), name
