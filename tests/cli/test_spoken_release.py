"""The release of a launch that a comment of it, or a text around it, speaks of."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tuner.trainers.verl.releases import BUNDLED

pytestmark = pytest.mark.sampled(12)

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm"""
OF_0_9 = "trainer.use_v1=False"  # a key that 0.9.0 brought
REWARD = "custom_reward_function.path=rewards/mine.py"


def premises(folder: Path, file: str, text: str, more: str = "", launch: str = LAUNCH) -> dict[str, Any]:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "scripts").mkdir(exist_ok=True)
    script = folder / "scripts/run.sh"
    script.write_text(f"{launch} {more}\n")
    (folder / file).parent.mkdir(exist_ok=True)
    with (folder / file).open("a") as there:
        there.write(text)
    told: dict[str, Any] = json.loads(run("advise", str(script), "--gpu", "h100-sxm", "-f", "json").out)
    return dict(told["premises"])


@pytest.mark.parametrize(
    ("file", "text", "release", "likely"),
    [
        ("README.md", "Tested with verl 0.5.0.\n", "0.5.0", []),
        ("scripts/run.sh", "# for one card + VERL 0.8.0.dev0\n", "0.8.0", []),
        ("README.md", "With verl 0.4.0. For verl v0.5.0.dev see there.\n", "0.4.0", []),
        ("README.md", "Training uses `verl==0.8.x` on one card.\n", "0.8.0", []),
        ("README.md", "The keys are those of **verl** v0.9, in short\n", "0.9.1", ["0.9.0", "0.9.1"]),
        ("scripts/run.sh", "# verl 0.6.1 keeps the cache of its engine\n", "0.6.1", []),
        ("scripts/train_sft.sh", "# verl 0.6.1 keeps the cache of its engine\n", "0.6.1", []),
        ("configs/other.yaml", "# verl 0.5.0 configuration\nactor: {}\n", "0.5.0", []),
        ("rewards/mine.py", '"""verl 0.7.1 calls this."""\n', "0.7.1", []),
        ("scripts/run.sh", "# Target verl version: v0.7.1\n", "0.7.1", []),
        ("scripts/run.sh", "# \u4f7f\u7528verl 0.7.1\u7684 keys\n", "0.7.1", []),
        ("scripts/mine.py", '"""Exposes the VERL interaction interface (v0.5.0)."""\n', "0.5.0", []),
        ("src/adapter.py", '"""verl 0.7.1 wants dicts."""\n', "0.7.1", []),
        ("README.md", "Training runs on the official `verl-0.5.0`.\n", "0.5.0", []),
        (
            "scripts/install_all.sh",
            "# Adapted from https://github.com/volcengine/verl/blob/v0.5.0/a.sh\n",
            "0.5.0",
            [],
        ),
        ("README.md", "See [its code](https://github.com/volcengine/verl/tree/v0.7.1).\n", "0.7.1", []),
        ("README.md", "See [its code](https://github.com/volcengine/verl/tree/main).\n", BUNDLED[-1], None),
        ("README.md", "An archive my-verl-0.5.0 and data/verl-0.5.0\n", BUNDLED[-1], None),
        ("scripts/mine.py", '"""VERL and its engine (v0.5.0)."""\n', BUNDLED[-1], None),
        ("README.md", "It needs verl 0.4.0 or newer.\n", BUNDLED[-1], None),
        ("README.md", "It needs verl>=0.4.0, and goes with verl 0.5+.\n", BUNDLED[-1], None),
        ("README.md", "This key is gone since verl 0.5.0.\n", BUNDLED[-1], None),
        ("README.md", "verl 0.5.0 and verl 0.6.0 were tried.\n", BUNDLED[-1], None),
        ("README.md", "It says:\n\n```\nverl 0.5.0, fsdp\n```\n", BUNDLED[-1], None),
        ("README.md", "An image of my-verl 0.5.0\n", BUNDLED[-1], None),
    ],
)
def test_a_text_speaks_of_one_release(
    file: str, text: str, release: str, likely: list[str] | None, tmp_path: Path
) -> None:
    more = REWARD if file == "rewards/mine.py" else ""
    told = premises(tmp_path, file, text, more)
    assert told["release"] == release
    assert told["release_likely"] == (list(BUNDLED) if likely is None else likely)


def test_what_a_text_is_not_for_is_ruled_out_and_never_meant(tmp_path: Path) -> None:
    told = premises(tmp_path, "scripts/other.sh", f"# not intended for verl v{BUNDLED[-1]} or main.\n")
    assert told["release_likely"] == list(BUNDLED[:-1])
    told = premises(tmp_path, "scripts/a.sh", "# It does not work with verl 0.8.0, but with verl 0.7.1.\n")
    assert (told["release"], told["release_likely"]) == ("0.7.1", [])


def test_the_launch_itself_says_more_than_others_beside_it(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/a_first.sh").write_text("# Target verl version: v0.6.1\n")
    told = premises(tmp_path, "scripts/run.sh", "# Target verl version: v0.7.1\n")
    assert told["release"] == "0.7.1"


def test_the_keys_of_a_launch_say_more(tmp_path: Path) -> None:
    """A text may be older than the launch, whose keys Hydra had to know."""
    told = premises(tmp_path, "README.md", "Tested with verl 0.5.0.\n", OF_0_9)
    assert told["release_likely"] == ["0.9.0", "0.9.1"]


def test_the_versions_of_other_packages_say_less(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("vllm==0.8.5\n")
    assert premises(tmp_path, "README.md", "Tested with verl 0.5.0.\n")["release"] == "0.5.0"


def test_the_versions_of_other_packages_tell_among_the_releases_that_a_text_speaks_of(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.57.6\n")  # 0.9.0 needs newer ones
    told = premises(tmp_path, "README.md", "Tested with verl 0.9.\n")
    assert told["release_likely"] == ["0.9.0", "0.9.1"]  # neither goes with them
    (tmp_path / "requirements.txt").write_text("vllm==0.20.0\n")  # of which 0.9.1 has another one
    told = premises(tmp_path, "README.md", "")
    assert (told["release"], told["release_likely"]) == ("0.9.0", ["0.9.0"])


def test_a_text_speaks_of_the_release_of_fine_tuning(tmp_path: Path) -> None:
    launch = (
        "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen3-4B"
    )
    told = premises(tmp_path, "README.md", "Tested with verl 0.5.0.\n", launch=launch)
    assert (told["release"], told["release_likely"]) == ("0.5.0", [])


def test_the_folder_that_a_launch_is_typed_in_and_settings_alone_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("Tested with verl 0.5.0.\n")
    Path("own.yaml").write_text("actor_rollout_ref: {model: {path: Qwen/Qwen2.5-7B-Instruct}}\n")
    for words in (LAUNCH.replace("\\\n", "").split(), ["own.yaml"]):
        told = json.loads(run("advise", *words, "--gpu", "h100-sxm", "-f", "json").out)
        assert told["premises"]["release"] == BUNDLED[-1]
