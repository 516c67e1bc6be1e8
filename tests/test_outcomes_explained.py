"""Real jobs that ran out of memory: their errors are explained as their records explain them, or better.

What a record quotes becomes the message, and the functions that it names become the stack; nothing else is
added. ``python -m tests.test_outcomes_explained`` prints the table with the answers.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.cli.runner import run
from tests.corpus import outcomes
from tests.outcomes import OUT_OF_HOST_MEMORY, OUT_OF_MEMORY, Job

JOBS = {job.record: job for job in (*OUT_OF_MEMORY, *OUT_OF_HOST_MEMORY)}
WORKERS = "verl/workers"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One record, what was printed as far as it says, and what the explanation must name."""

    record: str
    names: tuple[str, ...]  # parts of the text, each a fact of the record's explanation
    stack: tuple[tuple[str, str, str], ...] = ()  # file, function and line of the program
    printed: str = ""  # other words than those of PyTorch's allocator
    arguments: tuple[str, ...] = ()  # where the record's job is none of verl's: what it says of the job


# prime-rl's step in verl's keys, as far as the record states it; its head is fused.
PRIME_RL = (
    "algorithm.adv_estimator=grpo",
    "data.max_prompt_length=1024",
    "data.max_response_length=64512",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.model.use_fused_kernels=True",
    "actor_rollout_ref.model.lora_rank=16",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536",
    "actor_rollout_ref.rollout.name=vllm",
)
RESUMED = ("sglang_rollout.py", "resume_memory_occupation", "")
SLEEPING = "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create"

CASES = [
    Case(  # not explained there; tests/test_outcomes.py says why it is this tensor
        record="o025",
        names=("65,536 tokens x 8 experts per token x 4,096 hidden entries x 4 bytes",),
        arguments=("--gpu", "b200-sxm", "--model", "Qwen3-235B-A22B", "/dev/null", *PRIME_RL),
    ),
    Case(
        record="o111",
        names=(
            "24,555 tokens x 152,064 vocabulary entries x 4 bytes",
            "Out of GPU memory in old_log_prob",
            "softmax, logsumexp copy or product in float32",
            "old_log_prob peaks at",
            "the error agrees",
            "log_prob_max_token_len_per_gpu=",
            "forward-budget-too-large",
        ),
        stack=(
            (f"{WORKERS}/actor/dp_actor.py", "compute_log_prob", ""),
            ("verl/utils/torch_functional.py", "entropy_from_logits", ""),
        ),
    ),
    Case(
        record="o113",
        names=(
            "21,378 tokens x 152,064 vocabulary entries x 4 bytes",
            "update_actor",
            "a backward pass",
            "Fragmented memory: 8.5 GiB free and 9.5 GiB reserved",
            "ppo_max_token_len_per_gpu=24000",
            "token-budget-too-large",
        ),
        stack=((f"{WORKERS}/fsdp_workers.py", "update_actor", "loss.backward()"),),
    ),
    Case(
        record="o115",
        names=(
            "entropy, cross entropy or softmax of the logits",
            "3,382 million entries in float32",
            "in float32 for all tokens of a micro-batch at once, unless in chunks",
            "12.4 GiB were free",
        ),
        stack=(
            ("nemo_rl/policy.py", "train", ""),
            ("nemo_rl/loss.py", "_compute_distributed_log_softmax", ""),
        ),
    ),
    Case(
        record="o119",
        names=(
            "100,669,440 parameters of a decoder layer / 4 ranks x 4 bytes",
            "a shard of the actor's weights",
            "a shard of the critic's weights",
            "whatever the batch",
            "the error agrees",
            "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
            "critic.model.fsdp_config.optimizer_offload=True",
        ),
    ),
    Case(
        record="o121",
        names=("update_actor", "the error agrees", "fewer tokens", "gradient-checkpointing", "enough"),
        stack=((f"{WORKERS}/actor/dp_actor.py", "update_policy", "loss.backward()"),),
    ),
    Case(
        record="o127",
        names=("could not take its memory again", "a smaller share", "rollout.gpu_memory_utilization"),
        stack=((f"{WORKERS}/sharding_manager/fsdp_vllm.py", "__enter__", "self.inference_engine.wake_up()"),),
        printed="CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    ),
    Case(
        record="o129",
        names=("old_log_prob peaks at", "the error agrees", "log_prob_micro_batch_size_per_gpu="),
    ),
    Case(
        record="o133",
        names=(
            "a smaller share makes it worse",
            "of 23.7 GiB, so that the job does not fit",
            "the engine does not start: the error agrees",
        ),
        printed="ValueError: No available memory for the cache blocks.",
    ),
    Case(
        record="o135",
        names=("Out of host memory on a node, not on a GPU",),
        printed="Memory on the node (IP: 10.0.0.1) where the task was running was 212.88GB / 224.00GB (0.95)",
    ),
    Case(
        record="o139",
        names=(
            "update_weights or wake_up",
            "the error agrees",
            "moments of the first update are there from the second step on",
            "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
            "rollout-fraction-too-large",
        ),
        stack=(RESUMED,),
        printed=SLEEPING,
    ),
    Case(  # lengths that decide are not recorded, see MISSING in tests/test_outcomes.py
        record="o141",
        # Its interval ends below what was there: blocks that no engine can take back are not modelled.
        names=("update_weights or wake_up", "a part that is not modelled", "parameter-offload"),
        stack=(RESUMED,),
        printed=SLEEPING,
    ),
    Case(
        record="o143",
        names=("Out of host memory", "actor_optimizer 110.0 GiB", "reference_weights", "the error agrees"),
        printed="Task was killed due to the node running low on memory.",
    ),
    Case(
        record="o171",
        names=("attention scores of every pair of tokens", "58,215 tokens x 58,215 tokens"),
        arguments=("--model", "gemma-3-12b-it"),
    ),
]
QUOTED = [case for case in CASES if any("tried" in key for key in outcomes()[case.record]["observed"])] + [
    case for case in CASES if "Tried to allocate" in str(outcomes()[case.record]["observed"].get("error"))
]
SHARE = 0.8  # of the records that quote a failed size

# Records of jobs that failed and have nothing to explain: no figure, no function, no setting of the failure.
SILENT = {
    "o123": "a picture, of which no figure, phase or explanation is recorded",
    "o137": "no setting and no size; its host memory is counted by hand",
}


def message(case: Case) -> str:
    """What was printed, as far as the record quotes it."""
    stack = ["Traceback (most recent call last):"] if case.stack else []
    for file, function, code in case.stack:
        stack.append(f'  File "{file}", line 1, in {function}')
        stack += [f"    {code}"] if code else []
    return "\n".join([*stack, case.printed or _allocators(outcomes()[case.record]["observed"])])


def _allocators(seen: dict[str, Any]) -> str:
    """PyTorch's words around the sizes of a record; without a size it is what the error begins with."""
    text = "torch.OutOfMemoryError: CUDA out of memory."
    if seen.get("error"):
        return str(seen["error"])
    if "oom" in seen:
        return text
    free = _size(seen, "free_gib", "free_mib")
    text += (
        f" Tried to allocate {_size(seen, 'tried_to_allocate_gib', 'tried_gib', 'tried_to_allocate_mib')}."
    )
    if "total_gib" in seen:
        text += f" GPU 0 has a total capacity of {seen['total_gib']} GiB of which {free} is free."
    elif free is not None:
        text += f" {free} is free."
    if "process_gib" in seen:
        text += f" Process 7 has {seen['process_gib']} GiB memory in use."
    if "allocated_gib" in seen:
        text += f" Of the allocated memory {seen['allocated_gib']} GiB is allocated by PyTorch, and"
        text += f" {seen['reserved_unallocated_gib']} GiB is reserved by PyTorch but unallocated."
    return text


def _size(seen: dict[str, Any], *names: str) -> str | None:
    """The first of these sizes that a record has, as PyTorch writes it."""
    units = {"gib": "GiB", "mib": "MiB"}
    return next((f"{seen[name]:.2f} {units[name[-3:]]}" for name in names if name in seen), None)


def arguments(case: Case) -> tuple[str, ...]:
    """The job as the record has it; none where the record has none."""
    if case.arguments or case.record not in JOBS:
        return case.arguments
    job: Job = JOBS[case.record]
    host = () if job.host_memory is None else ("--host-memory", str(job.host_memory))
    options = ("--verl-version", job.release, "--gpu", job.gpu, "--model", job.model, *host)
    number = ("--gpus-per-node", str(job.gpus_per_node), "--nodes", str(job.nodes))
    return (*options, *number, "/dev/null", *job.overrides)


@cache
def explained(case: Case, *options: str) -> str:
    """The command's answer."""
    result = run("explain-oom", "--message", "-", *options, *arguments(case), stdin=message(case))
    assert result.code == 0, result.err
    return result.out


def missing(case: Case) -> list[str]:
    """What the explanation ought to name and does not."""
    text = " ".join(explained(case).split())
    return [name for name in case.names if name not in text]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.record)
