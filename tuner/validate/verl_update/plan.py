"""Which update of verl's worker is run: the job's, with both heads, at a depth and a size that fit here."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import ceil

from msgspec import structs

from tuner.accuracy import pass_interval
from tuner.language import _
from tuner.memory.fsdp.units import wraps_head
from tuner.timing import Interval
from tuner.validate.session import NotHereError, Options, Subject
from tuner.validate.training import depths
from tuner.validate.training.configured_passes import not_here
from tuner.validate.training.passes import PlannedPass, planned_pass
from tuner.validate.training.settings import PassSettings
from tuner.validate.verl_update.settings import MICRO_BATCHES, RELEASES
from tuner.versions import installed_version
from tuner.workload import Backend, HeadKind, OutputHead, Phase, StepPass, Workload

_USABLE = 0.94  # of the memory: blocks that no tensor fits into lie between the others
_ON_A_CPU = (2, 8)  # sequences and tokens of each: Triton's interpreter takes its time
_LEAST_TOKENS = 512  # of a micro-batch: with fewer, nothing is seen of a head


@dataclass(frozen=True, kw_only=True)
class PlannedUpdate:
    """One update with verl's head, and the same with ours."""

    theirs: PlannedPass
    ours: PlannedPass
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """How deep the model is run."""
        return self.theirs.model.layers

    def head(self, *, ours: bool) -> PlannedPass:
        """The update with one of the heads."""
        return self.ours if ours else self.theirs


def settings(planned: PlannedPass) -> PassSettings:
    """What a worker is given of an update: whole micro-batches alone."""
    return replace(planned.settings, first_tokens=None)


def left_of(planned: PlannedPass, share: float) -> PlannedPass:
    """What is left of an update without a share of its responses."""
    return planned.with_micro_batches(ceil((1 - share) * planned.case.micro_batches))


def seconds(planned: PlannedPass) -> Interval:
    """The modelled seconds of an update, with the least and the most that they may be."""
    return pass_interval(planned.workload, planned.workload.cluster.gpu, training=True)


def planned_update(subject: Subject, options: Options, *, memory_bytes: int) -> PlannedUpdate:
    """The update of a subject for this machine.

    Args:
        subject: what is validated.
        options: the device and the processes.
        memory_bytes: of one GPU, for this run.

    Raises:
        NotHereError: verl, or something that this update needs of it, is not here.
    """
    cpu = options.device == "cpu"
    reason = _of_verl(subject.workload.release.version, options.device)
    workload, notes = _on_the_cpu(subject.workload) if cpu else (subject.workload, ())
    step_pass = next((one for one in workload.passes() if one.phase is Phase.UPDATE_ACTOR), None)
    reason = reason or _of_job(step_pass)
    if reason is not None or step_pass is None:
        raise NotHereError(reason)
    planned = planned_pass(step_pass, workload, options.processes)
    planned = planned.with_reading(positions=step_pass.engine.reads_positions)
    head, about_head = _verls_head(planned)
    planned = (planned.with_sequences(*_ON_A_CPU) if cpu else planned).with_micro_batches(MICRO_BATCHES)
    head = structs.replace(head, compiled=head.compiled and not cpu)
    update = PlannedUpdate(
        theirs=planned.with_head(head),
        ours=planned.with_head(_our_head(head)),
        notes=(*notes, *about_head),
    )
    return update if cpu else _fitted(update, subject, limit_bytes=int(_USABLE * memory_bytes))


def _on_the_cpu(workload: Workload) -> tuple[Workload, tuple[str, ...]]:
    """The job as verl can run it there, and what is said of that.

    FSDP1 sends the weights from the first rank, for which verl needs a GPU, and Ulysses is a part of the
    attention of flash-attn.
    """
    engine = workload.actor.engine
    alone = structs.replace(engine.parallel, ulysses=1)
    if engine.backend is not Backend.FSDP and engine.parallel == alone:
        return workload, ()
    backend = Backend.FSDP2 if engine.backend is Backend.FSDP else engine.backend
    note = _("On a CPU verl's update is run with FSDP2 and without Ulysses, as verl's others need a GPU.")
    return workload.with_actor_engine(backend=backend, parallel=alone), (note,)


