"""The machine part: what it claims, and what refutes a claim."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import fields

from tests.validate.recorder import Recorder, machine, options, subject
from tests.workloads import H200, grpo_7b
from tuner.hardware import Gpu, MeasuredGpu
from tuner.memory.process.overhead import CONTEXT, CUBLAS_WORKSPACES
from tuner.timing.corrections import OperatorFamily
from tuner.units import GIGA, MIB, TERA
from tuner.validate.children.call import CallFailure, Failed
from tuner.validate.machine import families, part
from tuner.validate.machine.readings import MachineReadings, OperatorRate, OperatorSizes, ProcessBytes, Rate
from tuner.validate.report.profile import PROFILE_FIGURES
from tuner.validate.report.schema import Outcome
from tuner.validate.session import NotHereError


def rate(per_s: float) -> Rate:
    return Rate(per_s=per_s, slowest_per_s=0.9 * per_s, repetitions=9, size=8192)


# As recorded on an H200, docs/validation/data/overhead-h200.json.
READINGS = MachineReadings(
    driver_total_bytes=143771 * MIB,
    usable_bytes=143156 * MIB,
    held=ProcessBytes(
        first_tensor=619 * MIB,
        matrix_product=685 * MIB,
        backward=749 * MIB,
        attention=767 * MIB,
        workspaces=64 * MIB,
    ),
    product=rate(700 * TERA),
    memory=rate(4200 * GIGA),
    to_device=rate(55 * GIGA),
    to_host=rate(52 * GIGA),
)
OF_AN_ENGINE = (OperatorFamily.ENGINE, OperatorFamily.ENGINE_SEQUENCE)
MEASURED_HERE = tuple(family for family in OperatorFamily if family not in OF_AN_ENGINE)
FACTORS = {family.value: 0.9 for family in MEASURED_HERE}
AS_READ = MeasuredGpu(date="", versions=(), dense_bf16_flop_per_s=700 * TERA, memory_bytes_per_s=4200 * GIGA)
MEASURED = MeasuredGpu(
    date="2026-11-21",
    versions=(("torch", "2.11.0"),),
    usable_bytes=143156 * MIB,
    context_bytes=767 * MIB,
    memory_bytes_per_s=4200 * GIGA,
    dense_bf16_flop_per_s=700 * TERA,
    host_bytes_per_s=52 * GIGA,
    **FACTORS,
)


def as_modelled(share: float = 1.0, gpu: Gpu = H200) -> tuple[OperatorRate, ...]:
    """Rates of operators as the model has them on the card that was read, times a share."""
    sizes = families.operator_sizes(grpo_7b(gpu=gpu).model)
    card = structs.replace(gpu, measured=AS_READ)
    shapes = [
        (family, tokens, backward)
        for family, all_tokens, directions in (
            ("products", sizes.rows, (False, True)),
            ("attention", sizes.lengths, (False, True)),
            ("norm", sizes.rows, (False,)),
            ("gate", sizes.rows, (False,)),
            ("head", sizes.rows[:1], (False, True)),
            ("host", (64,), (False,)),
        )
        for tokens in all_tokens
        for backward in directions
    ]
    bare = [
        OperatorRate(family=family, tokens=tokens, backward=backward, per_s=1.0)
        for family, tokens, backward in shapes
    ]
    return tuple(replace(one, per_s=share * families.modelled(one, sizes, card)) for one in bare)


def run(
    gpu: Gpu = H200,
    readings: object = READINGS,
    *,
    used_bytes: int = 0,
    operators: object = None,
) -> Recorder:
    session = Recorder(
        answers=[readings, as_modelled(0.9) if operators is None else operators],
        subject=subject(grpo_7b(gpu=gpu, gpus_per_node=1)),
        machine=machine(used_bytes=used_bytes),
    )
    part.run(session)
    assert [call[0] for call in session.calls][:1] == [part.WORKER]
    return session


def test_a_card_as_its_profile_says_is_confirmed_and_its_rates_claim_nothing() -> None:
    found = run().measurements
    confirmed = {name for name, one in found.items() if one.outcome is Outcome.CONFIRMED}
    assert confirmed == {"memory.total", "process.context", "process.workspaces"}
    assert {name for name, one in found.items() if one.outcome is None} == {
        "memory.usable",
        "rate.product",
        "rate.memory",
        "rate.host",
        *(name for name in found if name.startswith("factor.")),
    }
    assert found["process.context"].predicted == CONTEXT.typical
    assert found["process.workspaces"].predicted == CUBLAS_WORKSPACES.typical
    assert found["rate.host"].measured == 52 * GIGA  # the slower way
    assert found["rate.product"].details["share_of_datasheet"] == pytest.approx(700 / 989.4)


@given(factor=st.floats(0.5, 2.0).filter(lambda factor: abs(abs(factor - 1) - 0.01) > 1e-6))
def test_a_profile_that_lies_about_memory_is_refuted(factor: float) -> None:
    lying = structs.replace(H200, memory_bytes=round(factor * H200.memory_bytes))
    outcome = run(lying).measurements["memory.total"].outcome
    assert outcome is (Outcome.CONFIRMED if abs(factor - 1) < 0.01 else Outcome.REFUTED)


def test_measured_figures_of_a_profile_are_held_against_the_card() -> None:
    same = run(structs.replace(H200, measured=MEASURED)).measurements
    assert {one.outcome for one in same.values()} == {Outcome.CONFIRMED}
    assert same["process.context"].predicted == MEASURED.context_bytes

    lies = structs.replace(
        MEASURED,
        usable_bytes=MEASURED.usable_bytes * 6 // 5,
        context_bytes=MEASURED.context_bytes // 2,
        memory_bytes_per_s=1.2 * 4200 * GIGA,
        dense_bf16_flop_per_s=1.2 * 700 * TERA,
        host_bytes_per_s=1.2 * 52 * GIGA,
        **{name: 1.2 * factor for name, factor in FACTORS.items()},
    )
    found = run(structs.replace(H200, measured=lies)).measurements
    refuted = {name for name, one in found.items() if one.outcome is Outcome.REFUTED}
    others = {"rate.link", *(PROFILE_FIGURES[family.value] for family in OF_AN_ENGINE)}  # of other parts
    assert refuted == set(PROFILE_FIGURES.values()) - others
    assert found["memory.total"].outcome is Outcome.CONFIRMED


def test_what_others_hold_is_taken_off_and_nothing_is_claimed_beside_them() -> None:
    others = 20 * 1024 * MIB
    held = ProcessBytes(
        first_tensor=others + 619 * MIB,
        matrix_product=others + 685 * MIB,
        backward=others + 749 * MIB,
        attention=others + 767 * MIB,
        workspaces=64 * MIB,
    )
    context = run(readings=replace(READINGS, held=held), used_bytes=others).measurements["process.context"]
    assert context.measured == 767 * MIB
    assert context.outcome is None
    assert context.details["others_bytes"] == others


def test_without_nvml_the_drivers_total_is_left_out() -> None:
    found = run(readings=replace(READINGS, driver_total_bytes=None)).measurements
    assert "memory.total" not in found
    assert "memory.usable" in found


def test_a_call_that_fails_is_said() -> None:
    session = run(readings=Failed(why=CallFailure.OUT_OF_MEMORY, message="CUDA out of memory"))
    assert not session.measurements
    assert "CUDA out of memory" in session.notes[0]


def test_every_figure_of_a_profile_has_a_measurement() -> None:
    figures = {field.name for field in fields(MeasuredGpu)} - {"date", "versions"}
    assert PROFILE_FIGURES.keys() == figures


def test_a_cpu_has_no_rates() -> None:
    with pytest.raises(NotHereError, match="no speed"):
        part.plan(subject(), options(device="cpu"))
    assert sum(planned.seconds for planned in part.plan(subject(), options())) < 15


@given(shares=st.lists(st.floats(0.2, 5.0), min_size=5, max_size=5))
def test_a_familys_factor_is_the_geometric_mean_of_its_shapes(shares: list[float]) -> None:
    by_family = dict(zip(MEASURED_HERE, shares, strict=True))
    rates = [
        replace(
            rate, per_s=rate.per_s * by_family[families.FAMILIES[rate.family]] * (2 if rate.backward else 1)
        )
        for rate in as_modelled()
    ]
    found = run(operators=tuple(rates)).measurements
    for family, share in by_family.items():
        both_ways = family in (OperatorFamily.PRODUCTS, OperatorFamily.ATTENTION, OperatorFamily.HEAD)
        expected = share * (2**0.5 if both_ways else 1)  # half of its shapes reach twice as much
        assert found[PROFILE_FIGURES[family.value]].measured == pytest.approx(expected)


def test_operators_that_fail_leave_the_rest() -> None:
    failed = Failed(why=CallFailure.OUT_OF_MEMORY, message="CUDA out of memory")
    session = run(operators=failed)
    assert "rate.product" in session.measurements
    assert not any(name.startswith("factor.") for name in session.measurements)
    assert "CUDA out of memory" in session.notes[0]


def test_the_operators_worker_runs_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.validate.machine.worker import operators

    monkeypatch.setattr(operators, "_FIGURE_S", 0.001)
    sizes = OperatorSizes(
        hidden=32,
        intermediate=64,
        heads_width=32,
        kv_width=16,
        head_dim=16,
        vocab=96,
        rows=(8, 16),
        lengths=(8, 16),
    )
    rates = operators.measure(sizes, device="cpu")
    assert {rate.family for rate in rates} >= families.FAMILIES.keys() - {"host"}
    assert all(rate.per_s > 0 for rate in rates)
    assert {rate.tokens for rate in rates if rate.family == "products"} == {8, 16}
    found = {one.name for one in families.factors(rates, sizes, H200)}
    assert found >= {
        PROFILE_FIGURES[family.value] for family in MEASURED_HERE if family is not OperatorFamily.HOST
    }


@pytest.mark.gpu
def test_a_gpu_is_read() -> None:
    from tuner.validate.children import processes
    from tuner.validate.children.call import Setup

    found = processes.run(part.WORKER, (), setup=Setup(device="cuda"), timeout_s=60)
    assert isinstance(found, MachineReadings), found
    assert found.driver_total_bytes is None or found.usable_bytes <= found.driver_total_bytes
    held = found.held
    assert 0 < held.first_tensor <= held.matrix_product <= held.backward <= held.attention
    assert 0 < held.workspaces < 200 * MIB
    assert min(found.to_device.per_s, found.to_host.per_s) < found.memory.per_s
