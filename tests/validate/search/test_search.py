"""The search, with a device whose limit the test knows."""

import json
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.validate.parts import CONFIG, MACHINE
from tuner.advise import Recommendation
from tuner.consultation.consult import consult, model_config
from tuner.consultation.premises import Premises
from tuner.units import GIB
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.children.servers import ServedFunction
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement, Outcome
from tuner.validate.search import part
from tuner.validate.search.bisection import LEAST_TOKENS, Search, predicted_limit, resized, snapped
from tuner.validate.search.part import told_by_allocator
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Subject
from tuner.validate.training.passes import planned_passes
from tuner.validate.training.settings import ModelSettings, PassFigures, PassSettings

CODE = "BAT002"  # the larger token budget
MOST_TRIES = 14
OPTIONS = Options(device="cuda", processes=1, budget_s=600.0, memory_limit_bytes=None)
MESSAGE = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 44.75 GiB. GPU 0 has a total capacity of "
    "139.80 GiB of which 39.30 GiB is free. Including non-PyTorch memory, this process has 100.49 GiB memory "
    "in use. Of the allocated memory 91.32 GiB is allocated by PyTorch, and 8.38 GiB is reserved by PyTorch "
    "but unallocated."
)
FORWARD_LIMIT = 300_000  # tokens of the log-probability pass


def searched(predicted: int, limit: int, longest: int) -> tuple[Search, int]:
    """A search on a device where up to ``limit`` tokens run; how many tries it took."""
    search = Search(
        predicted, tolerance=0.03, snap=lambda tokens: snapped(tokens, longest), least=LEAST_TOKENS
    )
    tries = 0
    while (size := search.next_size()) is not None and tries < 100:
        tries += 1
        fits_before, fails_before = search.bracket.fits, search.bracket.fails
        assert size > fits_before and (fails_before is None or size < fails_before)
        search.record(size, fits=size <= limit)
        assert search.bracket.fits <= limit
        assert search.bracket.fails is None or search.bracket.fails > limit
    return search, tries


@given(
    limit=st.integers(300, 500_000),
    error=st.floats(-0.6, 1.5),
    longest=st.sampled_from([128, 1000, 4096, 32768]),
)
@settings(max_examples=300, deadline=None)
@example(limit=100_000, error=1.5, longest=4096)
@example(limit=100_000, error=-0.6, longest=4096)
def test_the_limit_is_found_from_any_prediction(limit: int, error: float, longest: int) -> None:
    search, tries = searched(round(limit * (1 + error)), limit, longest)
    assert 0.97 * limit <= search.bracket.fits <= limit
    assert search.bracket.fails is not None and 0.97 * search.bracket.fails <= search.bracket.fits
    assert tries <= MOST_TRIES


@given(limit=st.integers(20_000, 500_000), error=st.floats(-0.0125, 0.0125))
@settings(deadline=None)
def test_two_tries_settle_a_prediction_that_holds(limit: int, error: float) -> None:
    search, tries = searched(round(limit * (1 + error)), limit, 4096)
    assert tries == 2
    assert search.decided is True


@given(limit=st.integers(10_000, 500_000), error=st.floats(0.07, 1.0) | st.floats(-0.6, -0.07))
@settings(deadline=None)
def test_a_prediction_that_does_not_hold_is_refuted(limit: int, error: float) -> None:
    search, _ = searched(round(limit * (1 + error)), limit, 4096)
    assert search.decided is False


def test_everything_fits() -> None:
    search, tries = searched(10_000, 10**9, 4096)
    assert search.bracket.fails is None and search.bracket.fits > 40_000
    assert search.decided is False and tries <= MOST_TRIES


def test_nothing_fits() -> None:
    search, tries = searched(100_000, 100, 4096)
    assert search.bracket.fits == 0
    assert search.bracket.fails == LEAST_TOKENS
    assert tries <= MOST_TRIES


