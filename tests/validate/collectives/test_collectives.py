"""The collectives part: right values between processes, and what is made of times and bytes."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tests.memory.measured import RECORDED
from tests.validate.recorder import Recorder, machine, options, subject
from tests.workloads import H200, QWEN25_7B, grpo_7b
from tuner.hardware import MeasuredGpu
from tuner.memory.fsdp.order import UnitOrder
from tuner.models import shape_from_config
from tuner.units import GIB, GIGA, MIB
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.children.servers import ServedFunction
from tuner.validate.collectives import part, switches
from tuner.validate.collectives.readings import CollectiveReadings, CommunicatorBytes, Exchanged
from tuner.validate.report.schema import Measurement, Outcome
from tuner.validate.session import NotHereError
from tuner.validate.training.settings import PassFailed, PassFigures
from tuner.workload import Workload

CPU = Setup(device="cpu")
LONG = 120.0
FAILED = Failed(why=CallFailure.ERROR, message="it broke")


def exchanged(size: int, seconds: float | None, *, wrong: float = 0.0) -> Exchanged:
    return Exchanged(whole_bytes=size, seconds=seconds, wrong_share=wrong)


READINGS = CollectiveReadings(
    held=None,
    latency_s=0.001,
    gathers={"layer": exchanged(8 * 10**9, 0.021)},
    scatters={"layer": exchanged(16 * 10**9, 0.04)},
    exchange=exchanged(8 * 10**9, 0.01),
)


def found(readings: CollectiveReadings, gpu: Any = H200, ranks: int = 2) -> dict[str, Measurement]:
    return {one.name: one for one in part.measurements(readings, gpu, ranks)}


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "heads"), [(2, 4), (3, 6)])
def test_values_are_right_between_processes(ranks: int, heads: int) -> None:
    units = {"layer": 1001, "root": 77}  # shares are rounded up
    result = processes.run(part.WORKER, (units, (5, heads, 3)), setup=CPU, timeout_s=LONG, world=ranks)
    assert isinstance(result, CollectiveReadings), result
    share = -(-1001 // ranks)
    assert result.gathers["layer"] == exchanged(2 * ranks * share, None)
    assert result.scatters["layer"] == exchanged(4 * ranks * share, None)
    assert result.exchange == exchanged(2 * ranks * 5 * heads * 3, None)
    assert (result.held, result.latency_s) == (None, None)
    assert found(result, ranks=ranks).keys() == {"collectives.wrong"}  # no speed on a CPU


@pytest.mark.slow
def test_attention_over_exchanged_heads_is_that_of_the_whole_sequence() -> None:
    worker = ServedFunction("tests.validate.collectives.ulysses", "largest_difference")
    difference = processes.run(worker, (6, 4, 8), setup=CPU, timeout_s=LONG, world=2)
    assert difference < 1e-5


def test_recorded_communicators_are_confirmed_and_others_refuted() -> None:
    recorded = json.loads((RECORDED / "overhead-4xh200-communicators.json").read_text())
    for probe in recorded["probes"]:
        steps = {step["step"]: step["non_torch_bytes"] for step in probe["steps"]}
        before = steps["init_process_group"]
        if probe["gpus"] == 1:
            continue
        held = CommunicatorBytes(
            first=steps["first all_reduce (1 element)"] - before,
            exchange=steps["all_to_all"] - steps["reduce_scatter"],
            further=steps["its first all_reduce (1 element)"] - steps["second group of all ranks"],
        )
        here = found(replace(READINGS, held=held), ranks=probe["gpus"])
        assert [here[f"nccl.{name}"].outcome for name in ("first", "exchange", "further")] == [
            Outcome.CONFIRMED
        ] * 3
        assert here["nccl.further"].predicted == held.further
        larger = CommunicatorBytes(first=4 * GIB, exchange=0, further=4 * GIB)
        beyond = found(replace(READINGS, held=larger), ranks=probe["gpus"])
        assert {beyond[f"nccl.{name}"].outcome for name in ("first", "exchange", "further")} == {
            Outcome.REFUTED
        }


def test_bandwidths_are_of_the_bytes_that_one_gpu_sends() -> None:
    here = found(READINGS)
    assert here["all_gather.layer"].measured == pytest.approx(4e9 / 0.021)
    assert here["reduce_scatter.layer"].measured == pytest.approx(8e9 / 0.04)
    assert here["ulysses.exchange"].measured == pytest.approx(2e9 / 0.01)  # half of its half
    assert here["rate.link"].measured == pytest.approx(4e9 / 0.02)  # without the start
    assert here["collective.start"].measured == 0.001
    assert {here[name].outcome for name in here.keys() - {"collectives.wrong"}} == {None}
    four = found(READINGS, ranks=4)
    assert four["all_gather.layer"].measured == pytest.approx(6e9 / 0.021)
    assert four["ulysses.exchange"].measured == pytest.approx(1.5e9 / 0.01)


@pytest.mark.parametrize(
    ("before", "outcome"), [(200 * GIGA, Outcome.CONFIRMED), (240 * GIGA, Outcome.REFUTED)]
)
def test_a_link_that_was_measured_before_is_held_against_this_one(before: float, outcome: Outcome) -> None:
    gpu = structs.replace(H200, measured=MeasuredGpu(date="", versions=(), link_bytes_per_s=before))
    assert found(READINGS, gpu)["rate.link"].outcome is outcome


def test_one_wrong_value_is_enough() -> None:
    assert found(READINGS)["collectives.wrong"].outcome is Outcome.CONFIRMED
    wrong = replace(READINGS, scatters={"layer": exchanged(16, None, wrong=1e-9)})
    assert found(wrong)["collectives.wrong"].outcome is Outcome.REFUTED


def run(answers: list[Any], **given: Any) -> Recorder:
    session = Recorder(answers=answers, **given)
    part.run(session)
    return session


def test_sizes_are_this_models() -> None:
    workload = grpo_7b(gpu=H200, gpus_per_node=2)
    session = run([FAILED, FAILED])
    worker, (units, heads), settings = session.calls[0]
    known = UnitOrder(workload.model, workload.actor.engine)
    assert worker == part.WORKER
    assert settings == {"world": 2}
    assert units == {"layer": QWEN25_7B.layer_parameters(0), "root": known.head}
    assert heads[1:] == (QWEN25_7B.heads, QWEN25_7B.head_dim)
    assert len(session.notes) == 2
    assert all("it broke" in note for note in session.notes)


def test_what_does_not_fit_is_cut_and_said() -> None:
    few = options(memory_limit_bytes=16 * 10**8)
    session = run([FAILED, FAILED], options=few)
    units, _ = session.calls[0][1]
    assert units == {"layer": 10**8, "root": 10**8}
    assert "100,000,000" in session.notes[0]


def test_heads_that_cannot_be_shared_out_are_left_out() -> None:
    session = run([FAILED, FAILED], options=options(processes=3))
    assert session.calls[0][1][1] is None
    assert "28 heads" in session.notes[0]


def test_one_process_exchanges_nothing() -> None:
    with pytest.raises(NotHereError, match="nothing is exchanged"):
        part.plan(subject(), options(processes=1))
    assert len(part.plan(subject(), options())) == 2


# -- prefetching and Ulysses ------------------------------------------------------------------


def figures(peak: int | None, *seconds: float) -> PassFigures:
    return PassFigures(
        engine="tuner",
        allocated_before_bytes=None if peak is None else 0,
        peak_allocated_bytes=peak,
        peak_requested_bytes=peak,
        peak_reserved_bytes=peak,
        non_torch_bytes=None if peak is None else 0,
        seconds=seconds,
    )


def switched(workload: Workload | None = None, **given: Any) -> dict[str, switches.Switch]:
    return {one.name: one for one in switches.switches(subject(workload), options(**given))}


def told(name: str, off: PassFigures, on: PassFigures, *, timed: bool) -> dict[str, Measurement]:
    one = switched()[name]
    seen = {one.off.settings: off, one.on.settings: on}
    return {each.name: each for each in switches.measurements((one,), seen, timed=timed)}


@pytest.mark.parametrize("name", ["prefetch", "ulysses"])
def test_the_gain_is_of_the_medians(name: str) -> None:
    seen = [figures(None, 2.0, 1.0, 9.0), figures(None, 1.5, 1.5, 1.0)]
    result = told(name, *seen, timed=True)
    assert result.keys() == {f"{name}_off.seconds", f"{name}_on.seconds", f"{name}.gain"}
    assert result[f"{name}.gain"].measured == pytest.approx(0.25)
    assert result[f"{name}_off.seconds"].details["most"] == 9.0
    assert told(name, *seen, timed=False) == {}


@pytest.mark.parametrize("name", ["prefetch", "ulysses"])
def test_peaks_are_held_against_the_prediction_of_each(name: str) -> None:
    one = switched()[name]
    predicted = [each.compared(figures(10 * GIB)).predicted_peak for each in (one.off, one.on)]
    result = told(name, *(figures(peak) for peak in predicted), timed=False)
    assert list(result) == [f"{name}_off.peak", f"{name}_on.peak"]
    assert {each.outcome for each in result.values()} == {Outcome.CONFIRMED}
    off = told(name, *(figures(round(1.1 * peak)) for peak in predicted), timed=False)
    assert {each.outcome for each in off.values()} == {Outcome.REFUTED}


def test_ulysses_is_measured_over_the_fewest_gpus_or_as_configured() -> None:
    def ranks(workload: Workload | None = None, **given: Any) -> int:
        found = switched(workload, **given)
        return found["ulysses"].on.case.ulysses if "ulysses" in found else 1

    assert ranks() == 2
    assert ranks(processes=4) == 2
    assert ranks(processes=3) == 1  # 28 heads
    workload = grpo_7b(gpu=H200, gpus_per_node=4)
    four = workload.with_actor_engine(parallel=structs.replace(workload.actor.engine.parallel, ulysses=4))
    assert ranks(four, processes=4) == 4
    one = switched(four, processes=4)["ulysses"]
    assert one.on.predicted.peak_bytes > one.off.predicted.peak_bytes  # attention's output is there twice
    assert one.off.case.tokens == one.on.case.tokens
    assert one.off.settings.sequences * 4 == one.on.settings.sequences


def test_an_update_that_runs_for_two_switches_runs_once() -> None:
    session = run([READINGS, FAILED])
    (_, (_, engines), _) = session.calls[1]
    assert [len(passes) for passes in engines] == [1, 1, 1]
    assert [(one.engine.forward_prefetch, one.engine.parallel.ulysses) for (one,) in engines] == [
        (False, 1),
        (True, 1),
        (False, 2),
    ]


def test_a_switch_that_fails_leaves_the_others() -> None:
    broken = (PassFailed(message="it broke"),)
    session = run([READINGS, ((figures(None, 2.0),), (figures(None, 1.0),), broken)])
    assert session.notes == ["What Ulysses over 2 GPUs gains is missing: it broke."]
    assert session.measurements["prefetch.gain"].measured == pytest.approx(0.5)
    assert not [name for name in session.measurements if name.startswith("ulysses_")]
    assert "ulysses.gain" not in session.measurements


def test_an_update_that_cannot_be_run_is_said() -> None:
    workload = grpo_7b(gpu=H200, gpus_per_node=2).with_actor_engine(activation_offload=True)
    assert switched() and not switched(workload)
    session = run([READINGS], subject=subject(workload), machine=machine())
    assert len(session.calls) == 1
    (note,) = session.notes
    assert "no update that they change" in note
    assert "all_gather.layer" in session.measurements
    assert session.measurements["all_gather.layer"].details["whole_bytes"] > MIB


TINY = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}


class Running(Recorder):
    """Its calls are made."""

    def call(self, function: Any, *arguments: Any, title: str, expected_s: float, world: int = 1) -> Any:
        self.calls.append((function, arguments, world))
        return processes.run(function, arguments, setup=CPU, timeout_s=LONG, world=world)


@pytest.mark.sampled(6)
@pytest.mark.slow
def test_the_whole_part_runs_on_a_cpu() -> None:
    """All engines are built and trained with; bytes and times of a CPU are not reported."""
    workload = grpo_7b(gpu=H200, gpus_per_node=2)
    batch = structs.replace(
        workload.batch, prompts=4, mini_batch_prompts=4, max_prompt_tokens=8, max_response_tokens=8
    )
    update = structs.replace(
        workload.actor.update, batching=structs.replace(workload.actor.update.batching, token_budget=32)
    )
    model = shape_from_config(TINY, name="tiny", source="")
    tiny = structs.replace(workload, model=model, batch=batch).with_actor(update=update)
    known = replace(subject(tiny), model_config=TINY)
    session = Running(answers=[], subject=known, options=options(device="cpu"))
    part.run(session)
    assert [(name, world) for name, _, world in session.calls] == [(part.WORKER, 2), (switches.WORKER, 2)]
    engines = [one.engine for passes in session.calls[1][1][1] for one in passes]
    assert [engine.forward_prefetch for engine in engines] == [False, True, False]
    assert [engine.parallel.ulysses for engine in engines] == [1, 1, 2]
    assert session.notes == []
    assert session.measurements.keys() == {"collectives.wrong"}
    assert session.measurements["collectives.wrong"].outcome is Outcome.CONFIRMED
