"""The training-step part: which passes it derives, and what it says of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from msgspec import structs

from tests.cli.runner import ROOT
from tests.memory.test_accuracy import PASS
from tests.validate.recorder import machine
from tuner import batching
from tuner.accuracy import MeasuredCase, compare, pass_time, workload_of
from tuner.advise import Recommendation
from tuner.consultation.consult import consult, model_config
from tuner.consultation.premises import Premises
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement, Outcome
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Subject
from tuner.validate.training import depths, part
from tuner.validate.training.configured_passes import not_here
from tuner.validate.training.depths import predictions
from tuner.validate.training.groups import TrainingPlan, Try
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.plan import training_plan
from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures, PassSettings
from tuner.validate.training.verdicts import MeasuredPass, judge
from tuner.workload import Backend, Checkpointing, HeadKind, HostCopy, Phase, Scaling, Workload

pytestmark = pytest.mark.sampled(6)

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
HERE = machine().free_bytes


@cache
def subject(*overrides: str, model: str = "Qwen2.5-1.5B") -> Subject:
    premises = Premises(verl_version="0.9.1", gpu="h200-sxm", model=model)
    answer = consult(CONFIG, overrides, premises)
    return Subject(
        source=CONFIG,
        overrides=overrides,
        workload=answer.advice.workload,
        advice=answer.advice,
        model_config=dict(model_config(answer.loaded, premises)),
    )


def options(device: str = "cuda", processes: int = 1, **changes: Any) -> Options:
    values: dict[str, Any] = {"budget_s": 120.0, "memory_limit_bytes": None}
    return Options(device=device, processes=processes, **values | changes)


Answer = Callable[[PlannedPass, int, PassFigures], PassFigures | PassFailed]


def truthful(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFigures:
    return figures


@dataclass(kw_only=True)
class Bench:
    """A session whose GPU takes what is predicted, as far as ``answer`` does not say otherwise."""

    subject: Subject
    options: Options = field(default_factory=options)
    machine: Machine = field(default_factory=machine)
    answer: Answer = truthful
    left_s: float = 1000.0
    measurements: dict[str, Measurement] = field(default_factory=dict)
    cases: list[MeasuredCase] = field(default_factory=list)
    verdicts: dict[str, JudgedRecommendation] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)  # layers and passes

    @property
    def plan(self) -> TrainingPlan:
        limit = self.options.memory_limit_bytes or HERE
        return training_plan(self.subject, self.options, memory_bytes=min(HERE, limit))

    def run(self) -> "Bench":
        part.run(self)
        return self

    def call(
        self, function: str, model: ModelSettings, passes: Sequence[PassSettings], *rest: Any, **_: Any
    ) -> Any:
        assert function == part.WORKER
        layers = model.config["num_hidden_layers"]
        self.calls.append((layers, len(passes)))
        tries = {each.key: each for group in self.plan.groups for each in group.tries}
        found = []
        for settings in passes:
            planned = tries[settings, model.critic].planned
            found.append(self.answer(planned, layers, self.as_predicted(planned, layers)))
            if isinstance(found[-1], PassFailed):
                break
        return tuple(found)

    def as_predicted(self, planned: PlannedPass, layers: int) -> PassFigures:
        estimate = predictions(planned, self.subject.model_config)(layers)
        stages = {
            stage: sum(term.bytes for term in moment.terms if term.of_allocator)
            for stage, moment in depths.largest_moments(estimate, training=planned.training).items()
        }
        states = sum(
            term.bytes
            for term in estimate.moments[0].terms
            if term.name in ("actor_parameters", "actor_optimizer")
        )
        return PassFigures(
            engine="tuner",
            allocated_before_bytes=states,
            peak_allocated_bytes=max(stages.values()),
            peak_requested_bytes=max(stages.values()),
            peak_reserved_bytes=max(stages.values()),
            non_torch_bytes=GIB,
            stages=stages,
            seconds=(1.0, 1.01, 1.02),
            once_seconds=(0.1, 0.1, 0.1),
        )

    def add(self, measurement: Measurement) -> None:
        assert measurement.name not in self.measurements
        self.measurements[measurement.name] = measurement

    def add_case(self, case: MeasuredCase) -> None:
        self.cases.append(case)

    def judge(self, judged: JudgedRecommendation) -> None:
        self.verdicts[judged.name] = judged

    def is_measured(self, found: Recommendation) -> bool:
        return found.finding.rule.name in self.verdicts

    def note(self, text: str) -> None:
        self.notes.append(text)


def tries(found: TrainingPlan) -> dict[Phase, Try]:
    return {each.planned.phase: each for each in found.configured}


# -- which passes -------------------------------------------------------------------------------


def test_a_pass_has_the_tokens_of_one_gpu_of_the_job() -> None:
    workload = subject().workload
    assert workload.cluster.gpus_per_node > 1
    for planned in planned_passes(workload, processes=1):
        step_pass = workload.pass_of(Phase.UPDATE_ACTOR if planned.training else Phase.OLD_LOG_PROB)
        assert step_pass is not None
        assert planned.case.tokens == batching.micro_batch_tokens(workload.batch, step_pass)
        assert planned.case.sequence_length <= workload.batch.sequence_tokens
        assert planned.case.tokens % planned.case.sequence_length == 0
        assert planned.case.world_size == planned.workload.actor.engine.parallel.gpus == 1
        assert planned.case.micro_batches == (2 if planned.training else 1)
        assert planned.micro_batches == batching.micro_batches(workload.batch, step_pass)
        assert planned.micro_batches > 2
        # The engine that runs here tells its attention where sequences begin.
        assert step_pass.engine.reads_positions
        assert not planned.workload.actor.engine.reads_positions and not planned.case.reads_positions


def test_tokens_that_make_no_whole_sequences_are_those_of_shorter_ones() -> None:
    workload = subject("data.max_prompt_length=1000", "data.max_response_length=1999").workload
    for planned in planned_passes(workload, processes=1):
        assert planned.case.sequence_length <= 2999
        assert planned.case.tokens % planned.case.sequence_length == 0


def test_a_pass_that_a_file_can_say_is_predicted_as_the_file_is() -> None:
    case = MeasuredCase.model_validate(PASS | {"world_size": 2, "temperature": 0.7})
    for planned in planned_passes(workload_of(case), processes=2):
        assert planned.can_be_recorded
        assert compare(planned.case).terms == compare(planned.case, planned.workload).terms
        older = planned.workload.with_actor_head(scaling=Scaling.IN_PLACE)
        assert not replace(planned, workload=older).can_be_recorded


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"backend": Backend.MEGATRON}, "Megatron"),
        ({"packed": False}, "padding"),
        ({"activation_offload": True}, "activation offload"),
        ({"checkpointing": Checkpointing.SELECTIVE}, "selective"),
    ],
)
def test_what_our_engine_does_not_do_is_said(change: dict[str, Any], reason: str) -> None:
    actor, model = subject().workload.actor, subject().workload.model
    assert not_here(actor.engine, actor.head, model) is None
    found = not_here(structs.replace(actor.engine, **change), actor.head, model)
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("kind", [HeadKind.FUSED_TRITON, HeadKind.FUSED_LIGER, HeadKind.FUSED_TUNER])
def test_heads_of_others_are_not_run(kind: HeadKind) -> None:
    actor, model = subject().workload.actor, subject().workload.model
    assert not_here(actor.engine, structs.replace(actor.head, kind=kind), model) is not None


def test_a_fused_head_needs_a_projection_that_is_gathered() -> None:
    actor = subject().workload.actor
    head = structs.replace(actor.head, kind=HeadKind.FUSED_TORCH)
    engine = structs.replace(actor.engine, backend=Backend.FSDP2, separate_embedding_units=True)
    tied, apart = subject().workload.model, subject(model="Qwen2.5-7B").workload.model
    assert not_here(engine, head, tied) is None
    assert "unit of their own" in (not_here(engine, head, apart) or "")


def test_an_update_that_fetches_its_weights_from_the_host_cannot_be_judged() -> None:
    one = subject()
    found = one.advice.recommendations[0]
    proposal = one.workload.with_actor_engine(streamed_offload=True)
    found = structs.replace(
        found, finding=structs.replace(found.finding, phase=None, proposal=proposal), price=None
    )
    bench = Bench(subject=replace(one, advice=structs.replace(one.advice, recommendations=(found,)))).run()
    (verdict,) = bench.verdicts.values()
    assert verdict.outcome is Outcome.NOT_MEASURABLE
    assert "fetched from the host" in verdict.reason


def test_a_job_without_any_pass_that_can_be_run_is_refused() -> None:
    with pytest.raises(NotHereError, match="padding"):
        part.plan(subject("actor_rollout_ref.model.use_remove_padding=false"), options())


def test_the_plan_names_the_passes() -> None:
    (first, *_) = part.plan(subject(), options())
    assert "update_actor, old_log_prob with 28 layers" in first.title
    assert first.seconds > 0


# -- what is said of them -------------------------------------------------------------------------


def test_passes_as_predicted_confirm_the_prediction() -> None:
    bench = Bench(subject=subject()).run()
    for phase in ("update_actor", "old_log_prob"):
        peak, reserved = bench.measurements[f"{phase}.peak"], bench.measurements[f"{phase}.reserved"]
        assert peak.outcome is reserved.outcome is Outcome.CONFIRMED
        assert peak.error == pytest.approx(0.0, abs=1e-6)
        assert peak.details["actor_parameters"] == 4 * subject().workload.model.parameters
    assert bench.cases
    assert all(compare(case).error == pytest.approx(0.0, abs=1e-6) for case in bench.cases)


def test_passes_that_take_as_long_as_is_modelled_confirm_the_seconds_and_others_refute_them() -> None:
    def taking(share: float) -> Bench:
        def answer(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFigures:
            whole = planned.predicted_time.seconds
            return replace(figures, seconds=(share * whole,) * 3)

        return Bench(subject=subject(), answer=answer).run()

    for share, outcome in ((1.0, Outcome.CONFIRMED), (2.0, Outcome.REFUTED)):
        bench = taking(share)
        for phase in ("update_actor", "old_log_prob"):
            found = bench.measurements[f"{phase}.seconds"]
            assert found.predicted is not None
            assert found.low is not None and found.high is not None
            assert found.low < found.predicted < found.high
            assert found.outcome is outcome
            assert found.measured == pytest.approx(share * found.predicted)
            causes = [value for name, value in found.details.items() if name.startswith("modelled_")]
            assert sum(map(float, causes)) == pytest.approx(found.predicted)


def test_the_modelled_seconds_are_those_of_the_micro_batches_that_are_timed() -> None:
    # One of the two is run; the optimizer's step is there once, so two take less than twice as long.
    update = next(planned for planned in planned_passes(subject().workload, processes=1) if planned.training)
    assert (update.case.micro_batches, update.settings.timed.micro_batches) == (2, 1)
    one = update.predicted_time.seconds
    both = pass_time(update.workload, update.workload.cluster.gpu, training=True).seconds
    assert one < both < 2 * one


def test_a_card_that_takes_a_fifth_more_refutes_it() -> None:
    def lying(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFigures:
        return replace(figures, peak_allocated_bytes=int(1.2 * figures.peak_allocated_bytes))  # type: ignore[operator]

    bench = Bench(subject=subject(), answer=lying).run()
    assert bench.measurements["update_actor.peak"].outcome is Outcome.REFUTED


def proposal(bench: Bench) -> str:
    """A recommendation that both can be judged and claims that a step gets shorter."""
    return next(
        each.recommendation.finding.rule.name
        for each in bench.plan.proposed
        if not each.reason
        and each.recommendation.price is not None
        and each.recommendation.price.seconds_after < each.recommendation.price.seconds_before
    )


def only_after(bench: Bench, name: str, change: Callable[[PassFigures], Any]) -> Answer:
    """Changes the figures of the pass with a proposal."""
    (found,) = (each for each in bench.plan.proposed if each.recommendation.finding.rule.name == name)
    assert found.after is not None
    key = found.after.key

    def answer(planned: PlannedPass, layers: int, figures: PassFigures) -> Any:
        return change(figures) if planned.settings == key[0] else figures

    return answer


def test_a_proposal_that_does_what_it_says_is_confirmed() -> None:
    bench = Bench(subject=subject())
    name = proposal(bench)
    found = bench.run().verdicts[name]
    assert found.outcome is Outcome.CONFIRMED
    assert "GiB was predicted" in found.reason
    assert [each.outcome for each in found.measurements] == [Outcome.CONFIRMED] * 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda figures: replace(figures, seconds=(3.0, 3.1, 3.2)), "was modelled"),
        (
            lambda figures: replace(figures, peak_allocated_bytes=int(1.2 * figures.peak_allocated_bytes)),
            "of the peak apart",
        ),
        (lambda figures: PassFailed(message="out of memory", out_of_memory=True), "ran out of memory"),
    ],
)
def test_a_proposal_that_does_not_is_refuted(change: Callable[[PassFigures], Any], reason: str) -> None:
    bench = Bench(subject=subject())
    # A pass with more tokens takes longer by itself; the step of the job is what counts.
    name = proposal(bench)
    bench.answer = only_after(bench, name, lambda figures: change(figures))
    if "modelled" in reason:
        bench.answer = only_after(bench, name, lambda figures: replace(figures, seconds=(90.0, 91.0, 92.0)))
    found = bench.run().verdicts[name]
    assert found.outcome is Outcome.REFUTED
    assert reason in found.reason


def offloaded(job: Workload) -> Workload:
    """The job with its actor's states in pageable memory of the host between passes."""
    engine = structs.replace(
        job.actor.engine, param_offload=True, optimizer_offload=True, host_copy=HostCopy.PAGEABLE
    )
    return job.with_actor(engine=engine)


