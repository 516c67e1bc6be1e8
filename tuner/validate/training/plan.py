"""Which passes the training-step part runs: as configured, with each proposal, and at which depths."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from tuner import batching
from tuner.advise import Recommendation
from tuner.counted import counted
from tuner.language import _
from tuner.validate.session import Options, Subject
from tuner.validate.training import depths as cutting
from tuner.validate.training.configured_passes import by_value, reason_not_here
from tuner.validate.training.fitted_job import ranks_here
from tuner.validate.training.groups import (
    Key,
    PassGroup,
    ProposedPass,
    TrainingPlan,
    Try,
    pass_seconds,
    start_seconds,
)
from tuner.validate.training.passes import PlannedPass, planned_passes, with_one_small_image
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
        wanted = [attempt for attempt in configured if attempt.planned.phase is not Phase.REF_LOG_PROB]
        wanted += [
            attempt
            for proposal in proposed
            if not proposal.reason
            for attempt in (proposal.before, proposal.after)
            if attempt
        ]
        wanted += configured  # the reference comes last: an engine of its own, and seldom the worst phase
        groups = tuple(self._groups(attempt for attempt in wanted if not attempt.reason))
        return TrainingPlan(
            configured=configured, proposed=proposed, groups=groups, notes=tuple(self._notes(configured))
        )

    def _planned(self, workload: Workload) -> dict[Phase, PlannedPass]:
        runnable = planned_passes(workload, processes=self.options.processes)
        config_is_known = workload.critic is None or structs.replace(
            workload.critic.model, value_head=False
        ) == structs.replace(workload.model, value_head=False)
        return {
            planned.phase: small(planned) if self._cpu else planned
            for planned in runnable
            if config_is_known or not planned.model.value_head
        }

    def _proposals(self) -> Iterator[ProposedPass]:
        now = {configured.phase: configured for configured in by_value(self.subject.workload)}
        passes = self._planned(self.subject.workload)
        for recommendation in self.subject.advice.recommendations:
            proposal = recommendation.finding.proposal
            if proposal is None:
                continue
            then = {configured.phase: configured for configured in by_value(proposal)}
            changed = [
                phase
                for phase, configured in then.items()
                if phase in now and _work(self.subject.workload, now[phase]) != _work(proposal, configured)
            ]
            if changed:
                phase = _compared_phase(recommendation, changed)
                reason = reason_not_here(then[phase]) or reason_not_here(now[phase])
                reason = reason or _needs_more(now[phase].engine, then[phase].engine, self.options.processes)
                after = self._planned(proposal).get(phase)
                yield self._proposed_pass(recommendation, reason, passes.get(phase), after)

    def _proposed_pass(
        self,
        recommendation: Recommendation,
        reason: str | None,
        before: PlannedPass | None,
        after: PlannedPass | None,
    ) -> ProposedPass:
        if reason is None and (before is None or after is None):
            reason = _("the config.json of the critic's model is not known here")
        if reason is None and self._cpu:
            reason = _("a CPU has no peaks, and its speed says nothing of a GPU's")
        if reason is not None or before is None or after is None:
            return ProposedPass(recommendation=recommendation, before=None, after=None, reason=reason or "")
        tries = self._try(before), self._try(after)
        if tries[0].key == tries[1].key:
            reason = _("what it changes is not there on the GPUs that take part")
        return ProposedPass(
            recommendation=recommendation,
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
            return Try(planned=planned, at=None, reason=_("Liger's layers need a GPU"))
        if self._cpu or planned.predicted.peak_bytes <= self.limit:
            return Try(planned=planned, at=None)
        predicted = cutting.predictions(planned, self.subject.model_config)
        depths = cutting.choose(
            predicted,
            [depth for depth in cutting.usable_depths(planned.model) if cutting.can_be_cut(predicted, depth)],
            planned.model.layers,
            limit_bytes=self.limit,
            training=planned.training,
        )
        reason = (
            "" if depths else _("it does not fit here, and no two depths that do have the same peak moment")
        )
        return Try(planned=planned, at=depths, reason=reason)

    def _groups(self, wanted: Iterable[Try]) -> Iterator[PassGroup]:
        runs: dict[tuple[bool, Engine, int], dict[Key, Try]] = {}
        for attempt in wanted:
            for layers in attempt.layers:
                group = runs.setdefault(
                    (attempt.planned.model.value_head, attempt.planned.settings.built, layers), {}
                )
                group.setdefault(attempt.key, attempt)
        for (critic, _built, layers), tries in runs.items():
            together = tuple(tries.values())
            yield PassGroup(
                layers=layers,
                critic=critic,
                tries=together,
                start_s=start_seconds(together, layers),
                pass_s=tuple(pass_seconds(attempt.planned, layers, cpu=self._cpu) for attempt in together),
            )

    def _notes(self, configured: Sequence[Try]) -> Iterator[str]:
        job, here = self.subject.workload.actor.engine.parallel, self.options.processes
        if job.gpus != here:
            yield (
                _(
                    "Training passes are run and predicted on {here}, not on the {gpus} of the job: over "
                    "these the states are sharded, a micro-batch is the job's."
                ).format(here=counted(here, "GPU"), gpus=job.gpus)
            )
        if any(attempt.planned.settings.first_tokens is not None for attempt in configured):
            yield (
                _(
                    "Of the micro-batches of an update that is run here only the last has its full size: "
                    "the first makes the gradients that it adds to. Times are those of full ones."
                )
            )
        yield from self._shared_otherwise()
        for attempt in configured:
            phase = attempt.planned.phase.value
            if attempt.at is not None:
                yield _("{phase} does not fit here: its figures are extrapolated {at}.").format(
                    phase=phase, at=attempt.at
                )
            elif attempt.reason:
                yield _("{phase} is not measured: {reason}.").format(phase=phase, reason=attempt.reason)

    def _shared_otherwise(self) -> Iterator[str]:
        here = self.options.processes
        for configured in by_value(self.subject.workload):
            wanted = configured.engine.parallel.ulysses
            ranks = ranks_here(wanted, here)
            if reason_not_here(configured) is None and ranks != wanted:
                how = (
                    _("with {ranks} GPUs for a sequence").format(ranks=ranks)
                    if ranks > 1
                    else _("without Ulysses")
                )
                phase = configured.phase.value
                yield _("{phase} is run {how}, not with {wanted}; the tokens are those of one GPU.").format(
                    phase=phase, how=how, wanted=wanted
                )


def small(planned: PlannedPass) -> PlannedPass:
    """What a CPU computes in seconds; nothing is compiled."""
    planned = with_one_small_image(planned)
    room = 1 + planned.image_tokens
    length = max(room, min(planned.case.sequence_length // planned.case.ulysses, _CPU_TOKENS // 2))
    count = max(1, min(planned.case.tokens, _CPU_TOKENS) // length)
    head = structs.replace(planned.workload.actor.head, compiled=False)
    return replace(planned, workload=planned.workload.with_actor(head=head)).with_sequences(count, length)


def _work(workload: Workload, step_pass: StepPass) -> tuple[Any, ...]:
    """What a pass computes, without the batch sizes that it does not use."""
    head = None if step_pass.head.kind is HeadKind.VALUE else step_pass.head
    tokens = batching.micro_batch_tokens(workload.batch, step_pass)
    count = batching.micro_batches(workload.batch, step_pass)
    return step_pass.engine, head, step_pass.entropy, tokens, count


def _compared_phase(recommendation: Recommendation, changed: Sequence[Phase]) -> Phase:
    """The phase whose bytes are claimed, or else the first that is run."""
    claimed = [
        recommendation.finding.phase,
        None if recommendation.price is None else recommendation.price.phase,
    ]
    return next((phase for phase in changed if phase in claimed), changed[0])


def _needs_more(before: Engine, after: Engine, processes: int) -> str | None:
    """Why the difference of two engines does not show on the GPUs that take part."""
    if before.parallel != structs.replace(after.parallel, ulysses=before.parallel.ulysses):
        return _("it divides the work over the job's GPUs in another way, which is not done here")
    ranks = {before.parallel.ulysses, after.parallel.ulysses}
    if len(ranks) > 1 and any(ranks_here(count, processes) != count for count in ranks):
        return _(
            "{ranks} GPUs share a sequence, and {processes} taking part here is no multiple of that"
        ).format(ranks=max(ranks), processes=processes)
    gathering = ("reshard_after_forward", "forward_prefetch", "deferred_gradient_sync")
    if processes == 1 and any(getattr(before, name) != getattr(after, name) for name in gathering):
        return _("it is about gathering and reducing between GPUs, and one takes part here")
    return None
