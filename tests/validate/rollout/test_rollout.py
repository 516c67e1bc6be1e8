"""The rollout part: what is allocated, what is claimed of it, what refutes a claim; its worker on a CPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from torch.nn import functional

from tests.validate.parts import MACHINE
from tests.validate.search import test_search
from tests.workloads import ALL, grpo_7b, grpo_moe_30b
from tuner.advise import Advice, Recommendation
from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.memory.process.overhead import context
from tuner.model_shape import LatentAttention
from tuner.timing import assumptions as assume
from tuner.units import GIB, MIB
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.children.servers import ServedFunction
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement, Outcome
from tuner.validate.report.verdicts import joined
from tuner.validate.rollout import part
from tuner.validate.rollout import vllm as engine_module
from tuner.validate.rollout.plan import PlannedRollout, not_decoded, planned_rollout
from tuner.validate.rollout.settings import (
    CacheShape,
    DecodeFigures,
    DecoderShape,
    EngineWork,
    RolloutFigures,
    RolloutWork,
    VllmFigures,
    tiny,
)
from tuner.validate.rollout.verdicts import changing, runnable
from tuner.validate.rollout.vllm import WORKER as ENGINE_WORKER
from tuner.validate.rollout.vllm import engine_work
from tuner.validate.rollout.worker import residents as worker
from tuner.validate.rollout.worker.paged import Decoder, PagedCache, attend
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Subject
from tuner.workload import Phase, RolloutEngine, Workload

OPTIONS = test_search.OPTIONS
CPU = replace(OPTIONS, device="cpu")


def long_responses() -> Subject:
    """A job whose cache is worth more of the card, and whose limit keeps sequences waiting before that."""
    return test_search.subject(
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct",
        "data.max_response_length=4096",
        "actor_rollout_ref.rollout.max_num_seqs=64",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
    )


CARD = find_gpu("h200-sxm").capacity_bytes  # that of the job
AS_PROFILE = MACHINE.model_copy(update={"total_bytes": CARD, "free_bytes": CARD})
FRACTION, SEQUENCES, LENGTH, STATISTICS = "ROL001", "ROL005", "ROL010", "ROL016"
Answer = Callable[[RolloutWork], RolloutFigures]


def as_planned(work: RolloutWork) -> RolloutFigures:
    """Every byte as asked for, and a context as predicted."""
    size = work.cache.layers * work.cache.layer_bytes
    own = context(long_responses().workload.cluster.gpu).typical
    held = sum(size for _, size in work.residents) + work.weight_bytes + work.activation_bytes
    return RolloutFigures(
        cache_layers=work.cache.layers,
        cache_bytes=size,
        cache_reserved_bytes=size,
        used_bytes=held + size + own,
        decode=DecodeFigures(
            attention_error=0.004,
            attention_limit=0.06,
            seconds=(0.02, 0.04, 0.03),
            workspace_bytes=work.activation_bytes // 4,
            gathered_bytes=256 * MIB,
        )
        if work.decoder
        else None,
    )


@dataclass(kw_only=True)
class Recorder:
    """A session whose worker gives what the test says."""

    answer: Answer = as_planned
    subject: Subject = field(default_factory=long_responses)
    options: Options = OPTIONS
    machine: Machine = AS_PROFILE
    left_s: float = 60.0
    cases: int = 100  # that there is time for
    failure: Failed | None = None
    engine: Callable[[PlannedRollout], VllmFigures] | Failed | None = None
    engines: list[EngineWork] = field(default_factory=list)
    works: tuple[RolloutWork, ...] = ()
    measurements: dict[str, Measurement] = field(default_factory=dict)
    verdicts: dict[str, JudgedRecommendation] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def call(self, worker: ServedFunction, *arguments: Any, **options: object) -> object:
        if worker == ENGINE_WORKER:
            if self.engine is None:
                raise OutOfBudgetError("it takes too long")
            self.engines.append(arguments[0])
            return self.engine if isinstance(self.engine, Failed) else self.engine(self.job(arguments[0]))
        assert worker == part.WORKER
        self.works = arguments[0]
        if self.options.device == "cpu":
            return getattr(import_module(worker.module), worker.function)(*arguments, device="cpu")
        return self.failure or tuple(self.answer(work) for work in self.works[: self.cases])

    def add(self, measurement: Measurement) -> None:
        assert measurement.name not in self.measurements
        self.measurements[measurement.name] = measurement

    def add_case(self, case: object) -> None:
        raise AssertionError("no pass of a model is measured")

    def job(self, work: EngineWork) -> PlannedRollout:
        """The rollout that vLLM was started for: as configured, or with one of the recommendations."""
        jobs = [self.subject.workload, *(proposal for _, proposal, _ in changing(self.subject))]
        planned = [planned_rollout(job, self.machine, self.options) for job in jobs]
        found = [one for one in planned if engine_work(self, one) == replace(work, fewer=0)]
        assert found
        return found[0]

    def judge(self, judged: JudgedRecommendation) -> None:
        earlier = self.verdicts.get(judged.code)
        self.verdicts[judged.code] = judged if earlier is None else joined(earlier, judged)

    def is_measured(self, found: Recommendation) -> bool:
        return False

    def note(self, text: str) -> None:
        self.notes.append(text)


def run(**changes: Any) -> Recorder:
    session = Recorder(**changes)
    part.run(session)
    return session


def subject_of(workload: Workload, codes: Sequence[str] = ()) -> Subject:
    found = long_responses()
    kept = [one for one in found.advice.recommendations if one.finding.rule.code in codes]
    advice: Advice = structs.replace(found.advice, workload=workload, recommendations=tuple(kept))
    return replace(found, workload=workload, advice=advice)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_what_is_allocated_adds_up_to_the_prediction(make: Callable[[], Workload]) -> None:
    """All terms once, but for the worker's own context and for less than a block of cache."""
    workload = make()
    card = workload.cluster.gpu.capacity_bytes
    machine = MACHINE.model_copy(update={"total_bytes": card, "free_bytes": card})
    planned = planned_rollout(workload, machine, OPTIONS)
    work = planned.work()
    total = sum(size for _, size in work.residents) + work.weight_bytes + work.activation_bytes
    total += planned.wanted.layers * planned.wanted.layer_bytes + context(workload.cluster.gpu).typical
    assert 0 <= planned.phase.peak_bytes - total < planned.wanted.block_bytes
    assert planned.phase.phase is Phase.ROLLOUT
    assert planned.scaled is (planned.phase.peak_bytes > card)
    assert planned.wanted.blocks == planned.predicted_blocks > 0
    names = [name for name, _ in work.residents]
    assert len(names) == len(set(names)) and "actor_parameters" in names