def timed(bench: Bench, one: Try, seconds: float) -> MeasuredPass:
    """A pass that is as predicted, and takes so long."""
    figures = bench.as_predicted(one.planned, one.planned.model.layers)
    figures = replace(figures, seconds=(seconds,), once_seconds=(0.0,))
    return MeasuredPass(
        planned=one.planned, figures=figures, compared=one.planned.compared(figures), extrapolated=None
    )


@pytest.mark.parametrize(("proposed", "outcome"), [(offloaded, Outcome.CONFIRMED), (None, Outcome.REFUTED)])
def test_a_pass_that_is_modelled_to_take_longer_may(
    proposed: Callable[[Workload], Workload] | None, outcome: Outcome
) -> None:
    """What is gained lies in another phase, such as a larger cache for the rollout."""
    bench = Bench(subject=subject())
    job = bench.subject.workload
    (each,) = (one for one in bench.plan.proposed if one.recommendation.finding.rule.name == proposal(bench))
    found = each.recommendation
    if proposed is not None:
        found = structs.replace(found, finding=structs.replace(found.finding, proposal=proposed(job)))
    assert each.before is not None and each.after is not None
    judged = judge(found, timed(bench, each.before, 1.0), timed(bench, each.after, 90.0), job=job)
    assert judged.outcome is outcome
    assert ("was modelled" in judged.reason) is (outcome is Outcome.REFUTED)


