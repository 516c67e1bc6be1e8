from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.memory.test_accuracy import PASS
from tuner.accuracy import MeasuredCase, workload_of
from tuner.memory import Item, PhaseEstimate, Term
from tuner.memory.ledger.terms import Moment
from tuner.models import find_config, find_model, shape_from_config
from tuner.models.shape import cut_config
from tuner.validate.training import depths
from tuner.validate.training.depths import Depths, predictions
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import PassFigures, Stage
from tuner.workload import Phase

MODELS = (
    "Qwen2.5-1.5B",
    "Qwen2.5-7B",
    "Qwen3-4B",
    "Llama-3.1-8B",
    "gemma-2-2b",
    "phi-2",
    "Qwen3-30B-A3B",
    "DeepSeek-V2-Lite",
)
HEADS: tuple[dict[str, Any], ...] = (
    {},
    {"calculate_entropy": True},
    {"calculate_entropy": True, "use_torch_compile": False},
    {"calculate_entropy": True, "use_torch_compile": False, "entropy_chunking": True},
    {"gradient_checkpointing": False, "strategy": "fsdp"},
)


def passes(name: str, **changes: Any) -> tuple[PlannedPass, ...]:
    case = MeasuredCase.model_validate(
        PASS | {"model": name, "world_size": 8, "tokens": 16384, "micro_batches": 4} | changes
    )
    return planned_passes(workload_of(case), processes=1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("head", HEADS)
def test_half_of_the_layers_predict_the_peak_of_all(name: str, head: dict[str, Any]) -> None:
    config = find_config(name).values
    for planned in passes(name, **head):
        full = planned.model.layers
        usable = [depth for depth in depths.usable_depths(planned.model) if depth <= full // 2]
        predicted = predictions(planned, config)
        chosen = depths.choose(predicted, usable, full, limit_bytes=10**15, training=planned.training)
        assert chosen is not None
        lower, upper = (
            depths.largest_moments(predicted(depth), training=planned.training)
            for depth in (chosen.lower, chosen.upper)
        )
        found = max(chosen.at_full(lower[stage].bytes, upper[stage].bytes) for stage in chosen.stages)
        assert found == pytest.approx(predicted(full).peak_bytes, rel=0.01)


@pytest.mark.parametrize("name", ["Qwen2.5-7B", "Llama-3.1-8B"])
def test_the_peak_of_the_log_probabilities_follows_from_two_and_four_layers(name: str) -> None:
    planned = next(each for each in passes(name) if each.phase is Phase.OLD_LOG_PROB)
    predicted, full = predictions(planned, find_config(name).values), planned.model.layers
    two, four = predicted(2), predicted(4)
    assert two.peak.name == four.peak.name == predicted(full).peak.name
    line = Depths(lower=2, upper=4, full=full, stages=(Stage.FORWARD,))
    assert line.at_full(two.peak_bytes, four.peak_bytes) == pytest.approx(predicted(full).peak_bytes)


@given(
    slope=st.integers(0, 10**9),
    start=st.integers(0, 10**12),
    lower=st.integers(1, 40),
    step=st.integers(1, 40),
    rest=st.integers(0, 100),
)
def test_a_line_is_met_exactly(slope: int, start: int, lower: int, step: int, rest: int) -> None:
    line = Depths(lower=lower, upper=lower + step, full=lower + step + rest, stages=())
    at_full = line.at_full(start + slope * line.lower, start + slope * line.upper)
    assert at_full == pytest.approx(start + slope * line.full)


@pytest.mark.parametrize("name", MODELS)
def test_a_cut_model_is_the_first_layers_of_the_full_one(name: str) -> None:
    model, config = find_model(name), find_config(name).values
    for layers in depths.usable_depths(model)[:3]:
        cut = depths.cut_shape(model, config, layers)
        assert cut.layers == layers
        assert [cut.layer_parameters(layer) for layer in range(layers)] == [
            model.layer_parameters(layer) for layer in range(layers)
        ]
        assert cut.embedding_parameters == model.embedding_parameters
    assert depths.cut_shape(model, config, model.layers) == structs.replace(model, source=model.source)


def test_what_is_listed_for_every_layer_is_cut() -> None:
    config = {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 4,
        "layer_types": ["a", "b", "a", "b"],
        "mlp_only_layers": [0, 3],
        "eos_token_id": [1, 2],
    }
    assert cut_config(config, 2) == {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 2,
        "layer_types": ["a", "b"],
        "mlp_only_layers": [0],
        "eos_token_id": [1, 2],
    }


def test_dense_layers_before_sparse_ones_are_in_every_depth() -> None:
    model = find_model("DeepSeek-V2-Lite")
    assert not model.is_sparse(0)
    assert model.is_sparse(1)
    usable = depths.usable_depths(model)
    assert usable == tuple(range(2, model.layers)) or usable == tuple(range(1, model.layers))


def test_layers_that_alternate_are_cut_in_pairs() -> None:
    config = find_config("Qwen3-30B-A3B").values
    alternating = shape_from_config(
        {**config, "num_hidden_layers": 8, "decoder_sparse_step": 2}, name="a", source="a"
    )
    assert {alternating.is_sparse(layer) for layer in range(8)} == {True, False}
    assert depths.usable_depths(alternating) == (2, 4, 6)


def estimates(sizes: tuple[int, int], *, growing: str = "optimizer_step") -> Any:
    """A pass whose projection takes the first, and whose step takes the second times the layers."""
    fixed, per_layer = sizes

    @cache
    def predicted(layers: int) -> PhaseEstimate:
        def moment(name: str, size: int) -> Moment:
            term = Term(item=Item.OVERHEAD, name=name, bytes=size, formula="")
            return Moment(name=name, terms=(term,))

        return PhaseEstimate(
            phase=Phase.UPDATE_ACTOR,
            own=(
                moment("forward_end", fixed // 2),
                moment("projection_backward", fixed),
                moment(growing, per_layer * layers),
            ),
        )

    return predicted


def test_a_peak_in_a_later_stage_than_the_shallow_ones_has_a_line_of_its_own() -> None:
    predicted = estimates((100, 10))  # the step is the peak from eleven layers on
    chosen = depths.choose(predicted, range(1, 9), 32, limit_bytes=10**9, training=True)
    assert chosen is not None
    assert (chosen.lower, chosen.upper) == (4, 8)
    assert set(chosen.stages) == set(Stage)


def test_depths_have_to_fit() -> None:
    predicted = estimates((100, 10))
    chosen = depths.choose(predicted, range(1, 32), 32, limit_bytes=200, training=True)
    assert chosen is not None
    assert (chosen.lower, chosen.upper) == (10, 20)
    assert depths.choose(predicted, range(1, 32), 32, limit_bytes=99, training=True) is None


def test_where_the_moment_changes_within_a_stage_only_depths_beyond_the_change_are_taken() -> None:
    predicted = estimates((100, 10), growing="layer_backward")  # the peak from eleven layers on
    assert depths.choose(predicted, range(1, 10), 32, limit_bytes=10**9, training=True) is None
    chosen = depths.choose(predicted, range(1, 20), 32, limit_bytes=10**9, training=True)
    assert chosen is not None
    assert (chosen.lower, chosen.upper) == (11, 19)
    assert set(chosen.stages) == {Stage.FORWARD, Stage.BACKWARD}


def figures(before: int, stages: dict[Stage, int], seconds: tuple[float, ...]) -> PassFigures:
    return PassFigures(
        engine="tuner",
        allocated_before_bytes=before,
        peak_allocated_bytes=max(stages.values()),
        peak_requested_bytes=1,
        peak_reserved_bytes=1,
        non_torch_bytes=7,
        stages=stages,
        seconds=seconds,
        once_seconds=(0.0,) * len(seconds),
    )


def test_the_highest_stage_at_the_full_depth_is_the_peak() -> None:
    line = Depths(lower=2, upper=4, full=10, stages=tuple(Stage))
    lower = figures(20, {Stage.FORWARD: 60, Stage.BACKWARD: 100, Stage.STEP: 50}, (1.0, 1.1))
    upper = figures(40, {Stage.FORWARD: 70, Stage.BACKWARD: 104, Stage.STEP: 90}, (1.4, 1.5))
    found = depths.figures_at_full(line, lower, upper)
    assert found.allocated_before_bytes == 100
    assert found.stages == {Stage.FORWARD: 100, Stage.BACKWARD: 116, Stage.STEP: 210}
    assert found.peak_allocated_bytes == 210
    assert found.peak_reserved_bytes is None
    assert found.seconds == pytest.approx((2.6, 2.7))


def test_a_cpu_has_nothing_to_extrapolate() -> None:
    line = Depths(lower=2, upper=4, full=10, stages=tuple(Stage))
    nothing = replace(figures(1, dict.fromkeys(Stage, 1), ()), allocated_before_bytes=None)
    with pytest.raises(ValueError, match="CPU"):
        depths.figures_at_full(line, nothing, nothing)
