"""What a trace did not count, so that a job which depends on it is refused instead of guessed at."""

from collections.abc import Iterator

from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, Workload

_COUNTED_BYTES = 2  # of the compute dtype: bfloat16, and float16 alike


def expect_counted(workload: Workload) -> None:
    """Nothing, once it is sure that what a trace counted is what the job does.

    Raises:
        UnsupportedError: a traced model runs in an engine, number format or with adapters that were not.
    """
    for model, engine in _trained(workload):
        reason = _not_counted(model, engine)
        if reason is not None:
            raise UnsupportedError(
                _("the trace of {model} does not hold for this job: {reason}").format(
                    model=model.name, reason=reason
                )
            )


def expect_counted_format(model: ModelShape, dtype: DType) -> None:
    """Nothing, once it is sure that activations in a number format are what was counted, if any were.

    Raises:
        UnsupportedError: they are of another size.
    """
    if model.traced is not None and dtype.bytes != _COUNTED_BYTES:
        raise UnsupportedError(
            _("the trace of {model} does not hold: {other_format}").format(
                model=model.name, other_format=_other_format(dtype)
            )
        )


def _other_format(dtype: DType) -> str:
    return _("it computes in {dtype}, and bfloat16 was counted").format(dtype=dtype.value)


def _trained(workload: Workload) -> Iterator[tuple[ModelShape, Engine]]:
    yield workload.model, workload.actor.engine
    if workload.reference is not None:
        yield workload.model, workload.reference.engine
    if workload.critic is not None:
        yield workload.critic.model, workload.critic.engine


def _not_counted(model: ModelShape, engine: Engine) -> str | None:
    if model.traced is None:
        return None
    if engine.backend is Backend.MEGATRON:
        return _("Megatron has layers of its own, and transformers' were counted")
    if engine.fused_layers:
        return _("Liger's kernels replace the layers that were counted")
    if engine.compute_dtype.bytes != _COUNTED_BYTES:
        return _other_format(engine.compute_dtype)
    if engine.parallel.ulysses > model.kv_heads:
        return _("sequence parallelism over more ranks than there are key heads repeats keys, uncounted")
    if engine.lora is not None and any(kind.adapted is None for kind in model.traced.kinds):
        return _("its layers could not be counted with adapters")
    return None
