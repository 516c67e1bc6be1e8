"""Runs the steps of ``action.yml`` in a shell, with the variables that GitHub's runner sets."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
_EXPECTED_CONDITION = "inputs.base != ''"

# Stands for the Python that makes the environment: its pip writes down what it is asked for; tuner is ours.
_PYTHON = """#!/bin/bash
test "$1 $2" = "-m venv" || exit 9
mkdir -p "$3/bin"
printf '#!/bin/bash\\necho "$@" > "{asked}"\\n' > "$3/bin/pip"
printf '#!/bin/bash\\nexec "{python}" -m tuner "$@"\\n' > "$3/bin/tuner"
chmod +x "$3/bin/pip" "$3/bin/tuner"
"""


@dataclass
class Run:
    """What the steps did."""

    code: int = 0
    log: str = ""
    errors: str = ""
    installed: str = ""
    outputs: dict[str, str] = field(default_factory=dict)  # of the steps, as "check.status"
    summary: str = ""

    @property
    def annotations(self) -> list[str]:
        return [line for line in self.log.splitlines() if line.startswith("::")]


def git(*words: str, at: Path) -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME")
    mails = ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    who = dict.fromkeys(names, "somebody") | dict.fromkeys(mails, "somebody@example.org")
    # No settings of the machine, such as signing or hooks.
    env = os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *words], cwd=at, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def run_action(repository: Path, runner: Path, *, system: str = "Linux", **inputs: str) -> Run:
    """All steps one after another; as at GitHub, none after one that fails.

    Args:
        repository: the checkout.
        runner: an empty folder, for what the runner provides.
        system: what the runner calls its operating system.
        inputs: of the action; those left out have their defaults, which are no expressions here.
    """
    given = {name.replace("-", "_"): str(one["default"]) for name, one in ACTION["inputs"].items()} | inputs
    env = _environment(runner) | {"RUNNER_OS": system}
    run = Run()
    known: dict[str, str] = {f"inputs.{name.replace('_', '-')}": value for name, value in given.items()}
    known["github.action_path"] = str(ROOT)
    for step in ACTION["runs"]["steps"]:
        if "if" in step and not _holds(step["if"], known):
            continue
        _step(step, repository, env, known, run)
        if run.code:
            break
    run.installed = _read(runner / "asked").strip()
    run.summary = _read(runner / "summary")
    return run


def _step(
    step: Mapping[str, Any], repository: Path, env: dict[str, str], known: dict[str, str], run: Run
) -> None:
    assert step["shell"] == "bash"
    assert "${{" not in step["run"]
    output = Path(env["GITHUB_OUTPUT"])
    output.write_text("", encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=repository,
        env=env | {name: _filled(value, known) for name, value in step.get("env", {}).items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    run.code, run.log, run.errors = done.returncode, run.log + done.stdout, run.errors + done.stderr
    for line in output.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        run.outputs[f"{step['id']}.{name}"] = value
        known[f"steps.{step['id']}.outputs.{name}"] = value


def _environment(runner: Path) -> dict[str, str]:
    programs = runner / "programs"
    programs.mkdir(parents=True)
    python = programs / "python3"
    python.write_text(_PYTHON.format(asked=runner / "asked", python=sys.executable), encoding="utf-8")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    (runner / "temp").mkdir()
    (runner / "summary").touch()
    kept = {name: os.environ[name] for name in ("HOME", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return kept | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(runner / "temp"),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
    }


def _filled(value: str, known: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: known[match[1]], str(value))


def _holds(condition: str, known: Mapping[str, str]) -> bool:
    assert condition == _EXPECTED_CONDITION, f"the runner of the tests cannot judge {condition}"
    return known["inputs.base"] != ""


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
