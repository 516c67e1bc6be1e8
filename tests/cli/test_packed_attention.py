"""Packed rows whose attention is not FlashAttention, in copies of verl and beside old libraries."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

ROLE = "actor_rollout_ref"
LAUNCH = f"""python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 \\
    {ROLE}.model.path=Qwen/Qwen2.5-3B {ROLE}.rollout.name=vllm {ROLE}.actor.ppo_mini_batch_size=64 \\
    data.max_prompt_length=1024 data.max_response_length=4096 {ROLE}.rollout.n=4 trainer.n_gpus_per_node=8 \\
    {ROLE}.actor.ppo_micro_batch_size_per_gpu=2 {ROLE}.rollout.log_prob_micro_batch_size_per_gpu=2"""
PACKS = f"{ROLE}.model.use_remove_padding=True"
LOADS = """class ActorRolloutRefWorker:
    def _build_model_optimizer(self):
        packs = self.config.model.get("use_remove_padding", False)
        module = AutoModelForCausalLM.from_pretrained(path, config=config{named})
"""
OF_TORCH, OF_FLASH = ', attn_implementation="sdpa"', ', attn_implementation="flash_attention_2"'


def answer_to(folder: Path, *overrides: str, version: str = "0.4.1", requires: str = "") -> dict[str, Any]:
    (folder / "run.sh").write_text(" ".join((LAUNCH, *overrides)))
    (folder / "requirements.txt").write_text(requires)
    out = run(
        "advise", str(folder / "run.sh"), "--gpu", "h100-sxm", "--verl-version", version, "-f", "json"
    ).out
    answer: dict[str, Any] = json.loads(out)
    return answer


def finding_in(answer: dict[str, Any]) -> dict[str, Any] | None:
    return next((one for one in answer["findings"] if one["code"] == "CFG210"), None)


def copy_with(folder: Path, named: str) -> None:
    for name in (".git", "verl/trainer/config", "verl/workers"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "verl/trainer/main_ppo.py").write_text("config.actor_rollout_ref.model.path\n")
    (folder / "verl/workers/fsdp_workers.py").write_text(LOADS.format(named=named))


@pytest.mark.parametrize(
    ("requires", "severity"),
    [
        ("transformers==4.47.1\n", "error"),
        ("transformers==4.53.0\n", "error"),
        ("transformers==4.53.1\n", None),
        ("transformers==4.56.0\ntorch==2.5.1\n", "error"),
        ("", "warning"),
    ],
)
@pytest.mark.parametrize("named", [OF_TORCH, ""])  # which transformers takes where nothing is named
def test_a_copy_whose_attention_sees_the_whole_row(
    tmp_path: Path, named: str, requires: str, severity: str | None
) -> None:
    copy_with(tmp_path, named)
    found = finding_in(answer_to(tmp_path, PACKS, requires=requires))
    assert (None if found is None else found["severity"]) == severity
    if found is not None:
        assert found["overrides"] == [f"{ROLE}.model.use_remove_padding=False"]
        assert found["numerics"] == "changed"

    padded = {finding["code"] for finding in answer_to(tmp_path, requires=requires)["findings"]}
    assert ("SEQ001" in padded) is (severity is None)  # what is packed would attend to each other


def test_a_copy_that_asks_for_flash_attention(tmp_path: Path) -> None:
    copy_with(tmp_path, OF_FLASH)
    requires = "transformers==4.47.1\n"
    assert finding_in(answer_to(tmp_path, PACKS, requires=requires)) is None
    assert "SEQ001" in {finding["code"] for finding in answer_to(tmp_path, requires=requires)["findings"]}


def test_a_release_beside_an_old_transformers(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    key = f"+{ROLE}.model.override_config.attn_implementation=sdpa"
    old = "transformers==4.51.3\n"
    found = finding_in(answer_to(tmp_path, PACKS, key, version="0.6.1", requires=old))
    assert found is not None
    assert found["severity"] == "error"
    assert "transformers 4.51.3" in found["message"]
    assert found["overrides"] == [f"{key.removesuffix('sdpa').lstrip('+')}flash_attention_2"]
    assert finding_in(answer_to(tmp_path, PACKS, key, version="0.6.0", requires=old)) is None  # not read
    assert finding_in(answer_to(tmp_path, PACKS, version="0.6.1", requires=old)) is None
    assert "SEQ001" not in {
        finding["code"] for finding in answer_to(tmp_path, key, version="0.6.1", requires=old)["findings"]
    }


def test_a_copy_that_reads_a_key_of_its_own(tmp_path: Path) -> None:
    copy_with(tmp_path, ", attn_implementation=attention")
    workers = tmp_path / "verl/workers/fsdp_workers.py"
    read = """        attention = self.config.model.get("attn_implementation", "flash_attention_2")\n"""
    lines = workers.read_text().splitlines(keepends=True)
    workers.write_text("".join([*lines[:2], read, *lines[2:]]))
    key, old = f"{ROLE}.model.attn_implementation", "transformers==4.47.1\n"
    found = finding_in(answer_to(tmp_path, PACKS, f"+{key}=sdpa", requires=old))
    assert found is not None
    assert found["overrides"] == [f"{key}=flash_attention_2"]
    assert any("use_remove_padding=False keeps sdpa" in note for note in found["notes"])
    assert finding_in(answer_to(tmp_path, PACKS, f"+{key}=flash_attention_2", requires=old)) is None
    assert finding_in(answer_to(tmp_path, PACKS, requires=old)) is None


@pytest.mark.parametrize(
    ("needed", "also", "older"),
    [
        ("vllm==0.10.2\ntransformers==4.57.6\n", "trl==0.19.1", False),
        ("vllm==0.10.2\ntransformers==4.57.6\n", "verl==0.7.1", True),  # the environment that trains
        ("transformers==4.57.6\n", "trl==0.19.1", True),  # nothing says which of them trains
    ],
)
def test_a_script_that_makes_another_environment_says_nothing_of_transformers(
    tmp_path: Path, needed: str, also: str, *, older: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text(needed)
    script = tmp_path / "scripts" / "run.sh"
    script.parent.mkdir()
    (script.parent / "setup_node.sh").write_text(f"pip install transformers==4.52.3 {also}\n")
    key = f"+{ROLE}.model.override_config.attn_implementation=sdpa"
    script.write_text(" ".join((LAUNCH, PACKS, key)))
    given = ("--gpu", "h100-sxm", "--verl-version", "0.7.1", "-f", "json")
    found = finding_in(json.loads(run("advise", str(script), *given).out))
    assert (found is not None) is older