def _of_verl(release: str, device: str) -> str | None:
    """Why the installed verl cannot run the job's update; None where it can."""
    installed = installed_version("verl")
    if installed is None:
        return _("verl is not installed")
    if installed not in RELEASES:
        return _("verl {installed} is installed, and known are {known}").format(
            installed=installed, known=", ".join(RELEASES)
        )
    if installed != release:
        return _("verl {installed} is installed, and the job is read as one of {release}").format(
            installed=installed, release=release
        )
    if device != "cpu" and find_spec("flash_attn") is None:
        return _("flash_attn is not installed, which verl's engine calls for packed sequences")
    return None


def _of_job(step_pass: StepPass | None) -> str | None:
    """Why the job's update is none of those that are run here; None where it is."""
    if step_pass is None:
        return _("the step has no update of an actor")
    if step_pass.engine.streamed_offload:
        return _("an update with weights that are fetched from the host is not run here")
    if step_pass.model.tower is not None:
        return _("images are not handed to verl's engine here")
    if step_pass.head.kind is HeadKind.FUSED_LIGER:
        return _("Liger's head is not run here")
    logits = structs.replace(step_pass.head, kind=HeadKind.LOGITS)  # heads are verl's or ours, and both run
    return not_here(step_pass.engine, logits, step_pass.model)


def _verls_head(planned: PlannedPass) -> tuple[OutputHead, tuple[str, ...]]:
    """The configured head, or logits where verl's fused ones stop."""
    head = planned.workload.actor.head
    if head.kind is HeadKind.FUSED_TUNER:
        return structs.replace(head, kind=HeadKind.LOGITS), ()
    if head.kind is HeadKind.LOGITS or not wraps_head(planned.model, planned.workload.actor.engine):
        return head, ()
    note = _(
        "verl's fused heads read weights that FSDP2 has not gathered in this model; in their place verl's "
        "update is run with logits."
    )
    return structs.replace(head, kind=HeadKind.LOGITS), (note,)


def _our_head(head: OutputHead) -> OutputHead:
    """Ours, as :mod:`tuner.inside_verl` puts it in place unless it is told otherwise."""
    return structs.replace(head, kind=HeadKind.FUSED_TUNER, chunk_tokens=None, checkpointed=False)


def _fitted(update: PlannedUpdate, subject: Subject, *, limit_bytes: int) -> PlannedUpdate:
    """The update with as many layers as fit, and with fewer tokens where no depth does.

    Raises:
        NotHereError: nothing fits.
    """
    whole = update.theirs.case.tokens
    while True:
        depth = _depth(update, subject, limit_bytes)
        case = update.theirs.case
        if depth is not None:
            return _cut(_with_note(update, case.tokens, whole), subject, depth)
        count, length = case.sequences, case.sequence_length // case.ulysses
        if case.tokens < 2 * _LEAST_TOKENS:
            raise NotHereError(_("a micro-batch of it does not fit here, at no depth"))
        count, length = (count // 2, length) if count > 1 else (1, length // 2)
        update = replace(
            update,
            theirs=update.theirs.with_sequences(count, length),
            ours=update.ours.with_sequences(count, length),
        )


def _with_note(update: PlannedUpdate, tokens: int, whole: int) -> PlannedUpdate:
    if tokens == whole:
        return update
    note = _(
        "verl's update is run with micro-batches of {tokens:,} tokens: those of the job have {whole:,}, "
        "which do not fit."
    ).format(tokens=tokens, whole=whole)
    return replace(update, notes=(*update.notes, note))


def _depth(update: PlannedUpdate, subject: Subject, limit_bytes: int) -> int | None:
    """The most layers with which both heads are predicted to fit; None where there are none."""
    config = subject.model_config
    predicted = [depths.predictions(one, config) for one in (update.theirs, update.ours)]
    candidates = [update.layers, *sorted(depths.usable_depths(update.theirs.model), reverse=True)]
    for layers in candidates:
        if layers != update.layers and not depths.can_be_cut(predicted[0], layers):
            continue
        if all(of(layers).peak_bytes <= limit_bytes for of in predicted):
            return layers
    return None


def _cut(update: PlannedUpdate, subject: Subject, layers: int) -> PlannedUpdate:
    if layers == update.layers:
        return update
    model = depths.shape_at(update.theirs.model, subject.model_config, layers)
    note = _(
        "verl's update is run and predicted with the first {layers} of {all_layers} layers: more do not fit "
        "on the GPUs that take part."
    ).format(layers=layers, all_layers=update.layers)
    return replace(
        update,
        theirs=update.theirs.with_model(model),
        ours=update.ours.with_model(model),
        notes=(*update.notes, note),
    )
