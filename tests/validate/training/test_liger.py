"""Passes with Liger's layers: when they are run, what is built for them, and what they take on a GPU."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
import torch
import torch.distributed as dist
from msgspec import structs

from tests.memory.test_accuracy import PASS
from tests.validate.training.test_training_step import Bench, options, subject, tries
from tuner.accuracy import MeasuredCase, compare, workload_of
from tuner.architectures import find_architecture, model_types
from tuner.models import find_config, shape_from_config
from tuner.validate.children import processes
from tuner.validate.children.call import Setup
from tuner.validate.report.schema import Outcome
from tuner.validate.report.verdicts import PEAK_TOLERANCE
from tuner.validate.training import configured_passes, part
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import ModelSettings, PassFigures
from tuner.validate.training.worker import measure, model
from tuner.validate.training.worker.engine import TrainingEngine
from tuner.validate.training.worker.model import empty_model
from tuner.workload import Phase

pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

INSTALLED = find_spec("liger_kernel") is not None
needs_liger = pytest.mark.skipif(not INSTALLED, reason="needs liger_kernel, which is not installed")
#: Small heads, so that the layers decide the peak.
SMALL = {"num_hidden_layers": 4, "vocab_size": 8_000, "tie_word_embeddings": True}
RULE = "fused-layers"
FUSED = "actor_rollout_ref.model.use_liger=true"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured_passes, "find_spec", lambda name: object())


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured_passes, "find_spec", lambda name: None)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    model.restore_modules()
    if dist.is_initialized():
        dist.destroy_process_group()


# -- whether they are run ----------------------------------------------------------------------


def test_without_the_package_the_recommendation_cannot_be_measured(not_installed: None) -> None:
    found = Bench(subject=subject()).run().verdicts[RULE]
    assert found.outcome is Outcome.NOT_MEASURABLE
    assert "liger_kernel is not installed" in found.reason


def test_a_job_that_uses_them_is_not_run_without_the_package(not_installed: None) -> None:
    assert not planned_passes(subject(FUSED).workload, processes=1)


def test_with_the_package_both_ways_are_run_by_engines_of_their_own(installed: None) -> None:
    bench = Bench(subject=subject())
    (found,) = (each for each in bench.plan.proposed if each.recommendation.finding.rule.name == RULE)
    assert found.before is not None and found.after is not None and not found.reason
    kinds = [
        {each.planned.settings.engine.fused_layers for each in group.tries} for group in bench.plan.groups
    ]
    assert {True} in kinds and {False} in kinds and {True, False} not in kinds
    assert bench.run().verdicts[RULE].outcome is Outcome.CONFIRMED


def test_peaks_that_stay_as_they_are_refute_it(installed: None) -> None:
    bench = Bench(subject=subject("actor_rollout_ref.model.enable_gradient_checkpointing=false"))
    (found,) = (each for each in bench.plan.proposed if each.recommendation.finding.rule.name == RULE)
    assert found.before is not None

    def unchanged(planned: PlannedPass, layers: int, figures: PassFigures) -> PassFigures:
        if not planned.settings.engine.fused_layers:
            return figures
        assert found.before is not None
        return bench.as_predicted(found.before.planned, layers)

    bench.answer = unchanged
    assert bench.run().verdicts[RULE].outcome is Outcome.REFUTED


def test_a_recorded_pass_says_that_it_had_them(installed: None) -> None:
    kept = "actor_rollout_ref.model.enable_gradient_checkpointing=false"
    bench = Bench(subject=subject(FUSED, kept, model="Qwen2.5-0.5B")).run()
    cases = {case.pass_: case for case in bench.cases}
    assert set(cases) == {"update", "log_prob"}
    for case in cases.values():
        assert case.use_liger
        assert compare(case).error == pytest.approx(0.0, abs=1e-6)
    plain = cases["update"].model_copy(update={"use_liger": False})
    assert compare(plain).predicted_peak > compare(cases["update"]).predicted_peak


def test_a_cpu_does_not_run_them(installed: None) -> None:
    bench = Bench(subject=subject(FUSED), options=options("cpu"))
    assert not bench.plan.groups
    assert {each.reason for each in tries(bench.plan).values()} == {"Liger's layers need a GPU"}


# -- what is built -----------------------------------------------------------------------------


def config(name: str) -> dict[str, Any]:
    return {**find_config(name).values, **SMALL}


@needs_liger
@pytest.mark.parametrize("name", ["Qwen2.5-1.5B", "Qwen3-4B"])
@pytest.mark.parametrize("critic", [False, True])
def test_norms_mlps_and_rotation_are_ligers(name: str, critic: bool) -> None:
    settings = ModelSettings(config=config(name), critic=critic)
    model = empty_model(settings, torch.bfloat16, fused_layers=True)
    layers = list(model.model.layers)
    for layer in layers:
        norms = [layer.input_layernorm, layer.post_attention_layernorm]
        norms += [getattr(layer.self_attn, each) for each in ("q_norm", "k_norm") if "Qwen3" in name]
        assert {each._get_name() for each in (*norms, model.model.norm)} == {"LigerRMSNorm"}
        assert "LigerSwiGLUMLP" in layer.mlp.forward.__qualname__
    assert _rotates_as(layers[0]).startswith("liger_kernel.")
    assert model.forward.__func__ is type(model).forward  # the loss is verl's


@needs_liger
def test_the_next_model_is_transformers_own() -> None:
    settings = ModelSettings(config=config("Qwen3-4B"))
    empty_model(settings, torch.bfloat16, fused_layers=True)
    plain = empty_model(settings, torch.bfloat16)
    layer = plain.model.layers[0]
    modules = (layer.input_layernorm, layer.mlp, layer.self_attn.q_norm)
    assert {type(each).__module__.partition(".")[0] for each in modules} == {"transformers"}
    assert _rotates_as(layer).startswith("transformers.")


def _rotates_as(layer: Any) -> str:
    names: dict[str, Any] = inspect.unwrap(type(layer.self_attn).forward).__globals__
    found: str = names["apply_rotary_pos_emb"].__module__
    return found


# -- what they take ----------------------------------------------------------------------------


def planned(name: str, **changes: Any) -> PlannedPass:
    shape = shape_from_config(config(name), name=name, source="a test")
    case = MeasuredCase.model_validate(
        PASS
        | {"world_size": 1, "tokens": 16_384, "sequence_length": 2048, "use_torch_compile": False}
        | changes
    )
    wanted = Phase.UPDATE_ACTOR if case.pass_ == "update" else Phase.OLD_LOG_PROB
    found = planned_passes(workload_of(case, shape), processes=1)
    return next(each for each in found if each.phase is wanted)


@pytest.mark.gpu
@needs_liger
@pytest.mark.parametrize("name", ["Qwen2.5-1.5B", "Qwen3-4B"])
def test_peaks_on_a_gpu(name: str) -> None:
    """Of layers that are kept, of layers that are computed again, and without gradients."""
    passes = {
        "kept": {"gradient_checkpointing": False},
        "computed again": {"gradient_checkpointing": True},
        "log_prob": {"pass": "log_prob"},
    }
    peaks: dict[bool, dict[str, tuple[int, int]]] = {}
    for fused in (False, True):
        chosen = [planned(name, use_liger=fused, **each) for each in passes.values()]
        assert len({each.settings.built for each in chosen}) == 1
        arguments = (ModelSettings(config=config(name)), [each.settings for each in chosen], 1)
        found = processes.run(part.WORKER, arguments, setup=Setup(device="cuda"), timeout_s=300)
        peaks[fused] = {}
        for which, one, figures in zip(passes, chosen, found, strict=True):
            assert isinstance(figures, PassFigures), (which, figures)
            compared = one.compared(figures)
            assert abs(compared.error) <= PEAK_TOLERANCE, (which, fused, compared)
            peaks[fused][which] = compared.measured_peak, compared.predicted_peak
    for which, (measured, predicted) in peaks[True].items():
        before, expected = peaks[False][which]
        assert abs((before - measured) - (expected - predicted)) <= PEAK_TOLERANCE * before, which
    assert peaks[True]["kept"][0] < 0.9 * peaks[False]["kept"][0]


@pytest.mark.gpu
@needs_liger
def test_they_compute_what_transformers_does() -> None:
    device = torch.device("cuda")
    measure.join_alone(device)
    one = planned("Qwen3-4B", tokens=512, sequence_length=128, **{"pass": "log_prob"}).settings
    found = []
    for fused in (True, False):
        settings = replace(one, engine=structs.replace(one.engine, fused_layers=fused))
        torch.manual_seed(0)
        engine = TrainingEngine(ModelSettings(config=config("Qwen3-4B")), settings.built, device)
        generator = torch.Generator().manual_seed(0)
        (batch,) = engine.batch(settings)
        ids = torch.randint(8_000, batch.input_ids.shape, generator=generator)
        with torch.no_grad():
            (log_probs, *_) = engine._forward(settings, replace(batch, input_ids=ids).to(device))
        found.append(log_probs)
    torch.testing.assert_close(found[0], found[1], rtol=2e-2, atol=2e-2)
    assert found[0].std() > 0.1  # the weights make a difference between tokens


@needs_liger
def test_the_types_without_fused_layers_are_those_that_liger_does_not_know() -> None:
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    unfused = {name for name in model_types() if not find_architecture(name).liger_layers}
    assert set(model_types()) - MODEL_TYPE_TO_APPLY_LIGER_FN.keys() == unfused