@given(tokens=st.integers(1, 10**6), more=st.integers(0, 5000), longest=st.integers(128, 40_000))
@settings(deadline=None)
def test_sizes_are_sequences_of_one_length(tokens: int, more: int, longest: int) -> None:
    size = snapped(tokens, longest)
    count = -(-size // longest)
    assert size <= tokens and size % count == 0 and size // count <= longest
    assert size <= snapped(tokens + more, longest)
    if tokens >= 50 * count:
        assert size > 0.98 * tokens


@cache
def subject(*overrides: str) -> Subject:
    given = (
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct",
        "trainer.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        *overrides,
    )
    premises = Premises(verl_version="0.9.1", gpu="h200-sxm")
    answer = consult(CONFIG, given, premises)
    return Subject(
        source=CONFIG,
        overrides=given,
        workload=answer.advice.workload,
        advice=answer.advice,
        model_config=model_config(answer.loaded, premises),
    )


def tight_subject() -> Subject:
    """With so small a budget that a larger one is advised."""
    return subject("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096")


def advised(tokens: int) -> Subject:
    """The same with advice for a budget of so many tokens."""
    tight = tight_subject()
    update = tight.workload.actor.update
    batching = structs.replace(update.batching, token_budget=tokens)
    proposal = tight.workload.with_actor(update=structs.replace(update, batching=batching))
    changed = tuple(
        structs.replace(item, finding=structs.replace(item.finding, proposal=proposal), workload=proposal)
        for item in tight.advice.recommendations
        if item.finding.rule.code == CODE
    )
    return replace(tight, advice=structs.replace(tight.advice, recommendations=changed))


@dataclass(kw_only=True)
class Device:
    """A session whose GPU runs up to so many tokens of the update."""

    limit: int
    subject: Subject = field(default_factory=tight_subject)
    options: Options = OPTIONS
    machine: Machine = MACHINE
    left_s: float = 600.0
    most_calls: int = 100
    other_end: Failed | None = None
    measured_before: tuple[str, ...] = ()  # recommendations
    calls: list[PassSettings] = field(default_factory=list)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    verdicts: list[JudgedRecommendation] = field(default_factory=list)
    cases: list[Any] = field(default_factory=list)

    def call(self, function: str, model: Any, asked: PassSettings, **options: Any) -> PassFigures | Failed:
        assert function == part.WORKER and options["world"] == self.options.processes
        assert model.config == self.subject.model_config
        if len(self.calls) == self.most_calls:
            raise OutOfBudgetError("the budget is spent")
        self.calls.append(asked)
        if self.other_end is not None:
            return self.other_end
        if asked.tokens > (self.limit if asked.training else FORWARD_LIMIT):
            return Failed(why=CallFailure.OUT_OF_MEMORY, message=MESSAGE)
        return PassFigures(
            engine="tuner",
            allocated_before_bytes=20 * GIB,
            peak_allocated_bytes=100 * GIB,
            peak_requested_bytes=None,
            peak_reserved_bytes=101 * GIB,
            non_torch_bytes=GIB,
        )

    def add(self, measurement: Measurement) -> None:
        self.measurements[measurement.name] = measurement

    def add_case(self, case: Any) -> None:
        self.cases.append(case)

    def judge(self, judged: JudgedRecommendation) -> None:
        self.verdicts.append(judged)

    def is_measured(self, found: Recommendation) -> bool:
        return found.finding.rule.code in self.measured_before

    def note(self, text: str) -> None:
        raise AssertionError(text)

    @property
    def updates(self) -> list[int]:
        return [asked.tokens for asked in self.calls if asked.training]


def predicted(device: Device) -> int:
    passes = planned_passes(device.subject.workload, processes=1)
    limit = predicted_limit(
        passes[0], device.machine.free_bytes, device.subject.workload.batch.sequence_tokens
    )
    assert limit is not None
    return limit


def test_the_predicted_limit_is_the_models() -> None:
    device = Device(limit=0)
    (update, *_), longest = planned_passes(device.subject.workload, processes=1), 4096
    limit = predicted(device)
    free = device.machine.free_bytes
    assert resized(update, limit, longest).predicted.peak_bytes <= free
    assert resized(update, round(1.005 * limit), longest).predicted.peak_bytes > free


@pytest.mark.parametrize(
    ("share", "outcome"), [(1.0, Outcome.CONFIRMED), (0.8, Outcome.REFUTED), (1.25, Outcome.REFUTED)]
)
def test_the_measured_limit_beside_the_predicted_one(share: float, outcome: Outcome) -> None:
    limit = round(share * predicted(Device(limit=0)))
    device = Device(limit=limit)
    part.run(device)
    found = device.measurements["search.token_budget"]
    assert 0.97 * limit <= found.measured <= limit
    assert found.outcome is outcome
    fails = float(found.details["smallest_that_failed"])
    assert limit < fails and 0.97 * fails <= found.measured
    assert found.details["failed_unallocated_bytes"] == round(8.38 * GIB)
    assert max(tokens for tokens in device.updates if tokens <= limit) == found.measured
    assert device.measurements["search.peak"].outcome is not None
    assert len(device.cases) == 2  # update and log-probabilities, each at its limit


def test_a_memory_limit_lowers_what_is_searched_for() -> None:
    whole, half = Device(limit=10**9, most_calls=1), Device(limit=10**9, most_calls=1)
    half.options = replace(half.options, memory_limit_bytes=half.machine.free_bytes // 2)
    for device in (whole, half):
        with pytest.raises(OutOfBudgetError):
            part.run(device)
    assert half.updates[0] < 0.5 * whole.updates[0]


def test_what_is_known_when_the_budget_ends() -> None:
    device = Device(limit=10**9, most_calls=1)
    with pytest.raises(OutOfBudgetError):
        part.run(device)
    found = device.measurements["search.token_budget"]
    assert found.measured == device.updates[0]
    assert found.outcome is None and "budget" in str(found.details["not_judged"])


def test_a_bracket_that_is_too_wide_is_not_judged() -> None:
    """Far off, and the budget ends between two sizes."""
    limit = round(0.7 * predicted(Device(limit=0)))
    device = Device(limit=limit, most_calls=5)
    with pytest.raises(OutOfBudgetError):
        part.run(device)
    found = device.measurements["search.token_budget"]
    assert found.measured <= limit < float(found.details["smallest_that_failed"])
    assert found.outcome is None


def test_what_the_allocator_says() -> None:
    assert told_by_allocator(MESSAGE) == {
        "failed_request_bytes": round(44.75 * GIB),
        "failed_free_bytes": round(39.3 * GIB),
        "failed_allocated_bytes": round(91.32 * GIB),
        "failed_unallocated_bytes": round(8.38 * GIB),
    }
    assert told_by_allocator("NCCL error: out of memory") == {}


def test_an_error_is_no_limit() -> None:
    device = Device(limit=0, other_end=Failed(why=CallFailure.ERROR, message="ValueError: no such layer"))
    with pytest.raises(part.TryFailedError, match="no such layer"):
        part.run(device)
    assert not device.measurements and len(device.calls) == 1


def test_a_timeout_ends_the_part_as_the_budget_does() -> None:
    device = Device(limit=0, other_end=Failed(why=CallFailure.TIMEOUT, message="no result after 60 s"))
    with pytest.raises(OutOfBudgetError, match="no result after"):
        part.run(device)


def recommended(device: Device) -> tuple[JudgedRecommendation, ...]:
    return tuple(found for found in device.verdicts if found.code == CODE)


def test_a_recommended_budget_that_runs_is_confirmed() -> None:
    device = Device(limit=predicted(Device(limit=0)))
    part.run(device)
    (found,) = recommended(device)
    assert found.outcome is Outcome.CONFIRMED
    assert "100.0 GiB" in found.reason and "longest sequence more" in found.reason


def test_a_recommended_budget_that_another_part_ran_is_not_tried_again() -> None:
    limit = predicted(Device(limit=0))
    before, after = Device(limit=limit), Device(limit=limit, measured_before=(CODE,))
    part.run(before)
    part.run(after)
    (found,) = recommended(after)
    assert found.outcome is Outcome.CONFIRMED and "did; one longest sequence more" in found.reason
    assert len(after.updates) == len(before.updates) - 1


def test_what_ran_decides_about_fewer_tokens_when_the_budget_ends() -> None:
    device = Device(limit=predicted(Device(limit=0)), most_calls=1)
    with pytest.raises(OutOfBudgetError):
        part.run(device)
    (found,) = recommended(device)
    assert found.outcome is Outcome.CONFIRMED and "tokens run, as" in found.reason


def test_a_recommended_budget_that_does_not_run_is_refuted() -> None:
    device = Device(limit=9000)
    part.run(device)
    (found,) = recommended(device)
    assert found.outcome is Outcome.REFUTED and "out of memory" in found.reason


def test_a_budget_that_these_gpus_cannot_hold_is_not_judged() -> None:
    """With a fifth of the memory the recommended size was never promised here."""
    device = Device(limit=20_000, subject=advised(73_728))
    device.options = replace(device.options, memory_limit_bytes=50 * GIB)
    part.run(device)
    (found,) = recommended(device)
    assert found.outcome is Outcome.NOT_MEASURABLE


def test_not_here() -> None:
    cpu = Options(device="cpu", processes=1, budget_s=60.0, memory_limit_bytes=None)
    with pytest.raises(NotHereError, match="CPU"):
        part.plan(subject(), cpu)
    small = Device(limit=0)
    small.options = replace(small.options, memory_limit_bytes=2 * GIB)
    with pytest.raises(NotHereError, match=r"of a GPU with 128 tokens"):
        part.run(small)
    seeing = subject("actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-3B-Instruct")
    with pytest.raises(NotHereError, match="images"):
        part.plan(seeing, OPTIONS)


def test_the_plan_names_both_passes() -> None:
    planned = part.plan(subject(), Device(limit=0).options)
    assert [one.title.split(",")[0] for one in planned] == [
        "search: largest micro-batch of update_actor",
        "search: largest micro-batch of old_log_prob",
    ]
    assert all(one.seconds > 10 for one in planned)


TINY = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


def tiny_subject(folder: Path, config: dict[str, Any]) -> Subject:
    """The same job with another model."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    overrides = (*subject().overrides, f"actor_rollout_ref.model.path={folder}")
    premises = Premises(verl_version="0.9.1", gpu="h200-sxm")
    answer = consult(CONFIG, overrides, premises)
    return Subject(
        source=CONFIG,
        overrides=overrides,
        workload=answer.advice.workload,
        advice=answer.advice,
        model_config=model_config(answer.loaded, premises),
    )


@pytest.mark.sampled(4)
@pytest.mark.slow
def test_one_try_in_its_own_process(tmp_path: Path) -> None:
    here = tiny_subject(tmp_path, TINY)
    one = resized(planned_passes(here.workload, processes=1)[0], 200, 4096)
    asked = replace(one.settings, first_tokens=64)
    assert asked.micro_batches == 2 and asked.tokens == 200

    def tried(model: dict[str, Any]) -> Any:
        arguments = (ModelSettings(config=model), asked)
        return processes.run(part.WORKER, arguments, setup=Setup(device="cpu"), timeout_s=300)

    found = tried(here.model_config)
    assert isinstance(found, PassFigures), found
    assert found.peak_allocated_bytes is None and found.seconds == ()
    failed = tried(here.model_config | {"model_type": "no_such_model"})
    assert isinstance(failed, Failed) and failed.why is CallFailure.ERROR


@pytest.mark.gpu
def test_a_real_limit(tmp_path: Path) -> None:
    """On a GPU, with a memory limit and a model so small that a try takes seconds."""
    config = TINY | {"hidden_size": 512, "intermediate_size": 1024, "vocab_size": 64_000}
    device = Device(limit=0, subject=tiny_subject(tmp_path, config))
    limit = 12 * GIB
    device.options = replace(device.options, memory_limit_bytes=limit)

    def call(worker: ServedFunction, *arguments: Any, **options: Any) -> Any:
        device.calls.append(arguments[1])
        setup = Setup(device="cuda", memory_limit_bytes=limit)
        return processes.run(worker, arguments, setup=setup, timeout_s=120)

    device.call = call  # type: ignore[method-assign]
    part.run(device)
    found = device.measurements["search.token_budget"]
    assert found.outcome is Outcome.CONFIRMED, found
    assert len(device.updates) <= 4
