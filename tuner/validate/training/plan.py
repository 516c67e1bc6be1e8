"""Which passes the training-step part runs: as configured, with each proposal, and at which depths."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from tuner import batching
from tuner.advise import Recommendation
from tuner.errors import TunerError
from tuner.memory import PhaseEstimate
from tuner.model_shape import ModelShape
from tuner.validate.session import Options, Subject
from tuner.validate.training import depths as cutting
from tuner.validate.training.configured import by_value, reason_not_here
from tuner.validate.training.groups import Group, Key, Proposed, TrainingPlan, Try
from tuner.validate.training.passes import PlannedPass, planned_passes, ranks_here
from tuner.validate.training.seconds import pass_seconds, start_seconds
from tuner.workload import Engine, HeadKind, Phase, StepPass, Workload

_USABLE = 0.94  # of the memory: blocks that no tensor fits into lie between the others
_CPU_TOKENS = 256  # of a micro-batch, and half of it of a sequence


def training_plan(subject: Subject, options: Options, *, memory_bytes: int) -> TrainingPlan:
    """The passes of a subject for this machine.

    Args:
        subject: what is validated.
        options: the device and the processes.
        memory_bytes: of one GPU, for this run.
    """
    return _Planner(subject=subject, options=options, limit=int(_USABLE * memory_bytes)).plan()


@dataclass(frozen=True, kw_only=True)
class _Planner:
    subject: Subject
    options: Options
    limit: int

    @cached_property
    def _tries(self) -> dict[Any, Try]:
        return {}

    @property
    def _cpu(self) -> bool:
        return self.options.device == "cpu"

    def plan(self) -> TrainingPlan:
        workload = self.subject.workload
        configured = tuple(self._try(planned) for planned in self._planned(workload).values())
        proposed = tuple(self._proposals())
        wanted = [each for each in configured if each.planned.phase is not Phase.REF_LOG_PROB]
        wanted += [
            each for found in proposed if not found.reason for each in (found.before, found.after) if each
        ]
        wanted += configured  # the reference comes last: an engine of its own, and seldom the worst phase
        groups = tuple(self._groups(each for each in wanted if not each.reason))
        return TrainingPlan(
            configured=configured, proposed=proposed, groups=groups, notes=tuple(self._notes(configured))
        )

    def _planned(self, workload: Workload) -> dict[Phase, PlannedPass]:
        found = planned_passes(workload, processes=self.options.processes)
        config_is_known = workload.critic is None or structs.replace(
            workload.critic.model, value_head=False
        ) == structs.replace(workload.model, value_head=False)
        return {
            each.phase: small(each) if self._cpu else each
            for each in found
            if config_is_known or not each.model.value_head
        }

    def _proposals(self) -> Iterator[Proposed]:
        now = {each.phase: each for each in by_value(self.subject.workload)}
        passes = self._planned(self.subject.workload)
        for found in self.subject.advice.recommendations:
            proposal = found.finding.proposal
            if proposal is None:
                continue
            then = {each.phase: each for each in by_value(proposal)}
            changed = [
                phase
                for phase, each in then.items()
                if phase in now and _work(self.subject.workload, now[phase]) != _work(proposal, each)
            ]
            if changed:
                phase = _deciding(found, changed)
                reason = reason_not_here(then[phase]) or reason_not_here(now[phase])
                reason = reason or _needs_more(now[phase].engine, then[phase].engine, self.options.processes)
                after = self._planned(proposal).get(phase)
                yield self._proposed(found, reason, passes.get(phase), after)

    def _proposed(
        self, found: Recommendation, reason: str | None, before: PlannedPass | None, after: PlannedPass | None
    ) -> Proposed:
        if reason is None and (before is None or after is None):
            reason = "the config.json of the critic's model is not known here"
        if reason is None and self._cpu:
            reason = "a CPU has no peaks, and its speed says nothing of a GPU's"
        if reason is not None or before is None or after is None:
            return Proposed(recommendation=found, before=None, after=None, reason=reason or "")
        tries = self._try(before), self._try(after)
        if tries[0].key == tries[1].key:
            reason = "what it changes is not there on the GPUs that take part"
        return Proposed(
            recommendation=found,
            before=tries[0],
            after=tries[1],
            reason=reason or tries[0].reason or tries[1].reason,
        )

    def _try(self, planned: PlannedPass) -> Try:
        key = planned.phase, planned.settings
        if key not in self._tries:
            self._tries[key] = self._depth(planned)
        return self._tries[key]

    def _depth(self, planned: PlannedPass) -> Try:
        if self._cpu and planned.settings.engine.fused_layers:
            return Try(planned=planned, at=None, reason="Liger's layers need a GPU")
        if self._cpu or planned.predicted.peak_bytes <= self.limit:
            return Try(planned=planned, at=None)
        predicted = predictions(planned, self.subject.model_config)
        found = cutting.choose(
            predicted,
            [depth for depth in cutting.usable_depths(planned.model) if _can_be_cut(predicted, depth)],
            planned.model.layers,
            limit_bytes=self.limit,
            training=planned.training,
        )
        reason = "" if found else "it does not fit here, and no two depths that do have the same peak moment"
        return Try(planned=planned, at=found, reason=reason)

    def _groups(self, wanted: Iterable[Try]) -> Iterator[Group]:
        runs: dict[tuple[bool, Engine, int], dict[Key, Try]] = {}
        for each in wanted:
            for layers in each.layers:
                group = runs.setdefault(
                    (each.planned.model.value_head, each.planned.settings.built, layers), {}
                )
                group.setdefault(each.key, each)
        for (critic, _, layers), tries in runs.items():
            together = tuple(tries.values())
            yield Group(
                layers=layers,
                critic=critic,
                tries=together,
                start_s=start_seconds(together, layers),
                pass_s=tuple(pass_seconds(each.planned, layers, cpu=self._cpu) for each in together),
            )

    def _notes(self, configured: Sequence[Try]) -> Iterator[str]:
        job, here = self.subject.workload.actor.engine.parallel, self.options.processes
        if job.gpus != here:
            yield (
                f"Training passes are run and predicted on {here} GPU{'s' if here > 1 else ''}, not on the "
                f"{job.gpus} of the job: over these the states are sharded, a micro-batch is the job's."
            )
        if any(each.planned.settings.first_tokens is not None for each in configured):
            yield (
                "Of the micro-batches of an update that is run here only the last has its full size: the "
                "first makes the gradients that it adds to. Times are those of full ones."
            )
        yield from self._shared_otherwise()
        for each in configured:
            if each.at is not None:
                yield f"{each.planned.phase.value} does not fit here: its figures are extrapolated {each.at}."
            elif each.reason:
                yield f"{each.planned.phase.value} is not measured: {each.reason}."

    def _shared_otherwise(self) -> Iterator[str]:
        here = self.options.processes
        for each in by_value(self.subject.workload):
            wanted = each.engine.parallel.ulysses
            ranks = ranks_here(wanted, here)
            if reason_not_here(each) is None and ranks != wanted:
                how = f"with {ranks} GPUs for a sequence" if ranks > 1 else "without Ulysses"
                yield f"{each.phase.value} is run {how}, not with {wanted}; the tokens are those of one GPU."


def small(planned: PlannedPass) -> PlannedPass:
    """What a CPU computes in seconds; nothing is compiled."""
    length = min(planned.case.sequence_length // planned.case.ulysses, _CPU_TOKENS // 2)
    count = max(1, min(planned.case.tokens, _CPU_TOKENS) // length)
    head = structs.replace(planned.workload.actor.head, compiled=False)
    return replace(planned, workload=planned.workload.with_actor(head=head)).with_sequences(count, length)


def predictions(planned: PlannedPass, config: Mapping[str, Any]) -> Callable[[int], PhaseEstimate]:
    """The pass at a depth, predicted; asked again it is not computed again."""
    found: dict[int, PhaseEstimate] = {}

    def predicted(layers: int) -> PhaseEstimate:
        if layers not in found:
            found[layers] = planned.with_model(shape_at(planned.model, config, layers)).predicted
        return found[layers]

    return predicted


def shape_at(model: ModelShape, config: Mapping[str, Any], layers: int) -> ModelShape:
    """The model's dimensions at a depth."""
    return model if layers == model.layers else cutting.cut_shape(model, config, layers)


