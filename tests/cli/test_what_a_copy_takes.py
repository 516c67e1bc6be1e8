"""What the code of a copy of verl takes and refuses, wherever it stands in it, through the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

LAUNCH = """python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.use_dynamic_bsz=True trainer.n_gpus_per_node=8"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a copy of verl that refuses nothing."""
    for name in (".git", "verl/trainer", "verl/workers"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "run.sh").write_text(LAUNCH)
    return tmp_path


def advice(repository: Path, *arguments: str) -> dict[str, Any]:
    answer = run("advise", str(repository / "run.sh"), *arguments, "--gpu", "h100-sxm", "-f", "json")
    loaded: dict[str, Any] = json.loads(answer.out)
    return loaded


CHOICES = """if package_version == '0.5.4':
    vllm_version = '0.5.4'
elif package_version == '0.6.3':
    vllm_version = '0.6.3'
else:
    raise ValueError(f'vllm version {package_version} not supported')
"""
ANY_NEWER = CHOICES.replace("else:", "elif vs.parse(package_version) >= vs.parse('0.7.0'):\n    pass\nelse:")


@pytest.mark.parametrize(
    ("choices", "requirement", "engine", "allowed"),
    [
        (CHOICES, None, "0.6.3", None),
        (CHOICES, "vllm<=0.8.5", "0.6.3", None),
        (ANY_NEWER, "vllm<=0.6.3", "0.6.3", None),
        (ANY_NEWER, "vllm<=0.8.2", "0.8.2", None),
        (ANY_NEWER, "vllm<=0.8.5", "0.8.5", None),
        (ANY_NEWER, "vllm<=0.8.5", "0.8.1", "0.8.5"),
    ],
)
def test_a_newer_engine_is_advised_as_far_as_the_copy_takes_it(
    repository: Path, choices: str, requirement: str | None, engine: str, allowed: str | None
) -> None:
    """Copies of verl 0.1 and 0.2: ``third_party/vllm/__init__.py:43-50`` raises for all but the listed."""
    place = repository / "verl" / "third_party" / "vllm"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(choices)
    if requirement is not None:
        (repository / "requirements.txt").write_text(f"{requirement}\n")
    asked = () if allowed is None else ("--engine-version", engine)
    answer = advice(repository, "--verl-version", "0.3.0.post1", *asked)
    said = [item["message"] for item in answer["findings"] if item["code"] == "CFG146"]
    assert answer["premises"]["engine"] == f"vLLM {engine}"
    assert len(said) == (allowed is not None)
    assert all(message.endswith(f"{repository.name}/requirements.txt allows {allowed}") for message in said)


@pytest.mark.parametrize(
    ("engine", "requirement", "said"),
    [
        ("0.5.4", "vllm<=0.6.3", []),  # which has the same core, and no engine that sleeps
        ("0.7.0", "vllm<=0.7.3", []),
        ("0.8.0", "vllm<=0.8.2", []),
        ("0.5.4", "vllm<=0.8.5", ["vLLM 0.5.4 runs the older core; "]),
        (
            "0.7.3",
            "vllm<=0.8.5",
            ["vLLM 0.7.3 runs the older core and wakes weights and KV cache together; "],
        ),
    ],
)
def test_an_engine_is_said_to_do_what_a_newer_one_mends(
    repository: Path, engine: str, requirement: str, said: list[str]
) -> None:
    place = repository / "verl" / "third_party" / "vllm"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(ANY_NEWER)
    (repository / "requirements.txt").write_text(f"{requirement}\n")
    answer = advice(repository, "--verl-version", "0.3.0.post1", "--engine-version", engine)
    messages = [item["message"] for item in answer["findings"] if item["code"] == "CFG146"]
    assert len(messages) == len(said)
    assert all(message.startswith(words) for message, words in zip(messages, said, strict=True))


BUCKET = """class ServerAdapter:
    async def update_weights(self, weights):
        for name, weight in weights:
            assert offset + weight.nbytes <= bucket_size, f"Weight {name} is too large"
"""


@pytest.mark.parametrize(
    ("file", "verdict"),
    [
        ("rollout/vllm_rollout/bucketed_weight_transfer.py", "will_not_start"),
        ("rollout/vllm_rollout/vllm_rollout.py", "will_not_start"),
        ("nccl_engine.py", "fits"),  # another way for the weights, which this launch does not take
    ],
)
def test_a_refusal_is_found_in_whichever_file_the_copy_has_it(
    repository: Path, file: str, verdict: str
) -> None:
    """verl 0.7.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py:136``; copies of its branch line
    210 of ``vllm_rollout.py`` beside it."""
    place = repository / "verl" / "workers" / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(BUCKET)
    launch = LAUNCH.replace("-7B", "-14B")
    (repository / "run.sh").write_text(f"{launch} trainer.use_legacy_worker_impl=enable")
    answer = advice(repository, "--verl-version", "0.7.1")
    (finding,) = (item for item in answer["findings"] if item["code"] == "CFG132")
    assert answer["verdict"] == verdict
    assert (finding["severity"] == "error") is (verdict == "will_not_start")
