"""What stands in for Python's own while the memory model runs on numbers that are not known.

``max``, ``min`` and ``int`` know such numbers, nothing is cached, and a function with many ways through it
that ends in one size gives one expression.
"""

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from calculator import merged, numbers
from calculator.merging import (
    Merge,
    Program,
    merging,
    of_all,
    of_head,
    of_layer,
    of_model_and_engine,
    of_pass,
    of_this_layer,
    universal,
)
from calculator.numbers import Fraction, Number
from calculator.paths import Explorer
from tuner.evidence import Evidence
from tuner.hardware import Gpu
from tuner.memory import residents as residents
from tuner.memory import saving
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.estimate import _Step
from tuner.memory.fsdp import shared_backward, shared_terms, units, weights_left_gathered
from tuner.memory.fsdp.fsdp1 import passes as fsdp1
from tuner.memory.fsdp.fsdp2 import passes as fsdp2
from tuner.memory.layer import activations, backward_stages
from tuner.memory.ledger import formula
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process import communicators
from tuner.memory.process import terms as process_terms
from tuner.memory.residents import Residents, States
from tuner.memory.rollout import kv_cache, share
from tuner.memory.rollout import process as rollout_process
from tuner.memory.rollout import terms as rollout_terms
from tuner.memory.weight_sync import transfer as weight_sync

_ROOMS = ("tuner.memory", "tuner.batching", "tuner.workload", "tuner.model_shape", "tuner.hardware")
_ESTIMATE = sys.modules[_Step.__module__]
_LAYER = shared_backward.LayersBackward
#: Where ways that lead to one result are brought together, and how: of something that one run makes.
_MERGED: tuple[tuple[Any, str, Merge], ...] = (
    (_Step, "around_pass", merged.terms),
    *((States, name, merged.terms) for name in ("idle", "forward", "training", "at_start", "after_forward")),
    (Residents, "idle_reference", merged.terms),
    (share.CacheShare, "cache_term", merged.terms),
    (share.CacheShare, "cache", merged.number),
    (PassInput, "fused_head", merged.flag),
)
#: The same of the workload or its parts alone, so that it holds on any way; and what tells these apart.
_UNIVERSAL: tuple[tuple[Any, str, Merge, Program], ...] = (
    (_ESTIMATE, "pass_moments", merged.moments, of_pass),
    (_LAYER, "layer", merged.terms, of_layer),
    (_LAYER, "saved", merged.terms, of_this_layer),
    (shared_terms, "head_term", merged.terms, of_head),
    (residents, "left_gathered", merged.terms, of_all),
    (residents, "states_of", merged.states, of_all),
    (process_terms, "context_term", merged.terms, of_all),
    (rollout_terms, "engine_process", merged.terms, of_all),
    *((room, "engine_graphs", merged.terms, of_all) for room in (rollout_terms, share)),
    (share, "process_parts", merged.constants, of_all),
    *(
        (room, name, merged.constant, of_all)
        for room in (process_terms, rollout_process)
        for name in ("context", "communicator", "library")
    ),
    *((process_terms, name, merged.constant, of_all) for name in ("lone_communicator", "peer")),
    (Gpu, "capacity_bytes", merged.number, of_all),
)
#: Numbers that follow from a model and an engine: where they are computed, and who imports them by name.
_NUMBERS: tuple[tuple[Any, str, tuple[Any, ...]], ...] = (
    *(
        (activations, name, (backward_stages, shared_backward))
        for name in (
            "layer_saved_bytes",
            "layer_inside_bytes",
            "gradients_in_flight_bytes",
            "final_norm_bytes",
            "shared_token_bytes",
        )
    ),
    *(
        (units, name, (weights_left_gathered, weight_sync))
        for name in ("root_parameters", "head_unit_parameters", "first_unit_parameters")
    ),
)


class _KnowsNumbers(type):
    def __instancecheck__(cls, value: object) -> bool:
        return builtins.isinstance(value, int)


class _Int(metaclass=_KnowsNumbers):
    def __new__(cls, value: Any = 0, *rest: Any) -> Any:
        return value if isinstance(value, Number) else int(value, *rest)


def _largest(*values: Any, key: Callable[[Any], Any] | None = None, **default: Any) -> Any:
    return _extreme(builtins.max, numbers.largest, values, key, default)


def _smallest(*values: Any, key: Callable[[Any], Any] | None = None, **default: Any) -> Any:
    return _extreme(builtins.min, numbers.smallest, values, key, default)


def _extreme(
    plain: Callable[..., Any],
    symbolic: Callable[[list[Any]], Number],
    values: tuple[Any, ...],
    key: Callable[[Any], Any] | None,
    default: dict[str, Any],
) -> Any:
    listed = list(values) if len(values) > 1 else list(values[0])
    if key is None and any(isinstance(value, (Number, Fraction)) for value in listed):
        return symbolic(listed)
    if key is None or len(listed) < 2:
        return plain(listed, **default) if key is None else plain(listed, key=key, **default)
    best, most = listed[0], key(listed[0])
    for value in listed[1:]:
        size = key(value)
        better = (size > most) if plain is builtins.max else (size < most)
        if isinstance(better, numbers.Condition) and isinstance(best, merged.TOGETHER):
            best = merged.one_of(better, value, best)
            most = symbolic([size, most])
        elif better:
            best, most = value, size
    return best


