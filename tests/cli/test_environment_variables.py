"""Variables of a launch script that slow a job down or stop its engine are told with their line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

pytestmark = pytest.mark.sampled(12)

PROGRAM = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "data.max_prompt_length=1024 data.max_response_length=1024 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct actor_rollout_ref.rollout.n=4 "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.ppo_mini_batch_size=64 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 "
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 trainer.nnodes=1 "
)
GPUS = "trainer.n_gpus_per_node=8\n"


def findings(folder: Path, script: str, *options: str) -> list[dict[str, Any]]:
    file = folder / "run.sh"
    file.write_text(script)
    result = run("advise", str(file), "--gpu", "h100-sxm", *options, "-f", "json")
    assert result.code == 0, result.err
    listed = json.loads(result.out)["findings"]
    return [item for item in listed if item["code"] == "CFG197"]


@pytest.mark.parametrize(
    ("front", "line"),
    [
        ("export NCCL_P2P_DISABLE=1\n", 1),
        ("\nNCCL_P2P_DISABLE=1\nexport NCCL_P2P_DISABLE\n", 2),
        ("set -a\nNCCL_P2P_DISABLE=1\n", 2),
        ("NCCL_P2P_DISABLE=1 ", 1),
        ("env NCCL_P2P_DISABLE=1 ", 1),
        ('ray job submit --runtime-env-json=\'{"env_vars": {"NCCL_P2P_DISABLE": "1"}}\' -- ', 1),
    ],
    ids=["exported", "exported later", "all exported", "in front", "by env", "by ray"],
)
def test_a_variable_that_the_program_gets_is_told_with_its_line(
    tmp_path: Path, front: str, line: int
) -> None:
    (finding,) = findings(tmp_path, front + PROGRAM + GPUS)
    assert finding["message"].startswith(f"NCCL_P2P_DISABLE=1 (run.sh:{line}): ")
    assert "64 GB/s at most instead of NVLink's 450" in finding["message"]
    assert finding["location"]["line"] == line


@pytest.mark.parametrize(
    "front",
    [
        "NCCL_P2P_DISABLE=1\n",
        "export NCCL_P2P_DISABLE=0\n",
        "export NCCL_P2P_DISABLE=1\nunset NCCL_P2P_DISABLE\n",
        "export NCCL_P2P_DISABLE=$SOMETHING\n",
        "if nvidia-smi topo -m | grep -q NV; then export NCCL_P2P_DISABLE=1; fi\n",
        "bash -c 'export NCCL_P2P_DISABLE=1'\n",
        "export NCCL_SHM_DISABLE=1\n",
        "# export NCCL_P2P_DISABLE=1\n",
    ],
    ids=["not exported", "off", "unset", "unknown", "one branch", "another shell", "not used", "comment"],
)
def test_one_that_it_may_not_get_or_that_does_nothing_is_not(tmp_path: Path, front: str) -> None:
    assert findings(tmp_path, front + PROGRAM + GPUS) == []


def test_a_card_without_nvlink_and_a_node_of_one_keep_theirs(tmp_path: Path) -> None:
    script = "export NCCL_P2P_DISABLE=1\n" + PROGRAM
    assert findings(tmp_path, script + GPUS, "--gpu", "l40s") == []
    assert (
        findings(
            tmp_path,
            script + "trainer.n_gpus_per_node=1 actor_rollout_ref.rollout.tensor_model_parallel_size=1\n",
        )
        == []
    )


@pytest.mark.parametrize(("size", "told"), [(1, False), (2, True)])
def test_gpus_that_only_validate_exchange_what_a_replica_does(tmp_path: Path, size: int, told: bool) -> None:
    only = " trainer.val_only=True actor_rollout_ref.rollout.tensor_model_parallel_size="
    script = f"export NCCL_P2P_DISABLE=1\n{PROGRAM}{GPUS.rstrip()}{only}{size}\n"
    assert bool(findings(tmp_path, script)) is told


def test_several_are_told_together_in_the_short_answer(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "export CUDA_LAUNCH_BLOCKING=1\nexport NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1\n" + PROGRAM + GPUS
    )
    result = run("advise", str(tmp_path / "run.sh"), "--gpu", "h100-sxm")
    words = " ".join(result.out.split())
    first = words.index(
        "What matters most warning CFG197 debugging-variables CUDA_LAUNCH_BLOCKING=1 (run.sh:1)"
    )
    assert words.index("NCCL_P2P_DISABLE=1 (run.sh:2)") > first
    assert words.index("NCCL_SHM_DISABLE=1 (run.sh:2)") > first


@pytest.mark.parametrize(
    ("front", "release", "engine", "severity", "said"),
    [
        ("VLLM_ATTENTION_BACKEND=XFORMERS", "0.4.0", "0.8.5", "warning", "falls back to its older core"),
        ("VLLM_USE_V1=0", "0.4.0", "0.8.5", "warning", "falls back to its older core"),
        ("VLLM_ATTENTION_BACKEND=XFORMERS", "0.3.0.post1", "0.6.3", None, ""),
        ("VLLM_ATTENTION_BACKEND=FLASH_ATTN", "0.4.0", "0.8.5", None, ""),
        ("VLLM_ATTENTION_BACKEND=XFORMERS", "0.6.1", "0.11.0", "warning", "attention of 28 layers"),
        ("VLLM_ATTENTION_BACKEND=XFORMERS", "0.6.1", "0.11.2", "warning", "captures no whole decoding step"),
        ("VLLM_ATTENTION_BACKEND=FLASH_ATTN", "0.6.1", "0.11.0", None, ""),
        ("VLLM_USE_V1=0", "0.6.1", "0.11.0", "error", "raises an error for its older core"),
        ("VLLM_ATTENTION_BACKEND=XFORMERS VLLM_USE_V1=1", "0.4.0", "0.8.5", "error", "raises an error"),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "0.7.1", "0.12.0", "error", "do not expand"),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "0.9.1", "0.21.0", None, ""),
    ],
)
def test_what_a_release_of_vllm_does_with_its_own(
    tmp_path: Path, front: str, release: str, engine: str, severity: str | None, said: str
) -> None:
    """vLLM 0.8.5 engine/arg_utils.py:1444-1460, 1649; 0.11.0 v1/engine/llm_engine.py:59; cumem.py."""
    options = ("--verl-version", release, "--engine-version", engine)
    told = findings(tmp_path, f"export {front}\n{PROGRAM}{GPUS}", *options)
    assert [finding["severity"] for finding in told] == ([] if severity is None else [severity])
    assert all(said in finding["message"] for finding in told)


def test_without_graphs_none_is_lost(tmp_path: Path) -> None:
    eager = "actor_rollout_ref.rollout.enforce_eager=True "
    options = ("--verl-version", "0.6.1", "--engine-version", "0.11.0")
    script = f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{PROGRAM}{eager}{GPUS}"
    assert findings(tmp_path, script, *options) == []


@pytest.mark.parametrize(
    ("prompt", "eager", "told"), [(9000, True, True), (512, True, False), (9000, False, False)]
)
def test_graphs_that_only_the_newer_core_replays_are_told_with_the_variable(
    tmp_path: Path, prompt: int, eager: bool, told: bool
) -> None:
    rollout = "actor_rollout_ref.rollout"
    freed = f"{rollout}.free_cache_engine={eager}"  # with graphs verl 0.4 does not free it
    more = f"data.max_prompt_length={prompt} {rollout}.enforce_eager={eager} {freed} "
    script = f"export VLLM_ATTENTION_BACKEND=XFORMERS\n{PROGRAM}{more}{GPUS}"
    (finding,) = findings(tmp_path, script, "--verl-version", "0.4.0", "--engine-version", "0.8.5")
    words = "CUDA graphs as well (actor_rollout_ref.rollout.enforce_eager=False)"
    assert (words in finding["message"]) is told


def test_the_servers_of_the_async_mode_refuse_the_older_core(tmp_path: Path) -> None:
    """vLLM 0.8.5 v1/engine/async_llm.py:142; verl 0.4.1 vllm_async_server.py:190."""
    script = f"export VLLM_USE_V1=0\n{PROGRAM}actor_rollout_ref.rollout.mode=async {GPUS}"
    (finding,) = findings(tmp_path, script, "--verl-version", "0.4.1", "--engine-version", "0.8.5")
    assert finding["severity"] == "error"


def test_fine_tuning_is_told_as_well(tmp_path: Path) -> None:
    script = (
        "export CUDA_LAUNCH_BLOCKING=1\ntorchrun --nproc_per_node=2 -m verl.trainer.fsdp_sft_trainer "
        "data.train_batch_size=8 data.max_length=1024 model.partial_pretrain=Qwen/Qwen2.5-1.5B-Instruct\n"
    )
    (finding,) = findings(tmp_path, script, "--verl-version", "0.4.1")
    assert "waits for every kernel" in finding["message"]


def test_the_file_of_the_runtime_environment_decides_over_the_shell(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "env.yaml").write_text("working_dir: ./\nenv_vars:\n  NCCL_P2P_DISABLE: '1'\n")
    submit = "ray job submit --runtime-env={} -- "
    for front in ("", "export NCCL_P2P_DISABLE=1\n", "export NCCL_P2P_DISABLE=0\n"):
        (finding,) = findings(tmp_path, front + submit.format("runtime/env.yaml") + PROGRAM + GPUS)
        assert finding["message"].startswith("NCCL_P2P_DISABLE=1 (env.yaml:3): ")
        assert finding["location"]["source"].endswith("runtime/env.yaml")
    (tmp_path / "runtime" / "env.yaml").write_text("env_vars: {NCCL_P2P_DISABLE: '0'}\n")
    exported = "export NCCL_P2P_DISABLE=1\n" + submit.format("runtime/env.yaml")
    assert findings(tmp_path, exported + PROGRAM + GPUS) == []
    (finding,) = findings(tmp_path, exported.replace("env.yaml", "other.yaml") + PROGRAM + GPUS)
    assert finding["location"]["line"] == 1


@pytest.mark.parametrize(
    ("before", "front", "told"),
    [
        ("export CUDA_LAUNCH_BLOCKING=1\n", "", False),
        ("export CUDA_LAUNCH_BLOCKING=1\nray start --head\n", "", True),
        ("", 'ray job submit --runtime-env-json=\'{"env_vars": {"CUDA_LAUNCH_BLOCKING": "1"}}\' -- ', True),
    ],
    ids=["a cluster that was there", "one that the script starts", "handed to its workers"],
)
def test_the_workers_of_several_nodes_have_what_their_ray_has(
    tmp_path: Path, before: str, front: str, told: bool
) -> None:
    script = before + front + PROGRAM.replace("nnodes=1", "nnodes=2") + GPUS
    assert bool(findings(tmp_path, script)) is told


@pytest.mark.parametrize("front", ["", "export NCCL_P2P_DISABLE=1\n"])
def test_the_seconds_of_a_block_are_those_without_what_slows_the_job_down(tmp_path: Path, front: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(front + PROGRAM + GPUS)
    text = " ".join(run("advise", str(file), "--gpu", "h100-sxm").out.split())
    assert "Paste this" in text
    assert ("counted as if what CFG197 names were gone" in text) == bool(front)
