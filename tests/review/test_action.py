"""``action.yml``: its steps run in a shell, on pull requests to a repository made for it."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.golden import expect
from tests.review.action import ACTION, ROOT, Run, git, run_action

pytestmark = pytest.mark.sampled(12)

PULL_REQUEST = ROOT / "docs" / "examples" / "pull-request"
CONFIG = "configs/grpo.yaml"
CHANGES = {
    "division": ("tensor_model_parallel_size: 1", "tensor_model_parallel_size: 3"),
    "doubled": ("ppo_max_token_len_per_gpu: 16384", "ppo_max_token_len_per_gpu: 32768"),
    "harmless": ("nnodes: 1", "nnodes: 1\n  experiment_name: second-try"),
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a file in it whose name a shell would take apart."""
    path = tmp_path / "repository"
    for name in ("configs", "tuner.toml"):
        source = PULL_REQUEST / name
        (shutil.copytree if source.is_dir() else _copy)(source, path / name)
    git("init", "--quiet", "--initial-branch=main", at=path)
    git("add", ".", at=path)
    git("commit", "--quiet", "--message=base", at=path)
    return path


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def change(repository: Path, *replaced: tuple[str, str], config: str = CONFIG) -> str:
    """Commit the configuration with other values; returns the commit before."""
    base = git("rev-parse", "HEAD", at=repository)
    path = repository / config
    text = path.read_text(encoding="utf-8")
    for old, new in replaced:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    git("commit", "--quiet", "--all", "--message=change", at=repository)
    return base


@pytest.fixture
def act(repository: Path, tmp_path: Path) -> Callable[..., Run]:
    return lambda **inputs: run_action(repository, tmp_path / "runner", **inputs)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "code", "annotated", "summed"),
    [
        ("division", 1, "::error file=configs/grpo.yaml,line=23,col=33,", "**FITS** → **WILL NOT START**"),
        (
            "doubled",
            1,
            "title=CFG910 over-budget::update_actor peaks at",
            "| `update_actor` | 31.0 | 39.1 | +8.0 |",
        ),
        ("harmless", 0, "", "Memory and seconds of every phase stay as they are."),
    ],
)
def test_a_pull_request(
    repository: Path, act: Callable[..., Run], name: str, code: int, annotated: str, summed: str
) -> None:
    base = change(repository, CHANGES[name])
    run = act(base=base)
    assert run.code == code, run.errors
    assert annotated in "\n".join(run.annotations)
    assert summed in run.summary
    assert all(line.startswith("::notice ") for line in run.annotations) is (code == 0)
    assert Path(run.outputs["check.sarif"]).is_file()
    assert git("worktree", "list", at=repository).count("\n") == 0
    expect(f"{name}.annotations.txt", "\n".join(run.annotations), folder=PULL_REQUEST)
    expect(f"{name}.summary.md", run.summary, folder=PULL_REQUEST)


def test_without_a_base_nothing_is_compared(act: Callable[..., Run]) -> None:
    run = act(base="", fail_on="advice", args="--nodes 2")
    assert run.code == 1, run.errors
    assert "tuner diff" not in run.summary
    assert "on one of 16 GPUs" in run.summary


def test_names_and_words_are_no_code(repository: Path, act: Callable[..., Run]) -> None:
    """What a pull request names its files, and what a workflow gives, reaches no shell as a command."""
    name = "configs/$(touch ran) `touch ran`;touch ran\n::error::x.yaml"
    shutil.copy(repository / CONFIG, repository / name)
    git("add", ".", at=repository)
    git("commit", "--quiet", "--message=named", at=repository)
    base = change(repository, ("n: 8", "n: 16"), config=name)
    run = act(base=base, args="--nodes $(touch${IFS}ran)")
    assert run.code == 2
    assert "is not a valid int" in run.errors
    shutil.rmtree(repository.parent / "runner")
    run = act(base=base)
    assert run.code == 0, run.errors
    assert "`actor_rollout_ref.rollout.n`: `8` → `16`" in run.summary
    assert "::error::x" not in run.log.splitlines() + run.errors.splitlines()
    assert not list(repository.rglob("ran"))


def test_a_base_that_cannot_be_read_is_said(repository: Path, act: Callable[..., Run]) -> None:
    change(repository, ("train_batch_size: 1024", "train_batch_size: ]"))
    base = change(repository, ("train_batch_size: ]", "train_batch_size: 1024"))
    run = act(base=base)
    assert run.code == 0
    assert "cannot be compared: 1." in run.summary
    assert "configs/grpo.yaml:3:" in run.errors
    assert "## tuner check: 4 advice" in run.summary


def test_a_base_that_cannot_be_fetched_keeps_nothing_else_from_being_said(act: Callable[..., Run]) -> None:
    run = act(base="0" * 40)
    assert run.code == 0, run.errors
    (warning,) = (line for line in run.annotations if line.startswith("::warning::"))
    assert "fetch-depth: 0" in warning
    assert "tuner diff" not in run.summary
    assert "## tuner check: 4 advice" in run.summary


def test_a_runner_with_windows_is_refused_before_anything_is_installed(act: Callable[..., Run]) -> None:
    run = act(system="Windows", base="")
    assert (run.code, run.installed, run.summary) == (2, "", "")
    (message,) = run.annotations
    assert "needs a runner with Linux or macOS" in message


def test_installs_its_own_sources_and_nothing_else(act: Callable[..., Run]) -> None:
    """The revision behind the ``@`` is the version: no input asks for one of a package index."""
    run = act(base="")
    *_, installed = run.installed.split()
    assert Path(installed) == ROOT
    assert [word for word in run.installed.split() if not word.startswith("-")] == ["install", installed]
    assert (ROOT / "pyproject.toml").is_file()  # beside action.yml, as that path is
    assert "version" not in ACTION["inputs"]


def test_no_step_writes_an_expression_into_a_script() -> None:
    assert [step["name"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]] == []
    used = set(re.findall(r"inputs\.([\w-]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