def _moment(name: str, *terms: Term | None) -> Moment:
    """A moment with all terms that may be there."""
    return Moment(name=name, terms=_there(*terms))


def _there(*terms: Term | None) -> tuple[Term, ...]:
    """The terms that there may be."""
    return tuple([term for term in terms if term is not None and not _nothing(term.high)])


def _nothing(size: Any) -> bool:
    return size is numbers.constant(0) if isinstance(size, Number) else size == 0


def _resident(around: tuple[Term, ...]) -> Moment:
    return Moment(name="resident", terms=_there(*around))


def _caches() -> list[Any]:
    """Everything in the memory model that remembers results."""
    found: dict[int, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_ROOMS):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    found[id(value)] = value
    return list(found.values())


def forgetter() -> Callable[[], None]:
    """What makes the memory model forget the results of an earlier run."""
    caches = _caches()

    def forget() -> None:
        for cache in caches:
            cache.cache_clear()

    return forget


class _Later:
    """The communicators of a workload, which are counted where their bytes are."""

    def __init__(self, workload: Any) -> None:
        self.workload = workload


def _of_connected(name: str, communicators: Any, gpu: Any) -> Any:
    return name, id(getattr(communicators, "workload", communicators)), id(gpu)


def _again(program: Any, made: Callable[[Any], Any]) -> Any:
    """A function, or a property of it, made anew."""
    if isinstance(program, property):
        return property(made(program.fget))
    return property(made(program.func)) if isinstance(program, functools.cached_property) else made(program)


def _remembering(explorer: Explorer) -> Callable[..., Any]:
    """What a cached property is on the way that is taken."""

    def get(self: Any, instance: Any, owner: Any = None) -> Any:
        if instance is None or not explorer.paths:
            return self if instance is None else self.func(instance)
        return explorer.once((id(instance), self.attrname), lambda: (self.func(instance), instance))[0]

    return get


def _as_fraction(number: Any, plain: Callable[[Any], Any]) -> Any:
    return number if isinstance(number, (Fraction, Number)) else plain(number)


def _stands_in(explorer: Explorer, cached_layers: Callable[[], Any]) -> Iterator[tuple[Any, str, Any]]:
    """What is replaced: where, its name, by what."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_ROOMS):
            yield module, "max", _largest
            yield module, "min", _smallest
            yield module, "int", _Int
    yield from _sizes(explorer)
    yield from _parts(explorer)
    yield from _presence()
    yield from _communicators(explorer)
    yield activations, "layer_evidence", lambda model: Evidence.MODELLED
    yield kv_cache, "cached_layers", lambda model, rollout: cached_layers()
    fraction = vars(formula)["_fraction"]
    yield formula, "_fraction", lambda number: _as_fraction(number, fraction)
    yield functools.cached_property, "__get__", _remembering(explorer)


def _sizes(explorer: Explorer) -> Iterator[tuple[Any, str, Any]]:
    """Numbers that follow from a model and an engine."""
    for home, name, rooms in _NUMBERS:
        program = vars(home)[name]
        one = universal(explorer, program, merged.number, of_model_and_engine)
        for room in (home, *rooms):
            if vars(room).get(name) is program:
                yield room, name, one


def _parts(explorer: Explorer) -> Iterator[tuple[Any, str, Any]]:
    """Terms and moments."""
    for owner, name, merge in _MERGED:
        yield owner, name, _again(vars(owner)[name], partial(merging, explorer, merge=merge))
    for owner, name, merge, key in _UNIVERSAL:
        yield owner, name, _again(vars(owner)[name], partial(universal, explorer, merge=merge, key=key))


def _presence() -> Iterator[tuple[Any, str, Any]]:
    """Whether a term is there is not asked of its size."""
    for room in (fsdp1, fsdp2):
        yield room, "moment", _moment
    for room in (rollout_terms, weight_sync, saving):
        yield room, "_present", _there
    yield _ESTIMATE, "_resident", _resident


def _communicators(explorer: Explorer) -> Iterator[tuple[Any, str, Any]]:
    """The communicators of a process, counted where their bytes are."""
    counted, term = vars(communicators)["trainer_communicators"], vars(process_terms)["communicators_term"]

    def connected(name: str, counts: Any, gpu: Any) -> Any:
        return term(name, counted(counts.workload) if isinstance(counts, _Later) else counts, gpu)

    yield communicators, "trainer_communicators", _Later
    yield process_terms, "communicators_term", universal(explorer, connected, merged.terms, _of_connected)


_MISSING = object()


@contextmanager
def standing_in(explorer: Explorer, cached_layers: Callable[[], Any]) -> Iterator[None]:
    """The memory model with numbers that are not known; as it was afterwards."""
    replaced = [
        (owner, name, vars(owner).get(name, _MISSING), new)
        for owner, name, new in _stands_in(explorer, cached_layers)
    ]
    for owner, name, _, new in replaced:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, old, _ in reversed(replaced):
            if old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
