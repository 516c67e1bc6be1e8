"""Training steps whose sequences several GPUs share: what they compute, which are run, and their peaks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.cli.runner import run
from tests.memory.test_accuracy import PASS
from tests.validate.parts import CONFIG as CONFIG_FILE
from tests.validate.training.shared_steps import Difference
from tests.validate.training.test_passes_on_cpu import CONFIG, HEAD, PASSES, settings
from tuner.accuracy import MeasuredCase, workload_of
from tuner.dtypes import DType
from tuner.models import find_config, shape_from_config
from tuner.models.shape import cut_config
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
from tuner.validate.children.servers import ServedFunction, Server
from tuner.validate.search.bisection import LEAST_TOKENS, resized, snapped
from tuner.validate.training import part
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import ModelSettings, PassFigures, PassSettings
from tuner.workload import Backend, Checkpointing, HeadKind, OutputHead

LONG = 300.0
CPU = Setup(device="cpu")
# Tokens of a micro-batch that two ranks cannot share without padding.
COUNT, LENGTH = 3, 11
FUSED, VALUE = OutputHead(kind=HeadKind.FUSED_TORCH), OutputHead(kind=HeadKind.VALUE)


def parallel(ranks: int) -> Any:
    return structs.replace(settings().engine.parallel, gpus=2, shard=2, ulysses=ranks)


def exact(backend: Backend = Backend.FSDP2, **changes: Any) -> PassSettings:
    """An update in float32 throughout."""
    engine = structs.replace(
        settings().engine, backend=backend, parallel=parallel(1), compute_dtype=DType.FLOAT32
    )
    given = {"head": HEAD, "entropy": True, "tokens": COUNT * LENGTH, "sequence_length": LENGTH}
    engine = structs.replace(engine, **changes.pop("engine", {}))
    return settings(**given | {"engine": engine} | changes)


def rounding(config: dict[str, Any]) -> float:
    """How far two ways to add up in float32 may be apart, as a share of the largest value.

    A sum of n products is off by at most n roundings. On the longest way from a token to a gradient are,
    forward and backward: in each layer four projections of the hidden size, one of the intermediate size and
    attention over all tokens, then the output head; in the end a sum over all tokens.
    """
    hidden, tokens = config["hidden_size"], COUNT * LENGTH
    layer = 4 * hidden + config["intermediate_size"] + tokens
    one_way = config["num_hidden_layers"] * layer + hidden + config["vocab_size"]
    return (2 * one_way + tokens) * torch.finfo(torch.float32).eps / 2


@pytest.mark.sampled(16)
@pytest.mark.slow
@pytest.mark.parametrize("key_heads", [2, 1])
def test_a_shared_step_computes_what_one_without_does(key_heads: int) -> None:
    """Log-probabilities, entropy and gradients, with padding; one key head has to be repeated."""
    config = {**CONFIG, "num_key_value_heads": key_heads}
    cases = [
        exact(),
        exact(Backend.FSDP),
        exact(engine={"checkpointing": Checkpointing.NONE}),
        exact(head=FUSED),
        exact(tokens=4 * LENGTH),  # no padding
    ]
    found = differences(ModelSettings(config=config), cases)
    assert len(found) == len(cases)
    for each in found:
        assert each.results <= rounding(config)
        assert each.gradients <= rounding(config)


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_a_shared_critic_computes_what_one_without_does() -> None:
    (found,) = differences(ModelSettings(config=CONFIG, critic=True), [exact(head=VALUE, entropy=False)])
    assert found.results <= rounding(CONFIG)
    assert found.gradients <= rounding(CONFIG)


def differences(model: ModelSettings, cases: list[PassSettings]) -> list[Difference]:
    worker = ServedFunction("tests.validate.training.shared_steps", "differences", Server.MODELS)
    found = processes.run(worker, (model, cases), setup=CPU, timeout_s=LONG, world=2)
    assert isinstance(found, list), found
    return found


@pytest.mark.sampled(16)
@pytest.mark.slow
def test_every_pass_comes_to_an_end_where_sequences_are_shared() -> None:
    """As a part runs them: whole passes with clipping and step, offload and smaller first micro-batches."""
    passes = [
        replace(each, engine=structs.replace(each.engine, parallel=parallel(2)), tokens=each.tokens // 2)
        for each in PASSES.values()
    ]
    found = processes.run(
        part.WORKER,
        (ModelSettings(config=CONFIG), passes, 1),
        setup=CPU,
        timeout_s=LONG,
        world=2,
    )
    assert isinstance(found, tuple), found
    for name, result in zip(PASSES, found, strict=True):
        assert isinstance(result, PassFigures), f"{name}: {result}"


def planned_here() -> list[PlannedPass]:
    """An update and log-probabilities of four layers, 2 x 8,192 tokens in sequences of 4,096."""
    config = cut_config(find_config("Qwen2.5-1.5B").values, 4)
    case = MeasuredCase.model_validate(
        PASS | {"world_size": 2, "ulysses": 2, "tokens": 8192, "sequence_length": 4096, "micro_batches": 2}
    )
    shape = shape_from_config(config, name="four layers", source="a test")
    return list(planned_passes(workload_of(case, shape), processes=2))


PLANNED = planned_here()


def test_the_passes_for_two_gpus_are_shared_ones() -> None:
    for planned in PLANNED:
        assert (planned.case.ulysses, planned.case.tokens, planned.settings.sequences) == (2, 8192, 4)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_peaks_on_two_gpus_are_as_predicted() -> None:
    model = ModelSettings(config=cut_config(find_config("Qwen2.5-1.5B").values, 4))
    found = processes.run(
        part.WORKER,
        (model, [each.settings for each in PLANNED], 1),
        setup=Setup(device="cuda"),
        timeout_s=LONG,
        world=2,
    )
    assert isinstance(found, tuple), found
    for one, figures in zip(PLANNED, found, strict=True):
        assert isinstance(figures, PassFigures), figures
        compared = one.compared(figures)
        terms = {term.name: term.bytes for term in compared.terms}
        assert abs(compared.error) <= 0.03, (one.phase, compared.measured_peak, terms)


@pytest.mark.sampled(12)
@pytest.mark.slow
def test_the_command_runs_shared_steps_on_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    found = run(
        *("validate", CONFIG_FILE, "--verl-version", "0.9.1", "--gpu", "h200-sxm", "--model", str(tmp_path)),
        *("--device", "cpu", "--nproc", "2", "--parts", "training-step,collectives", "--budget", "300s"),
        *("-f", "json", "--", "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"),
    )
    assert found.code == 0, found.err
    report = json.loads(found.out)
    parts = {part["part"]: part for part in report["validation"]["parts"]}
    assert [parts[name]["status"] for name in ("training-step", "collectives")] == ["done", "done"]
    assert not [
        note for note in report["notes"] if "failed" in note or "missing" in note or "Ulysses" in note
    ]


@given(tokens=st.integers(LEAST_TOKENS, 100_000), longest=st.integers(2, 40_000))
@hypothesis.settings(deadline=None, max_examples=50)
def test_sizes_of_a_search_are_whole_sequences_over_both_gpus(tokens: int, longest: int) -> None:
    (update, *_) = PLANNED
    one = resized(update, tokens, longest)
    assert one.case.tokens == snapped(tokens, longest) <= tokens
    assert MeasuredCase.model_validate(one.case.model_dump(by_alias=True)) == one.case
    assert one.case.sequence_length <= 2 * longest
    assert one.settings.sequences * one.case.sequence_length == 2 * one.case.tokens
