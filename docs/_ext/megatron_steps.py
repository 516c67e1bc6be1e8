"""Megatron-Core's own training steps on GPUs, stage by stage, beside what the terms give.

Its local layers stand in for Transformer Engine's. Two things of theirs are not what verl runs: the
values that attention keeps are views, which hold the whole joint projection of queries, keys and
values; and logits are not divided by a temperature. The first is added here, the second is a setting.
The optimizer's step is not compared: it is torch's AdamW, which Megatron takes only where neither
Transformer Engine nor Apex is installed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.memory import Moment, residents
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.megatron.passes import training_moments
from tuner.memory.megatron.stages import in_flight, stage_layers
from tuner.memory.process.overhead import CUBLAS_WORKSPACES
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.workload import Backend, Checkpointing, Engine, HeadKind, OutputHead, Parallelism, Scaling

RECOMPUTE = {None: Checkpointing.NONE, "selective": Checkpointing.SELECTIVE, "full": Checkpointing.FULL}
HEAD = OutputHead(kind=HeadKind.LOGITS, compiled=False, scaling=Scaling.NONE, logits_dtype=DType.FLOAT32)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One step of one stage, in bytes."""

    predicted: int
    measured: int
    predicted_added: int
    measured_added: int

    @property
    def error(self) -> float:
        """The error of the predicted peak; above 0: predicted too high."""
        return self.predicted / self.measured - 1

    @property
    def added_error(self) -> float:
        """The error of what the step is predicted to add."""
        return self.predicted_added / self.measured_added - 1


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of one grid, and what was measured of it."""

    model: ModelShape
    engine: Engine
    measured: dict[str, Any]

    @property
    def states(self) -> int:
        """Weights, gradient buffer and optimizer states."""
        parts = (residents.parameters, residents.gradients, residents.optimizer)
        return sum(part(self.model, self.engine).bytes for part in parts)

    def compare(self, step: dict[str, Any]) -> Compared:
        """The peak of a step's forward and backward passes."""
        peak, added = step["peak_forward_backward_bytes"], self.added(step)
        return Compared(
            predicted=self.states + CUBLAS_WORKSPACES.typical + added,
            measured=peak,
            predicted_added=added,
            measured_added=peak - step["resident_bytes"],
        )

    def added(self, step: dict[str, Any]) -> int:
        """What forward and backward pass of a step take at their peak, beyond what was there before."""
        inputs = PassInput(
            model=self.model,
            engine=self.engine,
            head=HEAD,
            tokens=step["tokens"],
            entropy=False,
            micro_batches=step["micro_batches"],
            step_tokens=step["tokens"] * step["micro_batches"],
        )
        moments = (moment for moment in training_moments(inputs) if "optimizer" not in moment.name)
        workspaces = CUBLAS_WORKSPACES.typical  # there since the first step
        return max(moment.bytes + self.joint_projections(moment, step) for moment in moments) - workspaces

    def joint_projections(self, moment: Moment, step: dict[str, Any]) -> int:
        """What the views keep: queries and keys of the joint projection, of the layers that keep anything."""
        names = {part.name for part in moment.terms}
        parallel = self.engine.parallel
        layers = float("recomputed_layers" in names)
        if self.engine.checkpointing is not Checkpointing.FULL:
            flight = in_flight(parallel, parallel.stage or 0, step["micro_batches"])
            flight -= "embedding_backward" in names
            layers = flight * len(stage_layers(self.model, parallel, parallel.stage or 0))
        width = (self.model.heads + self.model.kv_heads) * self.model.head_dim
        tokens: int = step["tokens"]
        return round(layers * tokens * 2 * width / parallel.tensor)


def read_stages(path: Path) -> tuple[Stage, ...]:
    """The stages of a recording."""
    data = json.loads(path.read_text(encoding="utf-8"))
    sizes = data["dimensions"]
    model = replace(
        find_model("qwen2.5-1.5b"),
        hidden=sizes["hidden"],
        layers=sizes["layers"],
        heads=sizes["heads"],
        kv_heads=sizes["kv_heads"],
        head_dim=sizes["hidden"] // sizes["heads"],
        intermediate=sizes["intermediate"],
        vocab=sizes["vocabulary"],
    )
    return tuple(
        Stage(model=model, engine=_engine(measured), measured=measured) for measured in data["stages"]
    )


def steps(stages: tuple[Stage, ...]) -> Iterator[tuple[Stage, dict[str, Any]]]:
    """Every step with the stage that made it."""
    return ((stage, step) for stage in stages for step in stage.measured["steps"])


def _engine(measured: dict[str, Any]) -> Engine:
    return Engine(
        token_bytes=TOKEN_BYTES,
        backend=Backend.MEGATRON,
        parallel=Parallelism(
            gpus=measured["world_size"],
            tensor=measured["tensor"],
            pipeline=measured["pipeline"],
            stage=measured["stage"],
        ),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=RECOMPUTE[measured["recompute"]],
        packed=True,
        fused_layers=True,
    )
