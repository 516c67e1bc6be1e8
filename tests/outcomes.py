"""The recorded jobs in the tool's terms: only what a record states, nothing that would decide it."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.cli.runner import run
from tests.corpus import launches, outcomes

GRPO = "algorithm.adv_estimator=grpo"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One recorded job."""

    record: str
    gpu: str
    model: str
    overrides: tuple[str, ...]
    release: str = "0.4.1"  # the oldest bundled one for older releases and forks
    gpus_per_node: int = 8
    nodes: int = 1
    host_memory: float | None = None  # GiB of one node
    engine: str | None = None  # version of the rollout engine, where the record or its source tells it


@cache
def report(job: Job, *options: str) -> dict[str, Any]:
    """What the command line says about it, asked once: two laws ask of the same jobs."""
    host = () if job.host_memory is None else ("--host-memory", str(job.host_memory))
    engine = () if job.engine is None else ("--engine-version", job.engine)
    result = run(
        "advise",
        "/dev/null",
        *("--verl-version", job.release, "--gpu", job.gpu, "--model", job.model),
        *("--gpus-per-node", str(job.gpus_per_node), "--nodes", str(job.nodes)),
        *(*host, *engine, "--output-format", "json", *options, "--", *job.overrides),
    )
    assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def _documented(record: str, *, gpu: str, gpus_per_node: int, nodes: int = 1) -> Job:
    """A row of verl's table of least resources, whose column "Infer" says vllm0.8.3 for all of these."""
    overrides = outcomes()[record]["config"]["overrides"]
    path = next(text for text in overrides if text.startswith("actor_rollout_ref.model.path="))
    return Job(
        record=record,
        gpu=gpu,
        model=path.split("=", 1)[1],
        overrides=tuple(overrides),
        gpus_per_node=gpus_per_node,
        nodes=nodes,
        engine="0.8.3",
    )


def _large(record: str, launch: str, *, model: str, nodes: int, last_layers: int | None = None) -> Job:
    """A documented Megatron recipe: the launch of the same family with the recipe's own parallelism.

    ``last_layers`` is the column LAST_LAYER of the record's source.
    """
    config = outcomes()[record]["config"]
    script = [recorded for recorded in launches() if recorded["path"].endswith(launch)][-1]
    overrides = [o for o in script["overrides"] if not o.startswith("actor_rollout_ref.model.path=")]
    offload = f"+{ACTOR}.optim.override_optimizer_config.optimizer_offload_fraction"
    overrides = [o for o in overrides if not o.startswith(offload) and "num_layers_in_" not in o]
    for role in ("actor", "ref"):
        prefix = f"actor_rollout_ref.{role}.megatron"
        overrides += [
            f"{prefix}.tensor_model_parallel_size={config.get('tp')}",
            f"{prefix}.pipeline_model_parallel_size={config.get('pp')}",
            f"{prefix}.expert_model_parallel_size={config.get('ep')}",
        ]
    if last_layers is not None:
        last = f"{ACTOR}.megatron.override_transformer_config.num_layers_in_last_pipeline_stage"
        overrides.append(f"+{last}={last_layers}")
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
    _large("o103", "run_deepseek671b_math_megatron_96gb.sh", model="DeepSeek-V3", nodes=16, last_layers=1),
    _large("o105", "run_deepseek671b_math_megatron_96gb.sh", model="DeepSeek-V3", nodes=64, last_layers=1),
    _large("o107", "run_qwen3-235b_megatron_96gb.sh", model="Qwen3-235B-A22B", nodes=8),
    Job(  # twenty steps ran; the metric above the card's size is the sleeping engine's pool
        record="o145",
        gpu="a100-sxm-80g",
        model="Qwen3-14B",
        release="0.7.1",
        engine="0.11.2",
        gpus_per_node=1,
        overrides=(
            GRPO,
            "data.max_prompt_length=8192",
            "data.max_response_length=24576",
            "actor_rollout_ref.model.lora_rank=32",
            f"{ACTOR}.strategy=fsdp2",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ACTOR}.fsdp_config.model_dtype=bf16",
            f"{ROLLOUT}.name=vllm",
            f"{ROLLOUT}.tensor_model_parallel_size=1",
            f"{ROLLOUT}.gpu_memory_utilization=0.55",
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=1",  # not recorded, but verl asks for it
        ),
    ),
    _large("o109", "run_qwen3-235b_megatron_96gb.sh", model="Qwen3-235B-A22B", nodes=32),
]

