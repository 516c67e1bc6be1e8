"""The training passes of a configuration as this machine's GPUs can run them, each alone on its GPUs.

What one GPU of the job computes is kept: tokens of a micro-batch, head, sharding strategy. The states are
sharded over the GPUs that are here, and predicted for them; under Ulysses as many of them share a sequence
as in the job, or fewer where they do not suffice.
"""

from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from msgspec import structs

from tuner import batching, memory
from tuner.accuracy import (
    FUSED_KERNELS,
    MeasuredCase,
    PassComparison,
    compare,
    pass_interval,
    pass_time,
    workload_of,
)
from tuner.errors import TunerError
from tuner.memory import PhaseEstimate
from tuner.model_shape import ModelShape
from tuner.timing import Interval, PhaseTime
from tuner.validate.training.configured_passes import by_value, reason_not_here
from tuner.validate.training.fitted_job import (
    engine_here,
    equal_sequences,
    fsdp_size,
    prompt_images,
    sequences_with_images,
)
from tuner.validate.training.settings import PassFigures, PassSettings
from tuner.workload import (
    Actor,
    Batching,
    Checkpointing,
    HeadKind,
    OutputHead,
    Phase,
    Scaling,
    StepPass,
    Workload,
)

_FUSED = {kind: name for name, kind in FUSED_KERNELS.items()}
_MOST_MICRO_BATCHES = 2  # the second adds to gradients that exist, and so do all after it
_FIRST_TOKENS = 512
_SMALL_IMAGE = 4  # tokens
_TEMPERATURE = 0.8  # where logits are divided by one that is not 1


