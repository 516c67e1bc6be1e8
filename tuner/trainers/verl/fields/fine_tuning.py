"""Fields of a job of supervised fine-tuning, where they are other than those of the actor of a PPO job."""

from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    COUNT,
    Assignments,
    Field,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.fields.batching import read_batching
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.fields.engine import read_engine
from tuner.trainers.verl.fields.head import read_head
from tuner.trainers.verl.fields.saving import read_saving
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Actor, Batch, Engine, HeadKind, OutputHead, Pass, Travel

_DEFAULT_SEQUENCES = 256
_DEFAULT_LENGTH = 1024


def read_given_batch(source: ReleaseSettings) -> Batch:
    """Sizes of one step over given sequences, which are one mini-batch and count as responses as a whole.

    The trainer of its own divides the loss of a micro-batch by the tokens of that one; the engines divide by
    those of the step. Sequences are dealt out to the ranks as the sampler has them.

    Source: verl 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``_compute_loss_and_backward``,
    ``_build_dataloader``); 0.9.1 ``workers/utils/losses.py`` (``sft_loss``), ``trainer/sft_trainer.py``.
    """
    return Batch(
        travel=Travel.OWN,  # every process reads its own
        **read_fields(GIVEN_BATCH, ReleaseContext(source=source)),
        responses_per_prompt=1,
        epochs=1,
        max_prompt_tokens=0,
        balanced=False,
        loss_averages_micro_batches=source.program is Program.SFT,
    )


def read_trained_model(source: ReleaseSettings, model: ModelShape, gpus: int) -> Actor:
    """The model that is trained, in the actor's place, with no pass beside its training."""
    engine = source.part("actor.engine", read_engine, "actor", model, gpus)
    return Actor(
        engine=engine,
        head=_own_head(engine) if source.program is Program.SFT else read_head(source, model, engine),
        update=Pass(batching=read_batching(source, "actor", engine)),
        log_prob=None,
        saving=read_saving(source, "actor", engine),
    )


def _own_head(engine: Engine) -> OutputHead:
    """The head of the trainer of its own: PyTorch's cross entropy over all logits, shifted by a copy.

    Under Ulysses the labels are shifted instead.

    Source: verl 0.4.1 to 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``_compute_loss_and_backward``).
    """
    return OutputHead(
        kind=HeadKind.LOGITS,
        compiled=False,
        fused_cross_entropy=False,
        float32_loss=True,
        shifts_logits=not engine.packed,
        fusable=(),
    )


def _sequences(context: ReleaseContext) -> int:
    return context.source.integer("batch.prompts", default=_DEFAULT_SEQUENCES)


def _set_sequences(context: ReleaseContext, batch: Batch) -> Assignments:
    return (("batch.prompts", batch.prompts),)


GIVEN_BATCH: tuple[Field[ReleaseContext], ...] = (
    Ruled("prompts", _sequences, _set_sequences),
    Ruled("mini_batch_prompts", _sequences, _set_sequences),
    Plain("max_response_tokens", "batch.max_response_tokens", COUNT, _DEFAULT_LENGTH),
)