def test_what_a_pass_does_once_is_not_multiplied() -> None:
    bench = Bench(subject=subject())
    measured = timed(bench, bench.plan.configured[0], 5.0)
    planned = measured.planned
    (seconds,) = replace(measured, figures=replace(measured.figures, once_seconds=(4.0,))).job_seconds
    assert seconds == 4.0 + planned.micro_batches / planned.settings.timed.micro_batches
    assert planned.micro_batches > planned.settings.timed.micro_batches


def test_times_that_differ_by_less_than_their_repetitions_refute_nothing() -> None:
    bench = Bench(subject=subject())
    name = proposal(bench)
    bench.answer = only_after(bench, name, lambda figures: replace(figures, seconds=(0.1, 1.0, 9.0)))
    assert bench.run().verdicts[name].outcome is Outcome.CONFIRMED


def test_a_pass_that_fails_leaves_the_others_to_a_fresh_process() -> None:
    bench = Bench(subject=subject())
    name = proposal(bench)
    bench.answer = only_after(bench, name, lambda figures: PassFailed(message="RuntimeError: no such kernel"))
    found = bench.run().verdicts[name]
    assert found.outcome is Outcome.NOT_MEASURABLE
    assert "no such kernel" in found.reason
    first, second = bench.calls[:2]
    assert first[1] > second[1]