@dataclass(frozen=True, kw_only=True)
class PlannedPass:
    """One pass, alone on the GPUs that are here."""

    phase: Phase
    training: bool  # with a backward pass
    case: MeasuredCase  # its settings; the figures mean nothing
    workload: Workload  # the pass and nothing else: what predicts it
    micro_batches: int  # of the job: an optimizer step's, or those of all sequences of one GPU

    @property
    def model(self) -> ModelShape:
        """The dimensions of its model."""
        return self.workload.model

    @property
    def settings(self) -> PassSettings:
        """What a worker is given."""
        actor, case = self.workload.actor, self.case
        return PassSettings(
            engine=actor.engine,
            head=actor.head,
            training=self.training,
            entropy=case.calculate_entropy,
            tokens=case.tokens,
            sequence_length=case.sequence_length,
            micro_batches=case.micro_batches,
            first_tokens=self._first_tokens,
            temperature=case.temperature,
            images=prompt_images(case, self.model.tower),
        )

    @property
    def _first_tokens(self) -> int | None:
        """Tokens of the micro-batches that only make gradients for the last to add to; None: no fewer."""
        deferred = self.workload.actor.engine.deferred_gradient_sync  # its time differs between the two
        if self.case.images_per_prompt:  # every sequence has to have room for them
            return None
        return None if deferred or self.case.micro_batches == 1 else min(_FIRST_TOKENS, self.case.tokens)

    @property
    def predicted(self) -> PhaseEstimate:
        """All moments, with the context of the process and its communicators."""
        return self._of(self.workload)

    @property
    def timed_workload(self) -> Workload:
        """What is run for the time and nothing else."""
        case = self.case.model_copy(update={"micro_batches": self.settings.timed.micro_batches})
        return _workload(case, self.workload.actor, self.workload)

    @property
    def predicted_time(self) -> PhaseTime:
        """The modelled seconds of what is run for the time, by cause."""
        return pass_time(self.timed_workload, self.workload.cluster.gpu, training=self.training)

    @property
    def predicted_interval(self) -> Interval:
        """The predicted seconds, with the least and the most that they may be."""
        return pass_interval(self.timed_workload, self.workload.cluster.gpu, training=self.training)

    def _of(self, workload: Workload) -> PhaseEstimate:
        phase = memory.estimate(workload).phase(Phase.UPDATE_ACTOR if self.training else Phase.OLD_LOG_PROB)
        assert phase is not None  # such a workload has both
        return phase

    def with_model(self, model: ModelShape) -> "PlannedPass":
        """The pass over another model, such as one with fewer layers."""
        return replace(self, workload=structs.replace(self.workload, model=model))

    def with_sequences(self, count: int, length: int) -> "PlannedPass":
        """The pass with micro-batches of so many sequences, each with so many tokens on a GPU."""
        case = self.case.model_copy(
            update={"tokens": count * length, "sequence_length": length * self.case.ulysses}
        )
        return replace(self, case=case, workload=_workload(case, self.workload.actor, self.workload))

    def with_micro_batches(self, count: int) -> "PlannedPass":
        """The pass over so many micro-batches."""
        case = self.case.model_copy(update={"micro_batches": count})
        return replace(self, case=case, workload=_workload(case, self.workload.actor, self.workload))

    def with_head(self, head: OutputHead) -> "PlannedPass":
        """The pass through another output head."""
        case = self.case.model_copy(update={"fused_kernels": _FUSED.get(head.kind)})
        actor = structs.replace(self.workload.actor, head=head)
        return replace(self, case=case, workload=_workload(case, actor, self.workload))

    def with_reading(self, *, positions: bool) -> "PlannedPass":
        """The pass by an attention that asks the GPU where sequences begin, or is told."""
        case = self.case.model_copy(update={"reads_positions": positions})
        return replace(self, case=case, workload=self.workload.with_actor_engine(reads_positions=positions))

    @property
    def image_tokens(self) -> int:
        """Tokens of a sequence's images."""
        images = self.settings.images
        return 0 if images is None else images.per_prompt * images.tokens

    def shared_by(self, ranks: int) -> "PlannedPass":
        """The pass with every sequence on so many GPUs, and as many tokens on each.

        Sequences stay as long as they are, where whole ones make up a micro-batch; else there is one.
        """
        actor, case = self.workload.actor, self.case
        together = case.tokens * ranks
        length = together if together % case.sequence_length else case.sequence_length
        case = case.model_copy(update={"ulysses": ranks, "sequence_length": length})
        parallel = structs.replace(actor.engine.parallel, ulysses=ranks)
        actor = structs.replace(actor, engine=structs.replace(actor.engine, parallel=parallel))
        return replace(self, case=case, workload=_workload(case, actor, self.workload))

    def measured_case(self, figures: PassFigures) -> MeasuredCase:
        """The settings with what was measured on a GPU.

        Raises:
            ValueError: the figures are those of a CPU.
        """
        if figures.allocated_before_bytes is None:
            raise ValueError("a CPU counts no bytes")
        # Seconds of the very pass are known where it is what was run for the time.
        whole = bool(figures.seconds) and self.settings.timed == self.settings
        return MeasuredCase.model_validate(
            self.case.model_dump(by_alias=True)
            | {
                "allocated_before_bytes": figures.allocated_before_bytes,
                "peak_allocated_bytes": figures.peak_allocated_bytes,
                "peak_requested_bytes": figures.peak_requested_bytes,
                "peak_reserved_bytes": figures.peak_reserved_bytes,
                "non_torch_bytes": figures.non_torch_bytes,
                "seconds": median(figures.seconds) if whole else None,
            }
        )

    def compared(self, figures: PassFigures) -> PassComparison:
        """The prediction of this very pass beside what was measured."""
        return compare(self.measured_case(figures), self.workload)

    @property
    def can_be_recorded(self) -> bool:
        """Whether a file of measured passes says all that the prediction needs."""
        try:
            again = self._of(workload_of(self.case))
        except TunerError:  # nothing is known of a model of this name
            return False
        return _allocated(again) == _allocated(self.predicted)


def _allocated(estimate: PhaseEstimate) -> list[list[tuple[str, int]]]:
    """What the allocator hands out in every moment."""
    return [
        [(term.name, term.bytes) for term in moment.terms if term.of_allocator] for moment in estimate.moments
    ]


def planned_passes(workload: Workload, *, processes: int) -> tuple[PlannedPass, ...]:
    """The passes of a job that can be run here, the most valuable first.

    Args:
        workload: as configured.
        processes: GPUs that take part.
    """
    return tuple(
        planned_pass(step_pass, workload, processes)
        for step_pass in by_value(workload)
        if reason_not_here(step_pass) is None
    )


