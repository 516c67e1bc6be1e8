from math import ceil

import pytest
from msgspec.structs import replace

from tests.memory.formulas import evaluate
from tests.rules.generate import workloads
from tests.workloads import QWEN3_30B_A3B, QWEN25_7B, ppo_7b
from tuner.memory import estimate
from tuner.memory.derivations import derivations, layer_parts
from tuner.memory.ledger.recorded_numbers import RecordedNumber, derivation, recorded_model, recorded_workload
from tuner.workload import Service, ServiceRole

pytestmark = pytest.mark.sampled(6)

A, B = RecordedNumber.symbol("a", 7), RecordedNumber.symbol("b", 5)


@pytest.mark.parametrize(
    ("number", "value", "formula"),
    [
        (A + B, 12, "a + b"),
        (A + A, 14, "2 a"),
        (3 * A - 2 * B + 1, 12, "3 a - 2 b + 1"),
        (2 * (A + B), 24, "2 (a + b)"),
        (A * (B + 1) * 4, 168, "4 a (b + 1)"),
        ((A + B) * (A - B), 24, "(a + b) (a - b)"),
        (5 - A, -2, "5 - a"),
        (A - A, 0, "0"),
        (A * (B - B), 0, "0"),
        (A // B, 1, "floor(a / b)"),
        (-(-A // B), 2, "ceil(a / b)"),
        (ceil(A / B), 2, "ceil(a / b)"),
        (ceil(A * B / 2), 18, "ceil(a b / 2)"),
        (2 * ceil((A + B) / (A - B)), 12, "2 ceil((a + b) / (a - b))"),
        (ceil(100 / A), 15, "ceil(100 / a)"),
        (ceil(A / 1), 7, "a"),
        (sum([A, B, A]), 19, "2 a + b"),
        (max(A, B), 7, "a"),
        (min(4, B), 4, "4"),
    ],
)
def test_arithmetic_is_remembered(number: int, value: int, formula: str) -> None:
    found = derivation(number)
    assert (found.value, found.formula) == (value, formula)
    assert evaluate(found.formula, found.symbols) == value


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (A * 0.5, 3.5),
        (0.5 * A, 3.5),
        (A + 0.5, 7.5),
        (0.5 - A, -6.5),
        (A // 2.0, 3.0),
        (A / B, 1.4),
        (A / 2.0, 3.5),
    ],
)
def test_with_fractions_the_result_is_a_plain_number(number: float, value: float) -> None:
    assert number == value
    assert not isinstance(number, int)


def test_a_recorded_number_is_as_equal_as_its_hash_says() -> None:
    assert A == 7
    assert hash(A) == hash(7)
    assert A in {7}


def test_a_recorded_model_is_not_taken_from_a_cache_of_plain_ones() -> None:
    recorded = recorded_model(QWEN25_7B)
    assert recorded != QWEN25_7B
    assert recorded not in {QWEN25_7B}
    assert recorded == recorded_model(QWEN25_7B)


def test_a_model_is_counted_in_its_dimensions() -> None:
    layer = derivation(recorded_model(QWEN25_7B).largest_layer_parameters)
    assert layer.formula == "H (2 h d + 2 k d) + h d + 2 k d + 3 H I + 2 H"
    assert dict(layer.symbols) == {"H": 3584, "h": 28, "d": 128, "k": 4, "I": 18944}
    assert layer.value == QWEN25_7B.largest_layer_parameters
    experts = derivation(recorded_model(QWEN3_30B_A3B).expert_parameters)
    assert experts.formula == "3 E H I_e"


def test_recording_changes_no_number() -> None:
    for workload in workloads(40, seed=31):
        plain, recorded = estimate(workload), estimate(recorded_workload(workload))
        for phase, same in zip(plain.phases, recorded.phases, strict=True):
            for moment, again in zip(phase.moments, same.moments, strict=True):
                assert [term.bytes for term in moment.terms] == [term.bytes for term in again.terms]
        assert plain == estimate(workload)


def test_every_derivation_gives_its_number() -> None:
    for workload in workloads(40, seed=32):
        found = derivations(workload)
        assert {"N", "V_p", "N_p"} & {name for name, _ in found}
        for (name, number), derived in found.items():
            assert evaluate(derived.formula, derived.symbols) == number == derived.value, name
            assert derived.symbols


def test_the_parts_of_a_layer_add_up() -> None:
    for workload in workloads(40, seed=33):
        parts = layer_parts(workload)
        saved = {entry for entry in derivations(workload) if entry[0] == "a_l"}
        assert saved <= set(parts), saved
        for (_, number), addends in parts.items():
            assert sum(part.derivation.value for part in addends) == number
            for part in addends:
                derived = part.derivation
                assert evaluate(derived.formula, derived.symbols) == derived.value


def test_every_model_of_a_job_is_counted_in_its_dimensions() -> None:
    judge = Service(
        role=ServiceRole.REWARD, name="judge", model=QWEN25_7B, gpus=8, shares_gpus=True, server=None
    )
    away = Service(role=ServiceRole.REWARD, name="away", model=None, gpus=8, shares_gpus=False, server=None)
    recorded = recorded_workload(replace(ppo_7b(), services=(judge, away)))
    assert recorded.critic is not None
    models = (recorded.model, recorded.critic.model, recorded.services[0].model)
    assert all(model is not None and isinstance(model.hidden, RecordedNumber) for model in models)
    assert recorded.services[1].model is None
