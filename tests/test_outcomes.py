"""Real jobs with a known end: what ran is not refused, what ran out of memory is not waved through."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run

SHARED = Path(__file__).parents[2] / "shared" / "corpus"
OUTCOMES = SHARED / "outcomes.json"
LAUNCHES = SHARED / "verl-launches.jsonl"

pytestmark = pytest.mark.skipif(not OUTCOMES.exists(), reason="the recorded outcomes are not at hand")

GRPO = "algorithm.adv_estimator=grpo"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A recorded job in the tool's terms: only what the record states, nothing that would decide it."""

    record: str
    gpu: str
    model: str
    overrides: tuple[str, ...]
    release: str = "0.4.1"  # the oldest bundled one for older releases and forks
    gpus_per_node: int = 8
    nodes: int = 1


def _records() -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in json.loads(OUTCOMES.read_text())} if OUTCOMES.exists() else {}


def _report(job: Job) -> dict[str, Any]:
    result = run(
        "advise",
        "/dev/null",
        *("--verl-version", job.release, "--gpu", job.gpu, "--model", job.model),
        *("--gpus-per-node", str(job.gpus_per_node), "--nodes", str(job.nodes)),
        *("--output-format", "json", "--", *job.overrides),
    )
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


def _documented(record: str, *, gpu: str, gpus_per_node: int, nodes: int = 1) -> Job:
    found = _records().get(record, {"model": "", "config": {"overrides": []}})
    path = next(
        (o for o in found["config"]["overrides"] if o.startswith("actor_rollout_ref.model.path=")), "="
    )
    return Job(
        record=record,
        gpu=gpu,
        model=path.split("=", 1)[1],
        overrides=tuple(found["config"]["overrides"]),
        gpus_per_node=gpus_per_node,
        nodes=nodes,
    )


def _large(record: str, launch: str, *, model: str, nodes: int) -> Job:
    """A documented Megatron recipe: the launch of the same family with the recipe's own parallelism."""
    config = _records().get(record, {"config": {}})["config"]
    overrides: list[str] = []
    for line in LAUNCHES.read_text().splitlines() if LAUNCHES.exists() else []:
        if (found := json.loads(line))["path"].endswith(launch):
            overrides = [o for o in found["overrides"] if not o.startswith("actor_rollout_ref.model.path=")]
    offload = f"+{ACTOR}.optim.override_optimizer_config.optimizer_offload_fraction"
    overrides = [o for o in overrides if not o.startswith(offload) and "num_layers_in_" not in o]
    for role in ("actor", "ref"):
        prefix = f"actor_rollout_ref.{role}.megatron"
        overrides += [
            f"{prefix}.tensor_model_parallel_size={config.get('tp')}",
            f"{prefix}.pipeline_model_parallel_size={config.get('pp')}",
            f"{prefix}.expert_model_parallel_size={config.get('ep')}",
        ]
    # The record does not say; verl's best practice for models of this size.
    recompute = f"++{ACTOR}.megatron.override_transformer_config.recompute"
    overrides = [o for o in overrides if ".recompute_" not in o]
    overrides += [
        f"{recompute}_granularity=full",
        f"{recompute}_method=uniform",
        f"{recompute}_num_layers=1",
    ]
    overrides.append(f"{offload}={config.get('optimizer_offload_fraction')}")
    return Job(
        record=record, gpu="h20-sxm", model=model, overrides=tuple(overrides), release="0.7.1", nodes=nodes
    )


FIT = [
    _documented("o075", gpu="h100-sxm", gpus_per_node=1),
    _documented("o077", gpu="h100-sxm", gpus_per_node=1),
    _documented("o079", gpu="h100-sxm", gpus_per_node=1),
    _documented("o081", gpu="h100-sxm", gpus_per_node=2),
    _documented("o083", gpu="h100-sxm", gpus_per_node=4),
    _documented("o085", gpu="h800-sxm", gpus_per_node=8, nodes=4),
    _large("o103", "run_deepseek671b_math_megatron_96gb.sh", model="DeepSeek-V3", nodes=16),
    _large("o105", "run_deepseek671b_math_megatron_96gb.sh", model="DeepSeek-V3", nodes=64),
    _large("o107", "run_qwen3-235b_megatron_96gb.sh", model="Qwen3-235B-A22B", nodes=8),
    _large("o109", "run_qwen3-235b_megatron_96gb.sh", model="Qwen3-235B-A22B", nodes=32),
]