def _can_be_cut(predicted: Callable[[int], PhaseEstimate], depth: int) -> bool:
    try:
        predicted(depth)
    except TunerError:
        return False
    return True


def _work(workload: Workload, step_pass: StepPass) -> tuple[Any, ...]:
    """What a pass computes, without the batch sizes that it does not use."""
    head = None if step_pass.head.kind is HeadKind.VALUE else step_pass.head
    tokens = batching.micro_batch_tokens(workload.batch, step_pass)
    count = batching.micro_batches(workload.batch, step_pass)
    return step_pass.engine, head, step_pass.entropy, tokens, count


def _deciding(found: Recommendation, changed: Sequence[Phase]) -> Phase:
    """The phase whose bytes are claimed, or else the first that is run."""
    asked = [found.finding.phase, None if found.price is None else found.price.phase]
    return next((phase for phase in changed if phase in asked), changed[0])


def _needs_more(before: Engine, after: Engine, processes: int) -> str | None:
    """Why the difference of two engines does not show on the GPUs that take part."""
    if before.parallel != structs.replace(after.parallel, ulysses=before.parallel.ulysses):
        return "it divides the work over the job's GPUs in another way, which is not done here"
    ranks = {before.parallel.ulysses, after.parallel.ulysses}
    if len(ranks) > 1 and any(ranks_here(each, processes) != each for each in ranks):
        return f"{max(ranks)} GPUs share a sequence, and {processes} taking part here is no multiple of that"
    gathering = ("reshard_after_forward", "forward_prefetch", "deferred_gradient_sync")
    if processes == 1 and any(getattr(before, name) != getattr(after, name) for name in gathering):
        return "it is about gathering and reducing between GPUs, and one takes part here"
    return None
