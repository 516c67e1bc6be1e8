"""Methods of verl's workers that are phases of a step: what is put around them.

The record never stands between verl and its own errors: what a method raises goes on as it is, and what the
recording raises ends the recording.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from tuner.inside_verl.record.batch import told_step, validates, without_adapter
from tuner.inside_verl.record.configuration import write_worker_configuration
from tuner.inside_verl.record.process import recorder
from tuner.inside_verl.record.worker import gpus_of_node, is_critic, worker_of
from tuner.workload.step import Phase

_STEP_ARGUMENTS = ("global_steps", "global_step")  # of update_weights, of save_checkpoint

Which = Callable[[Any], Phase | None]
"""From the worker to the phase that its method is; None where it is none."""


def phase_wrapper(
    phase: Phase | Which, *, then: Phase | None = None, ends: Phase | None = None
) -> Callable[[Any], Any]:
    """What makes the replacement of a method that is a phase.

    Args:
        phase: that the method is.
        then: that runs between this method and the next phase.
        ends: that this method ends, where it runs; it is no phase itself then.
    """

    def make(original: Any) -> Any:
        names = _parameters(original)
        if inspect.iscoroutinefunction(original):

            @wraps(original)
            async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
                with _around(self, _Call(phase, names, args, kwargs), then, ends):
                    return await original(self, *args, **kwargs)

            return awaited

        @wraps(original)
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            with _around(self, _Call(phase, names, args, kwargs), then, ends):
                return original(self, *args, **kwargs)

        return called

    return make


class _Call:
    """One call of a method, and what its arguments say."""

    def __init__(
        self, phase: Phase | Which, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._phase, self._arguments = phase, dict(zip(names, args, strict=False)) | kwargs

    @property
    def data(self) -> Any:
        return next((self._arguments[name] for name in ("data", "prompts") if name in self._arguments), None)

    def phase(self, worker: Any) -> Phase | None:
        if validates(self.data):
            return None
        phase = self._phase if isinstance(self._phase, Phase) else self._phase(worker)
        # The reference of a job that trains adapters is the actor without them, asked by the same method.
        return Phase.REF_LOG_PROB if phase is Phase.OLD_LOG_PROB and without_adapter(self.data) else phase

    @property
    def step(self) -> int | None:
        for name in _STEP_ARGUMENTS:
            value = self._arguments.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return told_step(self.data)


@contextmanager
def _around(instance: Any, call: _Call, then: Phase | None, ends: Phase | None) -> Iterator[None]:
    record = recorder()
    begun: list[bool] = []

    def begin() -> None:
        if ends is not None:
            if record.running(ends):
                record.end(None)
            return
        phase = call.phase(instance)
        if phase is None:
            record.measure(call.data)
        else:
            worker = worker_of(instance)
            begun.append(record.begin(phase, worker, call.data, told=call.step))
            if phase is Phase.UPDATE_ACTOR and begun[0] and worker.rank == 0:
                write_worker_configuration(record.folder, instance, worker, call.data, gpus_of_node())

    record.guard.run(begin)
    try:
        yield
    except BaseException as error:
        raised = error  # the name of an except clause is gone behind it
        if any(begun):
            record.guard.run(lambda: record.end(raised))
        raise
    if any(begun):
        record.guard.run(lambda: record.end(None))
        if then is not None:
            worker = worker_of(instance)
            record.guard.run(lambda: _begin_span(then, worker))


def _begin_span(phase: Phase, worker: Any) -> None:
    recorder().begin(phase, worker, None, told=None, spans=True)


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a method's parameters without the worker itself."""
    return tuple(inspect.signature(function).parameters)[1:]


def train_mini_batch(worker: Any) -> Phase:
    """The update of a training worker: of the critic, else of the actor."""
    return Phase.UPDATE_CRITIC if is_critic(worker) else Phase.UPDATE_ACTOR


def infer_batch(worker: Any) -> Phase | None:
    """A pass of a training worker without gradient: values of the critic; a validation of other models."""
    return Phase.VALUES if is_critic(worker) else None
