"""What a project's own program and its modules import of verl bounds the release, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = (
    "python3 -m {program} algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True {more}\n"
)
#: Which is in verl 0.4.0, 0.4.1 and 0.5.0.
OLD = "from verl.workers.rollout.async_server import AsyncLLMServerManager\n"
#: Which is in releases up to 0.4.1.
MODE = "from verl.workers.rollout.vllm_rollout import vllm_mode\n"
MAIN = "import os\n\nfrom .loop import Loop\n\n\ndef main(config):\n    Loop(config).fit()\n"
WORKER = """class ActorRolloutRefWorker:
    def build(self):
        if self.config.rollout.name == "{engine}":
            from verl.workers.rollout.vllm_rollout import vllm_mode
"""


def likely(
    folder: Path, files: dict[str, str], *, program: str = "agent.src.main_agent", more: str = ""
) -> Any:
    """The releases that a launch may be of whose project has some files."""
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "run.sh").write_text(LAUNCH.format(program=program, more=more))
    answer = run("advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "-f", "json")
    report: dict[str, Any] = json.loads(answer.out)
    return report["premises"]["release_likely"]


def test_imports_of_a_module_beside_the_program_bound_the_release(tmp_path: Path) -> None:
    files = {"agent/src/main_agent.py": MAIN, "agent/src/loop.py": OLD}
    assert likely(tmp_path, files) == ["0.4.0", "0.4.1", "0.5.0"]


def test_imports_of_the_program_itself_do(tmp_path: Path) -> None:
    files = {"train/main.py": MODE}
    assert likely(tmp_path, files, program="train/main.py") == ["0.3.0.post1", "0.4.0", "0.4.1"]


@pytest.mark.parametrize(("engine", "newest"), [("vllm", "0.4.1"), ("sglang", "0.5.0")])
def test_an_import_under_a_condition_counts_where_the_launch_has_its_word(
    engine: str, newest: str, tmp_path: Path
) -> None:
    files = {
        "agent/src/main_agent.py": MAIN,
        "agent/src/loop.py": f"{OLD}from agent.src.fsdp_workers import ActorRolloutRefWorker\n",
        "agent/src/fsdp_workers.py": WORKER.format(engine=engine),
    }
    assert likely(tmp_path, files)[-1] == newest


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from verl.workers.rollout.vllm_rollout import vllm_mode\nexcept ImportError:\n    pass\n",
        "from verl.workers.own import Own\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    " + MODE,
    ],
)
def test_what_may_fail_or_is_of_no_release_bounds_nothing(text: str, tmp_path: Path) -> None:
    files = {"agent/src/main_agent.py": MAIN, "agent/src/loop.py": text}
    assert len(likely(tmp_path, files)) > 3


def test_a_program_of_verl_bounds_the_release_by_those_that_have_it(tmp_path: Path) -> None:
    assert likely(tmp_path / "one", {}, program="verl.trainer.main_ppo_sync") == ["0.8.0"]
    assert likely(tmp_path / "two", {}, program="verl.trainer.main_ppo_v0") == ["0.9.0", "0.9.1"]
    numbers = {"requirements.txt": "numpy==2.2.6\n"}  # which 0.5.0 to 0.8.0 do not allow
    assert likely(tmp_path / "three", numbers, program="verl.trainer.main_ppo_sync") == ["0.8.0"]
