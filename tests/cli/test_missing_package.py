"""What needs flash-attn stands apart where the launch or a file around it says that it cannot be had."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

KEY = "actor_rollout_ref.model.override_config.attn_implementation"
LAUNCH = f"""{{comment}}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_response_length=4096 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 trainer.n_gpus_per_node=8 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 +{KEY}=sdpa \\
    actor_rollout_ref.model.use_remove_padding={{packed}}
"""
PIN = {"requirements.txt": "flash-attn==2.8.3\n"}


def packing(
    tmp_path: Path, release: str, comment: str, files: dict[str, str], *, packed: bool = False
) -> dict[str, Any]:
    (tmp_path / ".git").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "run.sh").write_text(LAUNCH.format(comment=comment, packed=packed))
    given = ("--gpu", "h100-sxm", "--verl-version", release, "--mean-response-length", "400", "-f", "json")
    answer = run("advise", str(tmp_path / "run.sh"), *given)
    assert answer.out, answer.err
    told: dict[str, Any] = json.loads(answer.out)
    return {"block": told["combination"], "head": told["workload"]["actor"]["head"], "time": told["time"]}


@pytest.mark.parametrize(
    ("comment", "files"),
    [
        ("# flash-attn cannot be installed on this cluster", PIN),
        ("# no flash_attn here: pad instead", PIN),
        ("", {**PIN, "README.md": "FlashAttention-2 could not be built on our machines.\n"}),
        ("", {**PIN, "install.sh": "./build.sh --no-flash-attn\n"}),
    ],
)
@pytest.mark.parametrize("release", ["0.7.1", "0.8.0"])
def test_what_needs_it_is_in_no_block(
    tmp_path: Path, release: str, comment: str, files: dict[str, str]
) -> None:
    told = packing(tmp_path, release, comment, files)
    lines = [] if told["block"] is None else told["block"]["overrides"]
    assert not [line for line in lines if "use_remove_padding=True" in line or "flash_attention_2" in line]
    assert told["head"]["fused_cross_entropy"] is False


@pytest.mark.parametrize(
    ("comment", "files"),
    [
        ("# sdpa, to compare", PIN),
        ("# if flash-attn cannot be installed, use sdpa", PIN),
        (
            "",
            {**PIN, "README.md": "It runs without flash-attn. pip install --no-build-isolation flash-attn\n"},
        ),
        ("", {**PIN, "install.sh": "pip install flash-attn --no-build-isolation  # not built twice\n"}),
    ],
)
def test_what_says_no_such_thing_changes_nothing(tmp_path: Path, comment: str, files: dict[str, str]) -> None:
    told = packing(tmp_path, "0.7.1", comment, files)
    assert "use_remove_padding=True" in " ".join(told["block"]["overrides"])
    assert told["head"]["fused_cross_entropy"] is True


@pytest.mark.parametrize(
    ("release", "comment", "looped"),
    [
        ("0.9.1", "# flash-attn cannot be installed", True),
        ("0.9.1", "export VERL_DISABLE_FLASH_ATTN_CE=1", True),
        ("0.8.0", "export VERL_DISABLE_FLASH_ATTN_CE=1", False),
        ("0.9.1", "export VERL_DISABLE_FLASH_ATTN_CE=0", False),
    ],
)
def test_a_loss_that_goes_token_by_token_takes_the_seconds_of_its_kernels(
    tmp_path: Path, release: str, comment: str, looped: bool
) -> None:
    known, told = (
        packing(tmp_path / name, release, words, {}, packed=True)
        for name, words in (("known", ""), ("told", comment))
    )
    more = seconds(told, "old_log_prob") - seconds(known, "old_log_prob")
    tokens = 1024 * 8 * (400 + 256) / 8
    assert (more > 0.5 * tokens * 2 * 8.8e-6) is looped
    assert told["head"]["fused_cross_entropy"] is not looped


def seconds(told: dict[str, Any], phase: str) -> float:
    return float(next(one["seconds"] for one in told["time"] if one["phase"] == phase))
