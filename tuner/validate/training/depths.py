"""Models cut to their first layers, and what their figures say of the whole model.

Within one moment of a pass every term is constant or grows by the same for every further layer of a kind, so
two depths give a line. Which moment is the peak may change with the depth: states grow, logits do not. So
each stage of a pass (forward, backward, the optimizer's step) has a line of its own, and it counts only where
the prediction says that its peak is in the same moment at both depths and at the full one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from tuner.errors import TunerError
from tuner.language import _
from tuner.memory import PhaseEstimate
from tuner.memory.ledger.terms import Moment
from tuner.model_shape import ModelShape
from tuner.models import shape_from_config
from tuner.models.shape import cut_config
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassFigures, Stage

_FORWARD = ("weights_loaded", "forward_end")  # the memory model's moments of a training forward pass
_STEP = "optimizer_step"


@dataclass(frozen=True, kw_only=True)
class Depths:
    """Two depths, and the depth whose figures they give."""

    lower: int
    upper: int
    full: int
    stages: tuple[Stage, ...]  # whose peaks are on a line

    def at_full(self, lower: float, upper: float) -> float:
        r"""The line through both: :math:`y_2 + (L - d_2) (y_2 - y_1) / (d_2 - d_1)`."""
        return upper + (self.full - self.upper) * (upper - lower) / (self.upper - self.lower)

    def __str__(self) -> str:
        return _("from {lower} and {upper} of {full} layers, on a line").format(
            lower=self.lower, upper=self.upper, full=self.full
        )


def cut_shape(model: ModelShape, config: Mapping[str, Any], layers: int) -> ModelShape:
    """The dimensions of the cut model.

    Raises:
        TunerError: the cut configuration is none of its type.
    """
    if model.traced is not None:
        kinds = structs.replace(model.traced, kind_of_layer=model.traced.kind_of_layer[:layers])
        return structs.replace(model, layers=layers, traced=kinds)
    shape = shape_from_config(cut_config(config, layers), name=model.name, source=model.source)
    return structs.replace(shape, value_head=model.value_head)


def usable_depths(model: ModelShape) -> tuple[int, ...]:
    """Depths below the full one at which further layers come in the full model's pattern.

    Layers repeat in a period after those that come once at the beginning (dense ones before sparse ones);
    whole periods are left out.
    """
    kinds = _kinds(model)
    alone, period = _pattern(kinds)
    rest = (model.layers - alone) % period
    return tuple(range(alone + rest + (0 if alone + rest else period), model.layers, period))


def _kinds(model: ModelShape) -> list[tuple[Any, ...]]:
    traced = model.traced
    return [
        (
            model.is_sparse(layer),
            model.is_linear(layer),
            model.layer_parameters(layer),
            None if traced is None else traced.kind_of_layer[layer],
        )
        for layer in range(model.layers)
    ]


def _pattern(kinds: Sequence[Any]) -> tuple[int, int]:
    """Layers that come once, and the period of the others; as few as can be of both together."""
    count = len(kinds)
    for length in range(1, count + 1):
        for period in range(1, length + 1):
            alone = length - period
            if all(kinds[index] == kinds[index + period] for index in range(alone, count - period)):
                return alone, period
    return 0, count


def largest_moments(estimate: PhaseEstimate, *, training: bool) -> dict[Stage, Moment]:
    """The moment that is the peak of each stage of a pass."""
    moments: dict[Stage, Moment] = {}
    for moment in estimate.moments:
        stage = _stage(moment.name) if training else Stage.FORWARD
        if stage not in moments or moment.bytes > moments[stage].bytes:
            moments[stage] = moment
    return moments


def _stage(moment: str) -> Stage:
    if moment in _FORWARD:
        return Stage.FORWARD
    return Stage.STEP if moment == _STEP else Stage.BACKWARD


def choose(
    predicted: Callable[[int], PhaseEstimate],
    usable: Sequence[int],
    full: int,
    *,
    limit_bytes: int,
    training: bool,
) -> Depths | None:
    """Two depths that fit, from which the full model's peak follows; None where there are none.

    The stage with the full model's peak has its peak in the same moment at both. The upper depth is the
    deepest, for the sake of a short way to the full one, the lower one about half of it.

    Args:
        predicted: the pass at a depth.
        usable: depths to choose from.
        full: the model's own.
        limit_bytes: of one GPU, everything on it counted.
        training: whether the pass has a backward pass.
    """

    def names(depth: int) -> dict[Stage, str]:
        moments = largest_moments(predicted(depth), training=training)
        return {stage: moment.name for stage, moment in moments.items()}

    at_full = names(full)
    decisive = next(stage for stage, name in at_full.items() if name == predicted(full).peak.name)
    fitting = [
        depth
        for depth in usable
        if predicted(depth).peak_bytes <= limit_bytes and names(depth)[decisive] == at_full[decisive]
    ]
    if len(fitting) < 2:
        return None
    upper = max(fitting)
    lower = min((depth for depth in fitting if depth < upper), key=lambda depth: abs(2 * depth - upper))
    same = {stage for stage, name in at_full.items() if names(lower)[stage] == names(upper)[stage] == name}
    return Depths(lower=lower, upper=upper, full=full, stages=tuple(sorted(same)))


def figures_at_full(depths: Depths, lower: PassFigures, upper: PassFigures) -> PassFigures:
    """The figures of the full model, each on its line; the peak is the highest of the stages'.

    Raises:
        ValueError: the figures are those of a CPU.
    """
    if lower.allocated_before_bytes is None or upper.allocated_before_bytes is None:
        raise ValueError("a CPU counts no bytes")
    stages = {
        stage: round(depths.at_full(lower.stages[stage], upper.stages[stage])) for stage in depths.stages
    }
    return replace(
        upper,
        allocated_before_bytes=round(
            depths.at_full(lower.allocated_before_bytes, upper.allocated_before_bytes)
        ),
        peak_allocated_bytes=max(stages.values()),
        peak_requested_bytes=None,
        peak_reserved_bytes=None,  # blocks that the allocator keeps do not grow on a line
        stages=stages,
        seconds=_seconds(depths, lower.seconds, upper.seconds),
        once_seconds=_seconds(depths, lower.once_seconds, upper.once_seconds),
    )


def _seconds(depths: Depths, lower: Sequence[float], upper: Sequence[float]) -> tuple[float, ...]:
    """The quickest with the quickest, and so on."""
    pairs = zip(sorted(lower), sorted(upper), strict=False)
    return tuple(max(0.0, depths.at_full(first, second)) for first, second in pairs)


def predictions(planned: PlannedPass, config: Mapping[str, Any]) -> Callable[[int], PhaseEstimate]:
    """The pass at a depth, predicted; asked again it is not computed again."""
    estimates: dict[int, PhaseEstimate] = {}

    def predicted(layers: int) -> PhaseEstimate:
        if layers not in estimates:
            estimates[layers] = planned.with_model(shape_at(planned.model, config, layers)).predicted
        return estimates[layers]

    return predicted


def shape_at(model: ModelShape, config: Mapping[str, Any], layers: int) -> ModelShape:
    """The model's dimensions at a depth."""
    return model if layers == model.layers else cut_shape(model, config, layers)


def can_be_cut(predicted: Callable[[int], PhaseEstimate], depth: int) -> bool:
    """Whether the pass can be predicted with the model cut to this depth."""
    try:
        predicted(depth)
    except TunerError:
        return False
    return True