def test_what_is_between_gpus_cannot_be_judged_on_one() -> None:
    one = subject("actor_rollout_ref.actor.strategy=fsdp2")
    found = one.advice.recommendations[0]
    proposal = one.workload.with_actor_engine(forward_prefetch=True)
    found = structs.replace(
        found, finding=structs.replace(found.finding, phase=None, proposal=proposal), price=None
    )
    one = replace(one, advice=structs.replace(one.advice, recommendations=(found,)))
    (alone,) = Bench(subject=one).run().verdicts.values()
    assert alone.outcome is Outcome.NOT_MEASURABLE
    assert "one takes part" in alone.reason
    (both,) = Bench(subject=one, options=options(processes=2)).run().verdicts.values()
    assert both.outcome is Outcome.CONFIRMED


SHARED = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"


def test_sequences_are_shared_as_in_the_job() -> None:
    """By as many GPUs, with as many tokens on each; by fewer where the others are not here, which is said."""
    alone = {each.phase: each for each in planned_passes(subject().workload, processes=2)}
    for planned in planned_passes(subject(SHARED).workload, processes=2):
        one, settings = planned.case, planned.settings
        assert (one.ulysses, settings.engine.parallel.ulysses) == (2, 2)
        assert one.tokens == alone[planned.phase].case.tokens
        assert one.sequence_length == alone[planned.phase].case.sequence_length
        assert settings.sequences == 2 * alone[planned.phase].settings.sequences
        assert planned.can_be_recorded
    (update, *_) = planned_passes(subject(SHARED).workload, processes=1)
    assert update.case.ulysses == 1

    def notes(processes: int) -> str:
        return " ".join(Bench(subject=subject(SHARED), options=options(processes=processes)).plan.notes)

    assert "update_actor is run without Ulysses, not with 2" in notes(1)
    assert "Ulysses" not in notes(2)


