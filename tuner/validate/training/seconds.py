"""What training passes are likely to take, from their work: nothing better is known before one has run."""

from collections.abc import Sequence

from tuner.units import GIGA
from tuner.validate.training.groups import Try
from tuner.validate.training.passes import PlannedPass

REPETITIONS = 3
REPEAT_S = 1.5  # of one pass, for the time
_START_S = 4.0  # a CUDA context, the model's module, building, sharding and filling the weights
_HOST_BYTES_PER_S = 1.5 * GIGA  # of states that go to the host for the first time: its memory is page-locked
_LIGER_S = 3.0  # importing it, where it finds PEFT and that finds scikit-learn
_COMPILE_S = 2.0  # of each kind of pass with an entropy
_RATE = 0.35  # of the card's dense peak, reached by a training pass
_CPU_RATE = 2e10  # flop per second
_OF_A_TRAINED_TOKEN, _OF_A_TOKEN = 8, 2  # flop per parameter; recomputation counted


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