def with_one_small_image(planned: PlannedPass) -> PlannedPass:
    """The pass with an image of a few tokens in every sequence, or of as many as all have; or without any."""
    tower = planned.model.tower
    if tower is None or not planned.case.images_per_prompt:
        return planned
    pixels = tower.pixels_of(tower.image_tokens or _SMALL_IMAGE)
    case = planned.case.model_copy(update={"images_per_prompt": 1, "image_pixels": pixels})
    return replace(planned, case=case, workload=_workload(case, planned.workload.actor, planned.workload))


def planned_pass(step_pass: StepPass, workload: Workload, processes: int) -> PlannedPass:
    """A pass of a job, fitted to the GPUs that take part; whether an engine here can run it is not asked."""
    engine, head, training = step_pass.engine, step_pass.head, step_pass.training
    tokens = batching.micro_batch_tokens(workload.batch, step_pass)
    count = batching.micro_batches(workload.batch, step_pass)
    here = engine_here(engine, processes)
    ulysses = here.parallel.ulysses
    images = workload.batch.images if step_pass.model.tower is not None else None
    if images is None:
        sequences, share = equal_sequences(tokens, ceil(workload.batch.sequence_tokens / ulysses))
    else:
        sequences, share = sequences_with_images(tokens, workload.batch, step_pass)
    case = MeasuredCase.model_validate(
        {
            "model": step_pass.model.name,
            "critic": head.kind is HeadKind.VALUE,
            "pass": "update" if training else "log_prob",
            "strategy": engine.backend.value,
            "world_size": processes,
            "fsdp_size": fsdp_size(here),
            "ulysses": ulysses,
            "model_dtype": engine.stored_dtype.value,
            "tokens": sequences * share,
            "sequence_length": share * ulysses,
            "micro_batches": min(count, _MOST_MICRO_BATCHES) if training else 1,
            "temperature": _TEMPERATURE if head.scaling is Scaling.COPY else 1.0,
            "gradient_checkpointing": engine.checkpointing is Checkpointing.FULL,
            "reshard_after_forward": engine.reshard_after_forward,
            "use_torch_compile": head.compiled,
            "fused_kernels": _FUSED.get(head.kind),
            "use_liger": engine.fused_layers,
            "calculate_entropy": step_pass.entropy,
            "entropy_chunking": head.chunk_tokens is not None,
            "entropy_checkpointing": head.checkpointed,
            "param_offload": engine.param_offload,
            "optimizer_offload": engine.optimizer_offload,
            "forward_only_engine": engine.streamed_offload,
            "forward_prefetch": engine.forward_prefetch and engine.prefetch_effective,
            "deferred_gradient_sync": engine.deferred_gradient_sync,
            "frozen_tower": engine.frozen_tower,
            "images_per_prompt": 0 if images is None else images.per_prompt,
            "image_pixels": 0 if images is None else images.pixels,
            "allocated_before_bytes": 0,
            "peak_allocated_bytes": 1,
        }
    )
    # The engine that runs here tells its attention where sequences begin.
    here = structs.replace(here, reads_positions=False)
    actor = Actor(engine=here, head=head, update=step_pass.settings, log_prob=step_pass.settings)
    alone = _workload(case, actor, structs.replace(workload, model=step_pass.model))
    return PlannedPass(
        phase=step_pass.phase, training=training, case=case, workload=alone, micro_batches=count
    )


def _workload(case: MeasuredCase, actor: Actor, job: Workload) -> Workload:
    """The case's pass with this engine and head, and with the job's model, release and card."""
    alone = workload_of(case, job.model)
    one_pass = structs.replace(
        actor.update,
        batching=Batching(dynamic=False, token_budget=case.tokens, micro_batch_sequences=case.sequences),
        entropy=case.calculate_entropy,
    )
    return structs.replace(
        alone,
        release=job.release,
        cluster=structs.replace(alone.cluster, gpu=job.cluster.gpu),
        actor=structs.replace(actor, update=one_pass, log_prob=one_pass),
    )