def test_an_error_is_explained_as_its_record_does(case: Case) -> None:
    assert missing(case) == []


def test_four_fifths_of_the_quoted_sizes_are_explained() -> None:
    """The share that is promised; all of them are held one by one above."""
    assert {case.record for case in QUOTED} == {"o025", "o111", "o113", "o115", "o119", "o171"}
    whole = [case for case in QUOTED if not missing(case)]
    assert len(whole) >= SHARE * len(QUOTED)


def test_every_record_of_a_job_that_failed_is_explained_or_silent() -> None:
    failed = {
        record
        for record, facts in outcomes().items()
        if any(word in key for key in facts["observed"] for word in ("tried", "oom", "demand", "node_used"))
        or facts["observed"].get("error")
    }
    assert failed <= {case.record for case in CASES} | set(SILENT)


def test_the_json_has_the_same_facts() -> None:
    case = next(case for case in CASES if case.record == "o111")
    report = json.loads(explained(case, "--output-format", "json"))
    first = report["allocation"]["candidates"][0]
    assert report["place"]["phases"] == ["old_log_prob"] == first["phases"]
    assert first["formula"] == "24,555 tokens x 152,064 vocabulary entries x 4 bytes"
    assert report["standing"]["agreement"] == "agrees"
    assert report["need"]["limit_bytes"] == report["standing"]["capacity_bytes"]
    assert any(remedy["enough"] for remedy in report["remedies"])


def table() -> str:
    """The cases as Markdown: what each record says, what its explanation must name, and whether it does."""
    lines = ["| record | its explanation | must name | named |", "| --- | --- | --- | --- |"]
    for case in CASES:
        said = outcomes()[case.record]["explanation"] or "-"
        lack = missing(case)
        done = "all" if not lack else f"lacks {', '.join(lack)}"
        quoted = " (size quoted)" if case in QUOTED else ""
        lines.append(f"| {case.record}{quoted} | {said} | {'; '.join(case.names)} | {done} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    for case in CASES:
        print(f"\n## {case.record}\n\n```text\n$ {message(case)}\n\n{explained(case)}```")