OUT_OF_MEMORY = [
    Job(  # 16 GPUs, half of them train; the packed batch is just under 24,576 tokens
        record="o111",
        gpu="h800-sxm",
        model="Qwen2.5-32B",
        release="0.5.0",
        overrides=(
            GRPO,
            f"{ROLLOUT}.name=vllm",
            f"{ROLLOUT}.log_prob_use_dynamic_bsz=True",
            "actor_rollout_ref.model.use_remove_padding=True",  # its record speaks of a packed micro-batch
            f"{ACTOR}.use_torch_compile=False",  # and its stack of the function itself
        ),
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
    Job(  # the record quotes no parallel sizes of its Megatron engine
        record="o123",
        gpu="h800-sxm",
        model="Qwen2.5-32B-Instruct",
        nodes=4,
        overrides=(
            "algorithm.adv_estimator=gae",
            "data.train_batch_size=32",
            "data.max_prompt_length=1024",
            "data.max_response_length=1024",
            f"{ACTOR}.strategy=megatron",
            f"{ACTOR}.ppo_mini_batch_size=2",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
            f"{ROLLOUT}.tensor_model_parallel_size=2",
            f"{ROLLOUT}.gpu_memory_utilization=0.3",
            "critic.strategy=megatron",
            "critic.model.path=Qwen/Qwen2.5-32B-Instruct",
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
    Job(  # its repository says that the 0.8.0 wheel fails at the weight sync
        record="o139",
        gpu="b200-sxm",
        model="Qwen3-30B-A3B-Instruct-2507",
        release="0.8.0",
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
        release="0.8.0",
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

OUT_OF_HOST_MEMORY = [
    Job(
        record="o143",
        gpu="a100-sxm-80g",
        model="Qwen3-14B",
        release="0.7.1",
        gpus_per_node=1,
        host_memory=201.0,  # 216 GB
        overrides=(
            GRPO,
            "data.max_prompt_length=8192",
            "data.max_response_length=24576",
            f"{ACTOR}.strategy=fsdp2",
            f"{ACTOR}.use_kl_loss=True",  # the record counts a reference
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
            f"{ACTOR}.fsdp_config.offload_policy=True",
            f"{ROLLOUT}.name=vllm",
            f"{ROLLOUT}.tensor_model_parallel_size=1",
            f"{ROLLOUT}.gpu_memory_utilization=0.55",
        ),
    ),
]

# Records that are not judged, by the reason.
LEFT_OUT = {
    "training steps of prime-rl, whose engine and head are its own: peaks, not configurations that failed": (
        *(f"o{number:03}" for number in range(1, 24, 2)),
        *(f"o{number:03}" for number in range(27, 56, 2)),
        "o169",
    ),
    "a training step of prime-rl that failed; only its allocation is explained": ("o025",),
    "recipes of NeMo-RL with the bound of a test, not a peak": tuple(
        f"o{number:03}" for number in range(57, 74, 2)
    ),
    "NeMo-RL, without a model or sizes": ("o115",),
    "a tensor that NeMo-RL measured, not a job": ("o167",),
    "EasyR1 has a configuration of its own, and these are its authors' estimates": tuple(
        f"o{number:03}" for number in range(87, 102, 2)
    ),
    "EasyR1 has a configuration of its own; no lengths and no batch are recorded": ("o127",),
    "EasyR1 has a configuration of its own; out of host memory": ("o137",),
    "the difference of two peaks with two heads, on a card that is not profiled": ("o117",),
    "verl, but its settings are in a picture: two lengths, no parallel sizes": ("o125",),
    "no settings, only the name of a script of a fork that is older than any bundled release": ("o131",),
    "out of host memory, without a model or a setting": ("o135",),
    "a card that shares its memory with the host; none such is modelled": (
        *("o147", "o149", "o151", "o153", "o155", "o157"),
    ),
    "the card is not recorded, so there is nothing to fit": ("o159", "o161"),
    "one step of a dry run whose batch is not recorded: whether a micro-batch was full is not known": (
        "o163",
    ),
    "supervised fine-tuning, another entry point, without settings": ("o165",),
    "attention of another framework, without a model": ("o171",),
}