def test_sequences_that_are_decoded_have_blocks_for_their_full_length() -> None:
    for fraction in (0.2, 0.5):
        workload = grpo_7b().with_rollout(memory_fraction=fraction, max_sequences=3000)
        card = workload.cluster.gpu.capacity_bytes
        machine = MACHINE.model_copy(update={"total_bytes": card, "free_bytes": card})
        work = planned_rollout(workload, machine, OPTIONS).work()
        blocks = -(-work.longest_tokens // work.cache.block_tokens)
        assert 0 < work.sequences * blocks <= work.cache.blocks
        assert work.decoder is not None and work.decoder.heads == 14  # of two GPUs' 28


def test_a_rollout_as_predicted_is_confirmed() -> None:
    session = run()
    found = session.measurements
    confirmed = {name for name, one in found.items() if one.outcome is Outcome.CONFIRMED}
    assert confirmed == {
        "rollout.fits",
        "rollout.kv_cache",
        "rollout.blocks",
        "rollout.sequences",
        "rollout.peak",
        "rollout.attention",
        "rollout.decode_workspace",
    }
    assert found.keys() - confirmed == {"rollout.decode"}
    assert found["rollout.decode"].measured == pytest.approx(64 / 0.03)
    assert found["rollout.kv_cache"].predicted == session.subject.advice.rollout.kv_bytes
    assert found["rollout.sequences"].measured == session.subject.advice.rollout.concurrent_sequences
    phase = session.subject.advice.estimate.phase(Phase.ROLLOUT)
    assert phase is not None and found["rollout.peak"].predicted == phase.peak_bytes
    assert not session.notes and all(one.extrapolated is None for one in found.values())


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_profile_that_lies_about_memory_is_refuted(factor: float) -> None:
    total = round(CARD * factor)
    session = run(machine=MACHINE.model_copy(update={"total_bytes": total, "free_bytes": total}))
    refuted = {name for name, one in session.measurements.items() if one.outcome is Outcome.REFUTED}
    assert {"rollout.kv_cache", "rollout.blocks", "rollout.peak"} <= refuted


def test_memory_that_runs_out_is_refuted() -> None:
    def answer(work: RolloutWork) -> RolloutFigures:
        layers = work.cache.layers // 9
        taken = layers * work.cache.layer_bytes
        return RolloutFigures(
            cache_layers=layers, cache_bytes=taken, cache_reserved_bytes=taken, missing="kv_cache"
        )

    session = run(answer=answer)
    found = session.measurements
    assert {one.outcome for one in found.values()} == {Outcome.REFUTED}
    assert found.keys() == {"rollout.fits", "rollout.kv_cache", "rollout.blocks", "rollout.sequences"}
    assert "kv_cache" in str(found["rollout.fits"].details)
    work = session.works[0]
    before = sum(size for _, size in work.residents) + work.weight_bytes
    cache = work.cache.layers * work.cache.layer_bytes
    assert found["rollout.fits"].measured == pytest.approx(
        (before + cache / 9) / (before + cache + work.activation_bytes)
    )
    assert found["rollout.blocks"].measured == session.works[0].cache.blocks // 9
    assert any("out of memory at kv_cache" in note for note in session.notes)


@pytest.mark.parametrize("name", ["actor_optimizer", "engine_weights", "engine_activations"])
def test_the_share_that_was_there_ends_where_memory_ran_out(name: str) -> None:
    def answer(work: RolloutWork) -> RolloutFigures:
        whole = replace(as_planned(work), used_bytes=None)
        return replace(whole if name == "engine_activations" else RolloutFigures(), missing=name)

    session = run(answer=answer)
    fits = session.measurements["rollout.fits"]
    work = session.works[0]
    order = [*work.residents, ("engine_weights", work.weight_bytes)]
    order += [("kv_cache", work.cache.layers * work.cache.layer_bytes)]
    order += [("engine_activations", work.activation_bytes)]
    there = sum(size for _, size in order[: [each for each, _ in order].index(name)])
    assert fits.measured == pytest.approx(there / sum(size for _, size in order))
    assert fits.outcome is Outcome.REFUTED and "rollout.peak" not in session.measurements


def test_attention_that_is_wrong_is_refuted() -> None:
    def answer(work: RolloutWork) -> RolloutFigures:
        found = as_planned(work)
        assert found.decode is not None
        return replace(found, decode=replace(found.decode, attention_error=0.5, workspace_bytes=2**40))

    found = run(answer=answer).measurements
    assert found["rollout.attention"].outcome is Outcome.REFUTED
    assert found["rollout.decode_workspace"].outcome is Outcome.REFUTED


@pytest.mark.parametrize("by_limit", [True, False])
def test_less_memory_scales_the_cache_down_and_figures_are_extrapolated(by_limit: bool) -> None:
    room = 50 * GIB
    machine, options = AS_PROFILE, replace(OPTIONS, memory_limit_bytes=room)
    if not by_limit:
        machine, options = AS_PROFILE.model_copy(update={"free_bytes": room}), OPTIONS

    def answer(work: RolloutWork) -> RolloutFigures:
        found = as_planned(work)
        assert found.used_bytes is not None
        return replace(found, used_bytes=found.used_bytes + machine.total_bytes - machine.free_bytes)

    session = run(machine=machine, options=options, answer=answer)
    work, found = session.works[0], session.measurements
    sizes = [size for _, size in work.residents] + [work.weight_bytes, work.activation_bytes]
    sizes += work.cache.layers * [work.cache.layer_bytes]
    most = sum(-(-size // (2 * MIB)) * 2 * MIB for size in sizes)  # whole pages of the driver
    most += context(session.subject.workload.cluster.gpu).high
    assert room - GIB < most <= room
    for name in ("rollout.kv_cache", "rollout.blocks", "rollout.sequences", "rollout.peak"):
        assert found[name].outcome is Outcome.CONFIRMED
        assert f"{work.cache.blocks:,} of" in str(found[name].extrapolated)
    assert "rollout.fits" not in found
    assert any("50.0 GiB of the GPU are there for us" in note for note in session.notes)
    fraction = session.verdicts[FRACTION]
    assert fraction.outcome is Outcome.NOT_MEASURABLE and "50.0 GiB are there" in fraction.reason


def test_no_room_for_a_block_claims_nothing() -> None:
    options = replace(OPTIONS, memory_limit_bytes=5 * GIB)
    session = run(options=options, answer=lambda work: RolloutFigures(missing="engine_weights"))
    assert session.works[0].cache.blocks == 0
    assert not session.measurements
    assert session.verdicts[FRACTION].outcome is Outcome.NOT_MEASURABLE
    assert session.verdicts[LENGTH].reason == "no cache could be allocated here"


def test_recommendations_that_fit_are_confirmed_and_those_of_the_engine_are_left() -> None:
    session = run()
    assert len(session.works) == 1 + len(runnable(session.subject)) == 3
    fraction, sequences = session.verdicts[FRACTION], session.verdicts[SEQUENCES]
    assert fraction.outcome is sequences.outcome is Outcome.CONFIRMED
    shown = {one.name: one for one in fraction.measurements}
    assert shown["rollout.kv_cache.without"].measured < shown["rollout.kv_cache.with"].measured
    assert shown["rollout.sequences.with"].measured == shown["rollout.sequences.with"].predicted
    statistics = session.verdicts[STATISTICS]
    assert statistics.outcome is Outcome.NOT_MEASURABLE
    assert statistics.reason == "claims no bytes and no seconds; only vllm itself shows it: statistics"


def of_cache(size: int) -> Answer:
    """Every byte but the cache's as asked for."""

    def answer(work: RolloutWork) -> RolloutFigures:
        return replace(as_planned(work), cache_bytes=size)

    return answer


def short_cache() -> Subject:
    """vLLM refuses it: one sequence of the model's 32,768 tokens takes more than the cache has."""
    return test_search.subject(
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct",
        "data.max_response_length=5120",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.058",
    )


def test_a_limit_of_the_length_is_held_against_the_cache_that_is_allocated() -> None:
    found = run().verdicts[LENGTH]
    assert found.outcome is Outcome.CONFIRMED
    assert found.claim == "longest sequence that the engine has to hold 32,768 to 5,120 tokens"
    assert found.reason == (
        "the cache that is allocated has 35.2 GiB: one sequence of 32,768 tokens takes 1.1 GiB and fits, "
        "one sequence of 5,120 tokens takes 0.2 GiB and fits; time is not measured"
    )
    assert [one.details["sequence_bytes"] for one in found.measurements] == [32768 * 36864, 5120 * 36864]
    assert len({one.measured for one in found.measurements}) == 1


def test_a_refusal_that_is_predicted_is_confirmed_by_a_cache_that_is_too_small() -> None:
    found = run(subject=short_cache()).verdicts[LENGTH]
    assert found.outcome is Outcome.CONFIRMED
    assert "takes 1.1 GiB and does not fit, one sequence of 6,144" in found.reason


def test_room_is_not_a_start_where_the_engine_does_not_refuse() -> None:
    """SGLang starts with such a cache; a sequence of the model's length has no room in it all the same."""
    now = short_cache()
    workload = now.workload.with_rollout(engine=RolloutEngine.SGLANG)
    proposal = workload.with_rollout(max_model_tokens=6144)
    (found,) = [one for one in now.advice.recommendations if one.finding.rule.code == LENGTH]
    other = structs.replace(found, finding=structs.replace(found.finding, proposal=proposal))
    advice = structs.replace(now.advice, workload=workload, recommendations=(other,))
    session = run(subject=replace(now, workload=workload, advice=advice), answer=of_cache(GIB))
    assert "takes 1.1 GiB and does not fit" in session.verdicts[LENGTH].reason


@pytest.mark.parametrize(
    ("make", "size", "words"),
    [
        (long_responses, 32767 * 36864, "and does not fit where it was predicted that it fits, one"),
        (long_responses, 5119 * 36864, "and does not fit where it was predicted that it fits; time"),
        (short_cache, 2 * GIB, "and fits where it was predicted that it does not fit, one"),
    ],
)
def test_a_cache_of_another_size_refutes_what_starts(
    make: Callable[[], Subject], size: int, words: str
) -> None:
    found = run(subject=make(), answer=of_cache(size)).verdicts[LENGTH]
    assert found.outcome is Outcome.REFUTED and words in found.reason


def test_a_recommendation_that_runs_out_of_memory_is_refuted() -> None:
    def answer(work: RolloutWork) -> RolloutFigures:
        whole = as_planned(work)
        if whole.cache_bytes < 70 * 10**9:
            return whole
        return replace(whole, cache_layers=20, cache_bytes=whole.cache_bytes * 20 // 28, missing="kv_cache")

    session = run(answer=answer)
    assert session.verdicts[FRACTION].outcome is Outcome.REFUTED
    assert "runs out of memory at kv_cache" in session.verdicts[FRACTION].reason
    assert session.verdicts[SEQUENCES].outcome is Outcome.CONFIRMED


def test_a_recommendation_that_the_card_is_too_small_for_is_refuted() -> None:
    smaller = long_responses().advice.estimate.phase(Phase.ROLLOUT)
    assert smaller is not None
    workload = long_responses().workload
    lean = workload.with_rollout(memory_fraction=0.97)
    found = long_responses().advice.recommendations
    over = [
        structs.replace(one, finding=structs.replace(one.finding, proposal=lean))
        for one in found
        if one.finding.rule.code == FRACTION
    ]
    subject = long_responses()
    advice = structs.replace(subject.advice, recommendations=tuple(over))
    session = run(subject=replace(subject, advice=advice))
    assert session.verdicts[FRACTION].outcome is Outcome.REFUTED
    assert "are there for us" in session.verdicts[FRACTION].reason


def test_a_number_of_sequences_that_is_another_is_refuted() -> None:
    """The card holds 8 % less than the profile says; the proposal's cache loses more than 3 %."""
    total = round(0.92 * CARD)
    workload = long_responses().workload
    long = workload.with_batch(max_response_tokens=30000).with_rollout(max_sequences=256)
    subject = subject_of(long, [FRACTION])
    (one,) = subject.advice.recommendations
    proposal = long.with_rollout(memory_fraction=0.6)
    changed = structs.replace(one, finding=structs.replace(one.finding, proposal=proposal))
    subject = replace(subject, advice=structs.replace(subject.advice, recommendations=(changed,)))
    machine = MACHINE.model_copy(update={"total_bytes": total, "free_bytes": total})
    assert run(subject=subject).verdicts[FRACTION].outcome is Outcome.CONFIRMED
    refuted = run(subject=subject, machine=machine).verdicts[FRACTION]
    assert refuted.outcome is Outcome.REFUTED and "were predicted" in refuted.reason


def test_what_there_was_no_time_for_is_not_judged() -> None:
    session = run(cases=2)
    judged = [session.verdicts[code] for code in (FRACTION, SEQUENCES)]
    assert sorted(one.outcome.value for one in judged) == ["confirmed", "not measurable here"]


def test_a_worker_that_fails_leaves_a_note() -> None:
    session = run(failure=Failed(why=CallFailure.ERROR, message="no such device"))
    assert not session.measurements and "no such device" in session.notes[0]


def test_an_engine_over_more_gpus_than_are_here_is_said() -> None:
    session = run(subject=subject_of(grpo_7b()))
    assert any("2 GPUs share the engine" in note for note in session.notes)


WITH_VLLM = AS_PROFILE.model_copy(update={"versions": {**MACHINE.versions, "vllm": "0.24.0"}})


def engine_as_predicted(planned: PlannedRollout) -> VllmFigures:
    return VllmFigures(
        version="0.24.0",
        blocks=planned.predicted_blocks,
        block_tokens=16,
        used_bytes=planned.phase.peak_bytes,
        ready_seconds=30.0,
        step_seconds=(0.0100, 0.0101, 0.0102),
        sequences=200,
    )


def test_vllm_as_predicted_confirms_everything_that_changes_it() -> None:
    session = run(machine=WITH_VLLM, engine=engine_as_predicted)
    for name in ("engine_cache", "engine_peak"):
        assert session.measurements[f"rollout.{name}"].outcome is Outcome.CONFIRMED
    for code in (FRACTION, SEQUENCES, LENGTH, STATISTICS):
        verdict = session.verdicts[code]
        assert verdict.outcome is Outcome.CONFIRMED and "19,802 to 19,802 tokens/s" in verdict.reason
        assert "rollout.engine_cache.with" in {one.name for one in verdict.measurements}
    assert "itself shows it" not in session.verdicts[STATISTICS].reason


def test_steps_of_two_numbers_of_sequences_tell_how_fast_the_host_prepares_them() -> None:
    def beside_a_host_of(factor: float, of_sequence: float | None = None) -> Recorder:
        def engine(planned: PlannedRollout) -> VllmFigures:
            step = assume.ENGINE_STEP_S / factor
            sequence = assume.ENGINE_SEQUENCE_S / (of_sequence or factor)
            all_of_them, fewer = ((step + sequence * count,) for count in (400, 200))
            figures = replace(engine_as_predicted(planned), sequences=400, step_seconds=all_of_them)
            return replace(figures, fewer=200, fewer_seconds=fewer)

        return run(machine=WITH_VLLM, engine=engine)

    session = beside_a_host_of(0.25)
    assert [work.fewer for work in session.engines][:2] == [session.engines[0].sequences // 2, 0]
    shown = session.measurements["factor.engine"]
    assert shown.measured == pytest.approx(0.25)
    assert shown.details["sequences_400"] == pytest.approx(shown.details["sequences_200"])
    assert shown.details["seconds_of_one_more"] == pytest.approx(4 * assume.ENGINE_SEQUENCE_S)
    assert session.measurements["factor.engine_sequence"].measured == pytest.approx(0.25)
    apart = beside_a_host_of(0.5, of_sequence=0.2).measurements
    assert apart["factor.engine"].measured == pytest.approx(0.5)
    assert apart["factor.engine_sequence"].measured == pytest.approx(0.2)
    # A step that takes less than its sequences tells one factor for both.
    together = beside_a_host_of(-2.0, of_sequence=0.2).measurements
    assert together["factor.engine"].measured > 0.2 and "factor.engine_sequence" not in together
    # The GPU takes longer than a fast host, so that nothing is told of it.
    assert "factor.engine" not in beside_a_host_of(10.0).measurements


def test_vllm_is_started_as_each_recommendation_wants_it() -> None:
    session = run(machine=WITH_VLLM, engine=engine_as_predicted)
    (configured, *proposed, again) = [work.arguments for work in session.engines]
    assert again == configured
    assert configured["enable_sleep_mode"] is True and configured["logprobs_mode"] == "processed_logprobs"
    changes = [
        {name for name in one.keys() | configured.keys() if one.get(name) != configured.get(name)}
        for one in proposed
    ]
    assert sorted(map(sorted, changes)) == sorted(
        [
            ["gpu_memory_utilization", "max_num_seqs"],
            ["max_num_seqs"],
            ["max_model_len"],
            ["disable_log_stats"],
        ]
    )
    jobs = [session.job(work) for work in session.engines]
    assert [work.sequences for work in session.engines] == [job.predicted.running_sequences for job in jobs]
    assert len({work.context_tokens for work in session.engines}) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda figures: replace(figures, blocks=figures.blocks * 9 // 10), "were predicted"),
        (lambda figures: replace(figures, step_seconds=(0.0105, 0.0106, 0.0106)), "although"),
    ],
)
def test_vllm_that_does_otherwise_with_a_recommendation_refutes_it(
    change: Callable[[VllmFigures], VllmFigures], reason: str
) -> None:
    configured = planned_rollout(long_responses().workload, WITH_VLLM, OPTIONS)

    def engine(planned: PlannedRollout) -> VllmFigures:
        figures = engine_as_predicted(planned)
        return figures if planned.workload == configured.workload else change(figures)

    session = run(machine=WITH_VLLM, engine=engine)
    assert session.measurements["rollout.engine_cache"].outcome is Outcome.CONFIRMED
    for code in (FRACTION, SEQUENCES, LENGTH, STATISTICS):
        verdict = session.verdicts[code]
        assert verdict.outcome is Outcome.REFUTED and reason in verdict.reason


def test_two_starts_of_the_same_vllm_say_how_much_differs_without_a_reason() -> None:
    def slower_from_the_second_on(planned: PlannedRollout) -> VllmFigures:
        figures = engine_as_predicted(planned)
        if len(started) == 1:
            return figures
        return replace(figures, used_bytes=figures.used_bytes + 7, step_seconds=(0.0105, 0.0106, 0.0106))

    session = Recorder(machine=WITH_VLLM)
    started = session.engines
    session.engine = slower_from_the_second_on
    part.run(session)
    assert len(started) == 6
    step = session.measurements["rollout.engine_step"]
    assert (step.details["starts"], step.details["repetitions"]) == (2, 6)
    assert (step.details["least"], step.details["most"]) == (0.0100, 0.0106)
    peak = session.measurements["rollout.engine_peak"]
    assert peak.predicted is not None and peak.measured == peak.predicted + 7
    for code in (FRACTION, SEQUENCES, LENGTH, STATISTICS):
        assert session.verdicts[code].outcome is Outcome.CONFIRMED
        assert "repetitions differ by up to 5.8%" in session.verdicts[code].reason


def test_vllm_that_is_interrupted_has_said_what_it_has_said() -> None:
    def until_the_third(planned: PlannedRollout) -> VllmFigures:
        if len(session.engines) > 2:
            raise KeyboardInterrupt
        return engine_as_predicted(planned)

    session = Recorder(machine=WITH_VLLM, engine=until_the_third)
    with pytest.raises(KeyboardInterrupt):
        part.run(session)
    assert session.measurements["rollout.engine_step"].details["starts"] == 1
    assert sum("vLLM's own engine" in each.reason for each in session.verdicts.values()) == 1


def test_vllm_with_fewer_blocks_than_predicted_refutes_the_prediction() -> None:
    def fewer(planned: PlannedRollout) -> VllmFigures:
        return replace(engine_as_predicted(planned), blocks=planned.predicted_blocks * 9 // 10)

    session = run(machine=WITH_VLLM, engine=fewer)
    assert session.measurements["rollout.engine_cache"].outcome is Outcome.REFUTED


def test_the_engine_alone_is_started_where_seconds_alone_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = replace(OPTIONS, seconds_alone=True)
    subject = subject_of(long_responses().workload)
    session = run(machine=WITH_VLLM, engine=engine_as_predicted, options=options, subject=subject)
    assert session.measurements["rollout.engine_step"].predicted
    assert not session.works  # no cache is allocated beside it
    assert len(session.engines) == 1 and session.engines[0].fewer
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    with pytest.raises(NotHereError, match="vLLM is not installed here, so its seconds stay as modelled"):
        part.plan(subject, options)
    monkeypatch.setattr(engine_module, "find_spec", lambda name: name)
    (planned,) = part.plan(long_responses(), options)
    assert "vLLM's own engine" in planned.title and planned.seconds > 60


def test_vllm_is_started_over_the_gpus_that_share_it_where_they_are_here() -> None:
    shared, both = subject_of(grpo_7b()), replace(OPTIONS, processes=2)
    here = run(machine=WITH_VLLM, engine=engine_as_predicted, subject=shared, options=both)
    (work,) = here.engines
    assert (work.gpus, work.arguments["tensor_parallel_size"]) == (2, 2)
    assert here.measurements["rollout.engine_step"].predicted
    alone = run(machine=WITH_VLLM, engine=engine_as_predicted, subject=shared)
    assert not alone.engines
    assert any("vLLM was not started, for want of GPUs" in note for note in alone.notes)


def test_vllm_that_cannot_be_started_is_said() -> None:
    failed = run(machine=WITH_VLLM, engine=Failed(why=CallFailure.ERROR, message="no kernel"))
    assert any("no kernel" in note for note in failed.notes)
    late = run(machine=WITH_VLLM)
    assert "rollout.kv_cache" in late.measurements and any("takes too long" in note for note in late.notes)
    limited = run(machine=WITH_VLLM, options=replace(OPTIONS, memory_limit_bytes=50 * GIB))
    assert "rollout.engine_cache" not in limited.measurements
    assert any("vLLM was not started" in note for note in limited.notes)


def test_planned_seconds_and_an_engine_without_a_cache() -> None:
    (planned,) = part.plan(long_responses(), OPTIONS)
    assert planned.seconds < 15
    subject = subject_of(grpo_7b().with_rollout(engine=RolloutEngine.TRANSFORMERS))
    with pytest.raises(NotHereError, match="transformers"):
        part.plan(subject, OPTIONS)


def latent() -> Workload:
    shape = LatentAttention(
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )
    workload = grpo_7b()
    return structs.replace(workload, model=structs.replace(workload.model, latent=shape, head_dim=192))


def windowed() -> Workload:
    workload = grpo_7b()
    return structs.replace(
        workload, model=structs.replace(workload.model, sliding_window=1024, windowed_layers=14)
    )


def experts() -> Workload:
    return grpo_moe_30b().with_rollout(memory_fraction=0.25)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("make", [latent, windowed, experts], ids=lambda make: make.__name__)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_models_that_are_not_decoded_have_their_cache_allocated(
    make: Callable[[], Workload], device: str
) -> None:
    workload = make()
    assert not_decoded(workload) is not None
    card = workload.cluster.gpu.capacity_bytes
    machine = MACHINE.model_copy(update={"total_bytes": card, "free_bytes": card})
    options = replace(OPTIONS, device=device)
    session = run(subject=subject_of(workload), machine=machine, options=options)
    assert any("the model not decoded" in note for note in session.notes)
    if device == "cpu":
        assert not session.measurements
        (figures,) = worker.measure(session.works, 60.0, device="cpu")
        assert figures.cache_layers == session.works[0].cache.layers and not figures.missing
    else:
        kept = {"rollout.fits", "rollout.kv_cache", "rollout.blocks", "rollout.sequences", "rollout.peak"}
        assert session.measurements.keys() == kept
        assert session.measurements["rollout.kv_cache"].outcome is Outcome.CONFIRMED


def test_on_a_cpu_everything_runs_with_a_tiny_model() -> None:
    session = run(options=CPU)
    assert session.measurements.keys() == {"rollout.attention"}
    assert session.measurements["rollout.attention"].outcome is Outcome.CONFIRMED
    assert session.measurements["rollout.attention"].measured > 0
    assert session.verdicts[FRACTION].outcome is Outcome.NOT_MEASURABLE
    assert "CPU" in session.verdicts[FRACTION].reason and "On a CPU" in session.notes[0]
    work = session.works[0]
    sizes = [size for _, size in work.residents] + [work.weight_bytes, work.activation_bytes]
    assert sum(sizes) + work.cache.layers * work.cache.layer_bytes < 8 * MIB


def test_a_worker_that_runs_out_of_memory_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    work = tiny(planned_rollout(long_responses().workload, AS_PROFILE, CPU).work())
    layer, name = work.cache.layer_bytes, torch.zeros
    made = 0

    def zeros(size: int, **options: Any) -> torch.Tensor:
        nonlocal made
        made += size == layer
        if made > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return name(size, **options)

    monkeypatch.setattr(torch, "zeros", zeros)
    (figures,) = worker.measure((work,), 60.0, device="cpu")
    assert figures == RolloutFigures(
        cache_layers=1, cache_bytes=layer, cache_reserved_bytes=layer, missing="kv_cache"
    )

    def empty(size: int, **options: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "empty", empty)
    (figures,) = worker.measure((work,), 60.0, device="cpu")
    assert figures == RolloutFigures(missing=work.residents[0][0])


@pytest.mark.sampled(6)
def test_a_worker_without_time_runs_the_first_alone() -> None:
    work = tiny(planned_rollout(long_responses().workload, AS_PROFILE, CPU).work())
    assert len(worker.measure((work, work), -1.0, device="cpu")) == 1
    assert len(worker.measure((work, work), 60.0, device="cpu")) == 2


def decoder_of(*, kv_heads: int = 2, group: int = 3, gated: bool = True, layers: int = 2) -> Decoder:
    torch.manual_seed(0)
    shape = DecoderShape(
        layers=layers,
        hidden=24,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=8,
        intermediate=40,
        gated=gated,
        vocab=61,
        vocab_shards=1,
        dtype=DType.FLOAT32,
    )
    decoder = Decoder(shape, torch.empty(2**18, dtype=torch.uint8))
    decoder._values.mul_(20)  # so that attention and MLP decide what comes out
    return decoder


def cache_of(
    decoder: Decoder, *, sequences: int, longest: int, block_tokens: int, dtype: DType = DType.FLOAT32
) -> PagedCache:
    shape, blocks = decoder.shape, -(-longest // block_tokens)
    cache = CacheShape(
        layers=shape.layers,
        blocks=sequences * blocks + 3,
        block_tokens=block_tokens,
        token_bytes=2 * shape.kv_heads * shape.head_dim * dtype.bytes,
        dtype=dtype,
    )
    layers = [torch.zeros(cache.layer_bytes, dtype=torch.uint8) for _ in range(shape.layers)]
    return PagedCache(layers, cache, decoder.shape, sequences, longest)


def dense_logits(decoder: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    """The same decoder over whole sequences at once, with a causal mask; logits of the last token."""
    shape = decoder.shape

    def normed(values: torch.Tensor) -> torch.Tensor:
        return values / (values.square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps).sqrt()

    hidden = decoder._embedding_VH[tokens]
    for layer in decoder._layers:
        qkv = (normed(hidden) @ layer.qkv.T).unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)  # type: ignore[no-untyped-call]
        query, key, value = qkv.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        hidden = hidden + attended.transpose(1, 2).flatten(2) @ layer.output.T
        wide = normed(hidden) @ layer.up.T
        if shape.gated:
            gate, up = wide.chunk(2, dim=-1)
            hidden = hidden + (gate * gate.sigmoid() * up) @ layer.down.T
        else:
            hidden = hidden + functional.gelu(wide) @ layer.down.T
    return normed(hidden[:, -1]) @ decoder._embedding_VH.T


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("kv_heads", "group"), [(2, 3), (1, 1), (3, 2)])
def test_decoding_token_by_token_is_the_dense_model(
    kv_heads: int, group: int, gated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks gathered for two sequences at a time, the last for one."""
    monkeypatch.setattr("tuner.validate.rollout.worker.paged._GATHERED", 2 * 11 * 2 * kv_heads * 8 * 4)
    decoder = decoder_of(kv_heads=kv_heads, group=group, gated=gated)
    tokens = torch.randint(61, (5, 11))
    cache = cache_of(decoder, sequences=5, longest=11, block_tokens=4)
    for position in range(11):
        logits = decoder.logits(tokens[:, position], position, cache)
    expected = dense_logits(decoder, tokens)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert expected.std(0).max() > 0.1  # sequences differ


@given(
    sequences=st.integers(1, 5),
    tokens=st.integers(1, 20),
    block_tokens=st.integers(1, 7),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=30)
def test_what_is_written_is_read(sequences: int, tokens: int, block_tokens: int, seed: int) -> None:
    decoder = decoder_of()
    torch.manual_seed(seed)
    cache = cache_of(decoder, sequences=sequences, longest=tokens, block_tokens=block_tokens)
    assert len(cache.table_SB.unique()) == cache.table_SB.numel()
    keys, values = torch.randn(2, tokens, sequences, 2, 8)
    for position in range(tokens):
        cache.write(1, position, keys[position], values[position])
    for written, read in zip((keys, values), cache.read(1, slice(None), tokens, torch.float32), strict=True):
        assert torch.equal(written.transpose(0, 1), read)
    assert not cache.read(0, slice(None), tokens, torch.float32)[0].any()


@pytest.mark.parametrize("sequences", [3, 20])  # fewer and more than are checked
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.FLOAT8])
def test_the_error_of_attention_is_found_in_every_format(dtype: DType, sequences: int) -> None:
    decoder = decoder_of()
    cache = cache_of(decoder, sequences=sequences, longest=20, block_tokens=4, dtype=dtype)
    error, limit = worker.attention_error(decoder, cache, torch.device("cpu"))
    assert error < limit < 1e-5
    cache.table_SB = cache.table_SB.clone()
    cache.table_SB[0, 1] = cache.table_SB[1, 1]  # two sequences write to one block
    error, _ = worker.attention_error(decoder, cache, torch.device("cpu"))
    assert error > 0.01


def test_a_token_is_drawn_from_the_softmax() -> None:
    decoder = decoder_of()
    cache = cache_of(decoder, sequences=4000, longest=1, block_tokens=1)
    tokens = torch.full((4000,), 7)
    drawn = decoder.step(tokens, 0, cache).bincount(minlength=61) / 4000
    expected = decoder.logits(tokens[:1], 0, cache_of(decoder, sequences=1, longest=1, block_tokens=1))
    assert (drawn - expected.softmax(1)[0]).abs().max() < 0.04
    assert attend(cache, 0, torch.randn(4000, 6, 8), 1).shape == (4000, 6, 8)


def test_logits_of_all_shards_are_put_together() -> None:
    decoder = decoder_of()
    decoder.shape = replace(decoder.shape, vocab_shards=3)
    cache = cache_of(decoder, sequences=500, longest=1, block_tokens=1)
    drawn = decoder.step(torch.zeros(500, dtype=torch.int64), 0, cache)
    assert 61 <= int(drawn.max()) < 183


@pytest.mark.gpu
def test_a_gpu_holds_what_is_planned() -> None:
    total = torch.cuda.mem_get_info()[1]
    machine = MACHINE.model_copy(update={"total_bytes": total, "free_bytes": torch.cuda.mem_get_info()[0]})
    workload = long_responses().workload.with_rollout(memory_fraction=0.3)
    planned = planned_rollout(workload, machine, OPTIONS)
    work = planned.work()
    found = processes.run(part.WORKER, ((work,), 60.0), setup=Setup(device="cuda"), timeout_s=120)
    assert isinstance(found, tuple), found
    (figures,) = found
    assert not figures.missing and not figures.not_decoded
    wanted = work.cache.layers * work.cache.layer_bytes
    assert wanted <= figures.cache_bytes <= 1.01 * wanted
    assert figures.decode is not None and figures.decode.attention_error <= figures.decode.attention_limit
    assert 0 < figures.decode.workspace_bytes <= work.activation_bytes