@pytest.mark.parametrize(("prompt", "response"), [(1000, 1999), (30000, 2001)])
def test_odd_sequences_are_shared_whole(prompt: int, response: int) -> None:
    lengths = (f"data.max_prompt_length={prompt}", f"data.max_response_length={response}")
    for planned in planned_passes(subject(SHARED, *lengths).workload, processes=2):
        case = planned.case
        assert case.sequence_length % 2 == 0
        assert case.sequence_length <= prompt + response + 1  # padded to a multiple of two
        assert case.tokens * 2 == planned.settings.sequences * case.sequence_length
        assert case.tokens >= 0.9 * min(16384, (prompt + response) / 2)


def test_sharing_sequences_is_judged_where_there_are_enough_gpus() -> None:
    one = subject()
    found = one.advice.recommendations[0]
    parallel = structs.replace(one.workload.actor.engine.parallel, ulysses=2)
    proposal = one.workload.with_actor_engine(parallel=parallel)
    found = structs.replace(
        found, finding=structs.replace(found.finding, phase=None, proposal=proposal), price=None
    )
    one = replace(one, advice=structs.replace(one.advice, recommendations=(found,)))
    (alone,) = Bench(subject=one).run().verdicts.values()
    assert alone.outcome is Outcome.NOT_MEASURABLE
    assert "2 GPUs share a sequence" in alone.reason
    (both,) = Bench(subject=one, options=options(processes=2)).run().verdicts.values()
    assert both.outcome is Outcome.CONFIRMED
    split = structs.replace(
        proposal,
        actor=structs.replace(
            proposal.actor,
            engine=structs.replace(proposal.actor.engine, parallel=structs.replace(parallel, shard=1)),
        ),
    )
    found = structs.replace(found, finding=structs.replace(found.finding, proposal=split))
    one = replace(one, advice=structs.replace(one.advice, recommendations=(found,)))
    (other,) = Bench(subject=one, options=options(processes=2)).run().verdicts.values()
    assert "in another way" in other.reason


def test_heads_that_gpus_cannot_share_are_not_run() -> None:
    actor, model = subject().workload.actor, subject().workload.model
    assert (model.heads, model.kv_heads) == (12, 2)

    def reason(ranks: int) -> str | None:
        parallel = structs.replace(actor.engine.parallel, ulysses=ranks)
        return not_here(structs.replace(actor.engine, parallel=parallel), actor.head, model)

    assert reason(1) is reason(2) is reason(4) is None
    for ranks in (3, 8):  # key heads; heads
        assert "cannot be shared" in (reason(ranks) or "")


