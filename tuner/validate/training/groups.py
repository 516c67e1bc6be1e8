"""Training passes to run: their engines, expected seconds, and the recommendations they decide about."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tuner.advise import Recommendation
from tuner.units import GIGA
from tuner.validate.training.depths import Depths
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassSettings

Key = tuple[PassSettings, bool]


REPETITIONS = 3
REPEAT_S = 1.5  # of one pass, for the time
_START_S = 4.0  # a CUDA context, the model's module, building, sharding and filling the weights
_HOST_BYTES_PER_S = 1.5 * GIGA  # of states that go to the host for the first time: its memory is page-locked
_LIGER_S = 3.0  # importing it, where it finds PEFT and that finds scikit-learn
_COMPILE_S = 2.0  # of each kind of pass with an entropy
_RATE = 0.35  # of the card's dense peak, reached by a training pass
_CPU_RATE = 2e10  # flop per second
_OF_A_TRAINED_TOKEN, _OF_A_TOKEN = 8, 2  # flop per parameter; recomputation counted


@dataclass(frozen=True, kw_only=True)
class Try:
    """One pass that is run, whole or at two depths."""

    planned: PlannedPass
    at: Depths | None  # None: the full model
    reason: str = ""  # why it cannot be run; empty where it can

    @property
    def key(self) -> Key:
        """What tells it from others; equal passes are run once."""
        return self.planned.settings, self.planned.model.value_head

    @property
    def layers(self) -> tuple[int, ...]:
        """The depths that it takes."""
        return (self.planned.model.layers,) if self.at is None else (self.at.lower, self.at.upper)


@dataclass(frozen=True, kw_only=True)
class ProposedPass:
    """A recommendation that changes a training pass, and the pass that decides about it."""

    recommendation: Recommendation
    before: Try | None
    after: Try | None
    reason: str = ""  # why it cannot be judged; empty where it can


@dataclass(frozen=True, kw_only=True)
class PassGroup:
    """Passes that one engine at one depth runs in one process."""

    layers: int
    critic: bool
    tries: tuple[Try, ...]  # the most valuable first
    start_s: float  # expected, before the first pass
    pass_s: tuple[float, ...]  # expected, of each

    @property
    def seconds(self) -> float:
        """Expected of all."""
        return self.start_s + sum(self.pass_s)

    def within(self, seconds: float) -> "PassGroup":
        """As many of its passes as are likely to be done in this time; one that is too long is left out."""
        tries, taken = [], self.start_s
        for attempt, needed in self._pairs:
            if taken + needed <= seconds:
                tries.append((attempt, needed))
                taken += needed
        return self._with(tries)

    def after(self, done: Container[Key]) -> "PassGroup":
        """The passes that are left once these are done."""
        return self._with([(attempt, needed) for attempt, needed in self._pairs if attempt.key not in done])

    def seconds_of(self, wanted: Container[Key]) -> float:
        """Expected of these of its passes; none where it has none of them."""
        needs = [needed for attempt, needed in self._pairs if attempt.key in wanted]
        return sum(needs, self.start_s) if needs else 0.0

    @property
    def _pairs(self) -> Iterator[tuple[Try, float]]:
        return zip(self.tries, self.pass_s, strict=True)

    def _with(self, tries: Sequence[tuple[Try, float]]) -> "PassGroup":
        return replace(
            self, tries=tuple(attempt for attempt, _ in tries), pass_s=tuple(needed for _, needed in tries)
        )


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Everything that the part would run."""

    configured: tuple[Try, ...]
    proposed: tuple[ProposedPass, ...]
    groups: tuple[PassGroup, ...]
    notes: tuple[str, ...] = field(default=())


def start_seconds(tries: Sequence[Try], layers: int) -> float:
    """Expected seconds until an engine for these passes begins the first of them."""
    compiled = {
        (attempt.planned.training, attempt.planned.settings.head)
        for attempt in tries
        if attempt.planned.settings.head.compiled and attempt.planned.settings.entropy
    }
    one = tries[0].planned
    engine, model = one.workload.actor.engine, one.model
    on_host = model.parameters * layers / model.layers * engine.stored_dtype.bytes
    filling = on_host / _HOST_BYTES_PER_S if engine.streamed_offload else 0.0
    fusing = _LIGER_S if engine.fused_layers else 0.0
    return _START_S + filling + fusing + _COMPILE_S * len(compiled)


def pass_seconds(planned: PlannedPass, layers: int, *, cpu: bool) -> float:
    """Expected seconds of one pass with its repetitions."""
    model, settings = planned.model, planned.settings
    rate = _CPU_RATE if cpu else _RATE * planned.workload.cluster.gpu.dense_bf16_flop_per_s
    flop = _OF_A_TRAINED_TOKEN if planned.training else _OF_A_TOKEN
    a_token = flop * model.parameters * layers / model.layers / rate
    first = settings.first_tokens or settings.tokens
    engine = settings.engine
    states = model.parameters * layers / model.layers * engine.stored_dtype.bytes
    offloaded = states * (engine.param_offload + 2 * (engine.optimizer_offload and planned.training))
    once = a_token * (settings.tokens + first * (settings.micro_batches - 1))
    timed = a_token * settings.tokens * settings.timed.micro_batches
    return offloaded / _HOST_BYTES_PER_S + once + min(REPETITIONS * timed, max(timed, REPEAT_S + timed / 2))
