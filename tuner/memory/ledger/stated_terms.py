"""Terms that are stated once: a function over symbols computes the bytes, writes the formula, is the source.

The parameters of such a function are the symbols of its formula. Called with numbers it gives bytes; called
with formulas it gives its text. A condition is no symbol: it is bound beforehand by ``functools.partial``.

Source: torch ``ATen/core/CachingHostAllocator.h``.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import ceil
from types import FunctionType
from typing import Any, cast

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.memory.ledger.formula import Expression, names
from tuner.memory.ledger.terms import Item, Term

Size = Callable[..., Any]
"""Bytes by symbols, all of them keyword parameters."""


_Statement = tuple[tuple[str, ...], str, tuple[str, ...], str]
"""The parameters of a function, its formula, the symbols that are left in it, and where it stands."""
#: Times the tensor: the next power of two.
MOST = 2


def stated(
    item: Item,
    name: str,
    size: Size,
    numbers: Mapping[str, float],
    *,
    evidence: Evidence = Evidence.EXACT,
    source: Callable[..., Any] | None = None,
    interval: tuple[int, int] | None = None,
) -> Term:
    """A term whose bytes, formula and source come from one function.

    Args:
        item: what it is.
        name: its stable identifier.
        size: the function; its result is rounded up to whole bytes.
        numbers: by symbol, at least those that the function takes.
        evidence: how sure it is.
        source: the function whose docstring explains the term, if that is another one.
        interval: the least and the most bytes, where the size is not derived.
    """
    parameters, formula, used, path = _statement_of(size)
    low, high = interval or (None, None)
    return Term(
        item=item,
        name=name,
        bytes=_value(size, parameters, numbers),
        evidence=evidence,
        formula=formula,
        symbols=tuple(zip(used, map(numbers.__getitem__, used), strict=True)),
        source=path if source is None else path_of(source),
        low_bytes=low,
        high_bytes=high,
    )


def bytes_of(size: Size, numbers: Mapping[str, float]) -> int:
    """What a function over symbols gives for these numbers, rounded up to whole bytes."""
    return _value(size, symbols_of(size), numbers)


def _value(size: Size, parameters: Sequence[str], numbers: Mapping[str, float]) -> int:
    value: float = size(**dict(zip(parameters, map(numbers.__getitem__, parameters), strict=True)))
    return value if isinstance(value, int) else ceil(value)  # a recorded number stays one


def formula_of(size: Size) -> str:
    """The formula that a function over symbols computes."""
    return _statement_of(size)[1]


@lru_cache(maxsize=1024)
def path_of(source: Callable[..., Any]) -> str:
    """Where a function stands, as terms name it: ``"memory.host.node.weights_on_host"``."""
    if isinstance(source, partial):
        source = source.func
    return f"{source.__module__.removeprefix('tuner.')}.{source.__qualname__}"


def rooms_of(path: str) -> Iterator[str]:
    """The module of a function, then the packages that hold it, the nearest first."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def symbols_of(size: Size) -> tuple[str, ...]:
    """The symbols that a function takes; conditions that are bound beforehand are none."""
    return _statement_of(size)[0]


def is_stated(function: Callable[..., Any]) -> bool:
    """Whether a function's parameters are symbols, and nothing else, so that it writes its own formula."""
    parameters = inspect.signature(function).parameters.values()
    return bool(parameters) and all(
        parameter.kind is parameter.KEYWORD_ONLY and parameter.annotation is not bool
        for parameter in parameters
    )


def _statement_of(size: Size) -> _Statement:
    """What decides the text of a formula is the function, and the conditions that are bound beforehand."""
    if type(size) is partial:
        return _statement(size.func, tuple(size.keywords.items()))
    return _statement(size)


@lru_cache(maxsize=1024)  # a formula is written once, however many jobs are priced
def _statement(size: Size, bound: Sequence[tuple[str, Any]] = ()) -> _Statement:
    conditions = dict(bound)
    parameters = tuple(name for name in _keywords(size) if name not in conditions)
    written = size(**{name: Expression.symbol(name) for name in parameters}, **conditions)
    return parameters, str(written), names(str(written)), path_of(size)


def _keywords(size: Size) -> tuple[str, ...]:
    """The keyword parameters of a function, read off its code, which is faster than a signature."""
    code = cast(FunctionType, size).__code__
    first = code.co_argcount
    return code.co_varnames[first : first + code.co_kwonlyargcount]


def pinned(item: Item, name: str, size: Size, numbers: Mapping[str, float], *, most: int = MOST) -> Term:
    """A term of the host, up to ``most`` times as large as its tensors."""
    exact = stated(item, name, size, numbers)
    return replace(exact, low_bytes=exact.bytes, high_bytes=most * exact.bytes)