OUT_OF_MEMORY = [
    Job(  # 16 GPUs, half of them train; the packed batch is just under 24,576 tokens
        record="o111",
        gpu="h800-sxm",
        model="Qwen2.5-32B",
        release="0.5.0",
        overrides=(GRPO, f"{ROLLOUT}.name=vllm", f"{ROLLOUT}.log_prob_use_dynamic_bsz=True"),
    ),
    Job(
        record="o113",
        release="0.2.0",  # not bundled; its logits were float32
        gpu="a100-sxm-80g",
        model="DeepSeek-R1-Distill-Qwen-14B",
        nodes=4,
        overrides=(
            GRPO,
            "data.train_batch_size=128",
            "data.max_prompt_length=2048",
            "data.max_response_length=32768",
            "actor_rollout_ref.model.use_remove_padding=True",
            "actor_rollout_ref.model.enable_gradient_checkpointing=True",
            f"{ACTOR}.ppo_mini_batch_size=64",
            f"{ACTOR}.use_dynamic_bsz=True",
            f"{ACTOR}.ppo_max_token_len_per_gpu=24000",
            f"{ACTOR}.ulysses_sequence_parallel_size=2",
            f"{ACTOR}.entropy_coeff=0.001",  # the default of the release that the fork came from
        ),
    ),
    Job(
        record="o119",
        gpu="a10g",
        model="Llama-3.2-3B",
        gpus_per_node=4,
        overrides=(
            "algorithm.adv_estimator=gae",
            "data.train_batch_size=64",
            "data.max_prompt_length=512",
            "data.max_response_length=256",
            f"{ACTOR}.ppo_mini_batch_size=4",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ROLLOUT}.tensor_model_parallel_size=1",
            f"{ROLLOUT}.gpu_memory_utilization=0.4",
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=1",
            "critic.ppo_micro_batch_size_per_gpu=1",
        ),
    ),
    Job(
        record="o121",
        gpu="a100-sxm-80g",  # the record names no card
        model="Qwen2.5-7B-Instruct",
        overrides=(
            GRPO,
            "data.train_batch_size=16",
            "data.max_prompt_length=2048",
            "data.max_response_length=4096",
            f"{ACTOR}.ppo_mini_batch_size=256",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=8",
            "actor_rollout_ref.model.enable_gradient_checkpointing=False",
            f"{ROLLOUT}.n=16",
        ),
    ),
    Job(
        record="o129",
        gpu="a100-sxm-40g",
        model="Qwen2.5-0.5B",
        gpus_per_node=2,
        overrides=(
            "data.train_batch_size=128",
            "data.max_prompt_length=4096",
            "data.max_response_length=1000",
            f"{ACTOR}.ppo_mini_batch_size=64",
            f"{ACTOR}.ppo_micro_batch_size=16",
            f"{ROLLOUT}.log_prob_micro_batch_size=32",
        ),
    ),
    Job(
        record="o133",
        gpu="rtx-3090",
        model="Qwen2.5-7B-Instruct",
        gpus_per_node=4,
        overrides=(f"{ROLLOUT}.name=vllm",),
    ),
    Job(
        record="o139",
        gpu="b200-sxm",
        model="Qwen3-30B-A3B-Instruct-2507",
        release="0.7.1",
        overrides=(
            GRPO,
            f"{ROLLOUT}.name=sglang",
            f"{ROLLOUT}.tensor_model_parallel_size=8",
            f"{ROLLOUT}.gpu_memory_utilization=0.85",
            f"{ROLLOUT}.max_model_len=32768",
            f"{ACTOR}.ppo_max_token_len_per_gpu=32768",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ACTOR}.fsdp_config.optimizer_offload=False",
            f"{ACTOR}.fsdp_config.param_offload=False",
        ),
    ),
    Job(
        record="o141",
        gpu="b200-sxm",
        model="Qwen3-30B-A3B-Instruct-2507",
        release="0.7.1",
        gpus_per_node=4,
        overrides=(
            GRPO,
            f"{ROLLOUT}.name=sglang",
            f"{ROLLOUT}.tensor_model_parallel_size=4",
            f"{ROLLOUT}.gpu_memory_utilization=0.66",
            f"{ROLLOUT}.max_model_len=32768",
            f"{ACTOR}.ppo_max_token_len_per_gpu=32768",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ACTOR}.fsdp_config.optimizer_offload=True",
            f"{ACTOR}.fsdp_config.param_offload=False",
        ),
    ),
]

# Facts that decide and that the record lacks; the answer must name them as resting on defaults.
MISSING = {
    "o141": ("data.max_prompt_length", "data.max_response_length"),
}


@pytest.mark.parametrize("job", FIT, ids=lambda job: job.record)
def test_what_is_documented_to_run_is_not_refused(job: Job) -> None:
    report = _report(job)
    assert report["verdict"] in {"fits", "tight", "fits_while_short"}, report["memory"]
    if report["verdict"] == "fits_while_short":
        longest = report["workload"]["batch"]
        assert report["mean_tokens"] < longest["max_prompt_tokens"] + longest["max_response_tokens"]


@pytest.mark.parametrize("job", OUT_OF_MEMORY, ids=lambda job: job.record)
def test_what_ran_out_of_memory_is_not_waved_through(job: Job) -> None:
    report = _report(job)
    if report["verdict"] in {"does_not_fit", "fits_while_short"}:
        return
    if job.release not in report["premises"]["release"]:
        assert job.release in report["premises"]["release_reason"]
        return
    resting = report["premises"]["resting_on_defaults"]
    assert job.record in MISSING, f"{job.record}: {report['verdict']}, resting on {resting}"
    assert any(key in resting for key in MISSING[job.record]), resting
