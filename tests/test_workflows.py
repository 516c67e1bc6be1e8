"""The workflows: what an auditor finds in them, and what their steps do in a shell."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_dependencies import pythons
from tests.test_distribution import ROOT

FOLDER = ROOT / ".github" / "workflows"
NAMES = ("release.yml", "tests.yml")
WORKFLOWS: dict[str, dict[str, Any]] = {name: yaml.safe_load((FOLDER / name).read_text()) for name in NAMES}
_PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def step(workflow: str, job: str, name: str) -> str:
    """The script of a step."""
    (script,) = (one["run"] for one in WORKFLOWS[workflow]["jobs"][job]["steps"] if one.get("name") == name)
    assert "${{" not in script
    return str(script)


def shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub's runner does."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def audit(*files: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("zizmor", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program is not None, "zizmor is missing: pip install -e '.[test]'"
    words = [program, "--offline", "--no-progress", "--persona=auditor", *map(str, files)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_an_auditor_finds_nothing() -> None:
    done = audit(FOLDER, ROOT / "action.yml")
    assert done.returncode == 0, done.stdout
    assert "No findings to report" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("pattern", "replacement", "name"),
    [
        (r"@[0-9a-f]{40} # v", "@v", "unpinned-uses"),
        ("persist-credentials: false", "fetch-depth: 0", "artipacked"),
        (r"permissions: \{\}\n", "permissions: write-all\n", "excessive-permissions"),
        (r"notes > notes\.md", 'notes > "${{ github.head_ref }}"', "template-injection"),
    ],
)
def test_the_auditor_sees_what_is_spoilt(tmp_path: Path, pattern: str, replacement: str, name: str) -> None:
    text = (FOLDER / "release.yml").read_text(encoding="utf-8")
    spoilt, count = re.subn(pattern, lambda _: replacement, text)
    assert count
    file = tmp_path / ".github" / "workflows" / "release.yml"
    file.parent.mkdir(parents=True)
    file.write_text(spoilt, encoding="utf-8")
    done = audit(file)
    assert done.returncode != 0
    assert name in done.stdout


def test_every_action_is_one_commit_whose_version_stands_beside_it() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)
    used = {line for name in NAMES for line in re.findall(r"uses: (.*)", (FOLDER / name).read_text())}
    assert [line for line in used if not _PINNED.fullmatch(line)] == []
    assert len({line.partition("@")[0] for line in used}) == len(used)


def test_every_job_has_its_own_permissions_and_a_limit() -> None:
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
        assert workflow["concurrency"]["group"]
        for job in workflow["jobs"].values():
            assert job["permissions"]
            assert job["timeout-minutes"] <= 90


def test_the_tests_run_on_all_versions_of_python() -> None:
    jobs = WORKFLOWS["tests.yml"]["jobs"]
    assert jobs["newest"]["strategy"]["matrix"]["python"] == pythons()
    (lowest,) = (
        one["with"]["python-version"]
        for one in jobs["lowest"]["steps"]
        if "python-version" in one.get("with", {})
    )
    assert lowest == pythons()[0]
    for name in ("newest", "lowest"):
        systems = jobs[name]["strategy"]["matrix"]["system"]
        assert [system.partition("-")[0] for system in systems] == ["ubuntu", "macos"]


def test_a_tag_that_is_not_the_version_ends_the_release(tmp_path: Path) -> None:
    script = step("release.yml", "build", "Hold package, changelog and tag to one version")
    version = shell("python -m docs.tools.release check", ROOT).stdout.strip()
    copy = script.replace("> notes.md", f"> {tmp_path}/notes.md")
    done = shell(copy, ROOT, TAG="v9.9.9")
    assert done.returncode == 2
    assert f"the tag is v9.9.9, and tuner/__init__.py says {version}" in done.stderr
    assert shell(copy, ROOT, TAG=f"v{version}").returncode == 0
    assert (tmp_path / "notes.md").read_text(encoding="utf-8").startswith("### ")


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="the runners of releases have sha256sum")
@pytest.mark.parametrize(("tag", "option"), [("v1.2.3", ""), ("v1.2.3rc4", " --prerelease")])
def test_files_with_their_hashes_are_published(tmp_path: Path, tag: str, option: str) -> None:
    name = f"rl_tuner-{tag[1:]}.tar.gz"
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / name).write_bytes(b"sources")
    assert shell(step("release.yml", "build", "Take hashes"), tmp_path).returncode == 0
    hashes = (tmp_path / "SHA256SUMS").read_text(encoding="utf-8")
    assert hashes == f"{hashlib.sha256(b'sources').hexdigest()}  {name}\n"
    assert shell(step("release.yml", "publish", "Hold the files to their hashes"), tmp_path).returncode == 0

    program = tmp_path / "programs" / "gh"
    program.parent.mkdir()
    program.write_text('#!/bin/bash\necho "$@" > asked\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = shell(step("release.yml", "publish", "Release"), tmp_path, TAG=tag, PATH=path)
    assert done.returncode == 0, done.stderr
    options = f"--verify-tag --title {tag} --notes-file notes.md{option}"
    expected = f"release create {tag} {options} dist/{name} SHA256SUMS\n"
    assert (tmp_path / "asked").read_text(encoding="utf-8") == expected

    (tmp_path / "dist" / name).write_bytes(b"others")
    assert shell(step("release.yml", "publish", "Hold the files to their hashes"), tmp_path).returncode != 0
