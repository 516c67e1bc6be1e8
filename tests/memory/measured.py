"""Reads measured peaks into workloads, so that the model can be held against them."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import workloads
from tuner import memory
from tuner.dtypes import DType, parse_dtype
from tuner.models import find_model
from tuner.units import MIB
from tuner.workload import (
    Backend,
    Batch,
    Batching,
    Checkpointing,
    Engine,
    HeadKind,
    Lora,
    OutputHead,
    Parallelism,
    Pass,
    Phase,
    Scaling,
    Workload,
)

RECORDED = Path(__file__).resolve().parents[2] / "docs" / "validation" / "data"
VERL_FSDP = RECORDED / "verl-0.9.1-fsdp-2xh200.json"
FUSED = {None: HeadKind.LOGITS, "torch": HeadKind.FUSED_TORCH, "triton": HeadKind.FUSED_TRITON}

# Small tensors and workspaces that a process holds between passes; more than this is another engine
# that had not been freed yet, a fact of the recording and not of the pass.
RESIDUE_LIMIT = 128 * MIB


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One measured pass beside its prediction, in bytes."""

    case: dict[str, Any]
    predicted_peak: int
    predicted_added: int
    foreign: int  # held before the pass by something that is not this engine
    moment: str

    @property
    def measured_peak(self) -> int:
        return int(self.case["peak_allocated_bytes"])

    @property
    def measured_added(self) -> int:
        return self.measured_peak - int(self.case["allocated_before_bytes"])

    @property
    def error(self) -> float:
        return (self.predicted_peak + self.foreign) / self.measured_peak - 1

    @property
    def added_error(self) -> float:
        return self.predicted_added / self.measured_added - 1


def _lora(case: dict[str, Any]) -> Lora | None:
    rank = int(case["lora_rank"])
    if not rank:
        return None
    model = find_model(case["model"])
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = (model.hidden + query) * 2 + (model.hidden + key) * 2
    mlp = 3 * (model.hidden + model.intermediate)
    return Lora(rank=rank, parameters=rank * model.layers * (attention + mlp))


def _engine(case: dict[str, Any]) -> Engine:
    stored = parse_dtype(case["model_dtype"])
    return Engine(
        backend=Backend(case["strategy"]),
        parallel=Parallelism(gpus=case["world_size"], shard=case["world_size"]),
        stored_dtype=stored,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=stored,
        checkpointing=Checkpointing.FULL if case["gradient_checkpointing"] else Checkpointing.NONE,
        packed=True,
        activation_offload=case["activation_offload"],
        param_offload=case["param_offload"],
        optimizer_offload=case["optimizer_offload"],
        streamed_offload=case["forward_only_engine"],
        reshard_after_forward=case["reshard_after_forward"],
        forward_prefetch=case["forward_prefetch"],
        deferred_gradient_sync=case["deferred_gradient_sync"],
        separate_embedding_units=case["strategy"] == "fsdp2",
        lora=_lora(case),
    )


def workload_of(case: dict[str, Any]) -> Workload:
    """The workload that a recorded pass is a pass of."""
    base = workloads.grpo_0_5b()
    sequences = case["tokens"] // case["sequence_length"]
    head = OutputHead(
        kind=FUSED[case["fused_kernels"]],
        compiled=case["use_torch_compile"],
        chunk_tokens=2048 if case["entropy_chunking"] else None,
        checkpointed=case["entropy_checkpointing"],
        scaling=Scaling.NONE if case["temperature"] == 1.0 else Scaling.COPY,
    )
    one_pass = Pass(
        batching=Batching(dynamic=False, token_budget=case["tokens"], micro_batch_sequences=sequences),
        entropy=case["calculate_entropy"],
    )
    mini_batch = sequences * case["micro_batches"] * case["world_size"]
    return replace(
        base,
        model=find_model(case["model"]),
        batch=Batch(
            prompts=mini_batch,
            responses_per_prompt=1,
            mini_batch_prompts=mini_batch,
            epochs=1,
            max_prompt_tokens=case["sequence_length"] // 2,
            max_response_tokens=case["sequence_length"] - case["sequence_length"] // 2,
        ),
        actor=replace(base.actor, engine=_engine(case), head=head, update=one_pass, log_prob=one_pass),
        reference=None,
        critic=None,
        rollout=replace(base.rollout, colocated=False),
    )


def compare(case: dict[str, Any]) -> Comparison:
    """Predict one recorded pass."""
    update = case["pass"] == "update"
    estimate = memory.estimate(workload_of(case))
    phase = estimate.phase(Phase.UPDATE_ACTOR if update else Phase.OLD_LOG_PROB)
    assert phase is not None
    states = ("actor_parameters", "actor_optimizer")
    resident = sum(term.bytes for term in phase.moments[0].terms if term.name in states)
    predicted = phase.allocated_bytes
    before = int(case["allocated_before_bytes"])
    optimizer = sum(term.bytes for term in phase.moments[0].terms if term.name == "actor_optimizer")
    added = predicted - resident
    if not update and before < resident:  # recorded before AdamW had its states
        resident -= optimizer
    kept = sum(term.bytes for term in phase.moments[0].terms if term.name == "unsharded_model")
    if kept and before - resident > kept:  # an earlier forward pass had left the weights whole
        resident, added = resident + kept, added - kept
    foreign = max(0, before - resident)
    workspaces = sum(t.bytes for t in phase.moments[0].terms if t.name == "cublas_workspaces")
    return Comparison(
        case=case,
        predicted_peak=resident + added,
        predicted_added=added - workspaces,
        foreign=foreign if foreign > RESIDUE_LIMIT else 0,
        moment=phase.peak.name,
    )


def load(path: Path) -> list[dict[str, Any]]:
    """The recorded passes of a file."""
    return list(json.loads(path.read_text())["cases"])