def test_running_out_of_memory_against_the_prediction_refutes_it() -> None:
    def failing(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFailed:
        return PassFailed(message="out of memory", out_of_memory=True)

    bench = Bench(subject=subject(), answer=failing).run()
    assert bench.measurements["update_actor.peak"].outcome is Outcome.REFUTED
    assert any("update_actor failed" in note for note in bench.notes)


def test_a_model_that_does_not_fit_is_run_at_two_depths() -> None:
    asked = options(memory_limit_bytes=24 * GIB)
    bench = Bench(subject=subject(), options=asked)
    at = tries(bench.plan)[Phase.UPDATE_ACTOR].at
    assert at is not None
    assert at.upper < at.full == 28
    whole = Bench(subject=subject()).run().measurements["update_actor.peak"]
    cut = bench.run().measurements["update_actor.peak"]
    assert {layers for layers, _ in bench.calls} >= {at.lower, at.upper}
    assert cut.extrapolated == str(at)
    assert cut.measured == pytest.approx(whole.measured, rel=1e-3)
    assert cut.outcome is Outcome.CONFIRMED
    assert "update_actor.reserved" not in bench.measurements
    assert not [case for case in bench.cases if case.pass_ == "update"]


def test_a_part_out_of_time_says_so_and_keeps_what_it_has() -> None:
    class Slow(Bench):
        def call(self, *arguments: Any, **options: Any) -> Any:
            self.left_s = 0.0
            return super().call(*arguments, **options)[:1]

    bench = Slow(subject=subject())
    with pytest.raises(OutOfBudgetError, match="no time for"):
        bench.run()
    assert set(bench.measurements) == {f"update_actor.{each}" for each in ("peak", "reserved", "seconds")}


def test_the_first_offload_of_a_process_takes_long() -> None:
    """Host memory has to be page-locked: about a second for each 1.5 x 10^9 bytes."""
    (group, *_) = Bench(subject=subject()).plan.groups
    offloaded = subject(
        "actor_rollout_ref.actor.fsdp_config.param_offload=true",
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true",
    )
    (longer, *_) = Bench(subject=offloaded).plan.groups
    states = 12 * subject().workload.model.parameters
    assert longer.pass_s[0] - group.pass_s[0] == pytest.approx(states / 1.5e9, rel=0.01)


def test_passes_that_are_too_long_make_room_for_others() -> None:
    (group, *_) = Bench(subject=subject()).plan.groups
    assert group.within(group.seconds).tries == group.tries
    longest = max(group.pass_s)
    kept = group.within(group.seconds - longest)
    assert 0 < len(kept.tries) < len(group.tries)
    assert kept.seconds - (group.seconds - longest) < 1e-9  # sums in another order
    assert not group.within(group.start_s).tries
    left = group.after({each.key for each in kept.tries}).tries
    assert left == tuple(each for each in group.tries if each not in kept.tries)


@dataclass(kw_only=True)
class Clocked(Bench):
    """Calls take what is expected of them."""

    ran: list[PassSettings] = field(default_factory=list)

    def call(
        self, function: str, model: ModelSettings, passes: Sequence[PassSettings], *rest: Any, **more: Any
    ) -> Any:
        self.left_s -= more["expected_s"]
        self.ran += passes
        return super().call(function, model, passes, *rest, **more)


def test_every_engine_gets_its_time_before_the_longest_pass() -> None:
    """Passes of the reference have an engine of their own, which comes last."""
    (first, *others) = Bench(subject=subject()).plan.groups
    assert others
    slowest = max(first.pass_s)
    longest = {
        each.planned.settings
        for each, seconds in zip(first.tries, first.pass_s, strict=True)
        if seconds == slowest
    }
    needed = sum(group.seconds for group in (first, *others))

    bench = Clocked(subject=subject(), left_s=needed - slowest / 2)
    with pytest.raises(OutOfBudgetError, match="no time for 1 of its passes"):
        bench.run()
    wanted = {each.planned.settings for group in (first, *others) for each in group.tries}
    (left_out,) = wanted - set(bench.ran)
    assert left_out in longest

    enough = Clocked(subject=subject(), left_s=needed + first.start_s).run()
    assert set(enough.ran) == wanted and len(enough.ran) == len(wanted)


def test_passes_as_configured_make_room_for_nothing() -> None:
    (first, *_) = Bench(subject=subject()).plan.groups
    configured = {each.key for each in tries(Bench(subject=subject()).plan).values()}
    bench = Clocked(subject=subject(), left_s=first.seconds_of(configured) + 0.1)
    with pytest.raises(OutOfBudgetError):
        bench.run()
    assert {"update_actor.peak", "old_log_prob.peak"} <= set(bench.measurements)


def test_a_cpu_confirms_nothing() -> None:
    def uncounted(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFigures:
        return replace(figures, allocated_before_bytes=None, peak_allocated_bytes=None, stages={})

    bench = Bench(subject=subject(), options=options("cpu"), answer=uncounted).run()
    assert not bench.measurements
    assert not bench.cases
    assert {found.outcome for found in bench.verdicts.values()} == {Outcome.NOT_MEASURABLE}
    assert any("no peaks" in note for note in bench.notes)


def test_the_moment_of_a_cpu_pass_is_small() -> None:
    for planned in tries(Bench(subject=subject(), options=options("cpu")).plan).values():
        assert planned.planned.case.tokens <= 256
        assert not planned.planned.settings.head.compiled
