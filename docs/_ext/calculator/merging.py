"""Functions of the memory model whose many ways end in one result."""

import functools
from collections.abc import Callable
from typing import Any

from calculator.paths import Explorer

Program = Callable[..., Any]
Merge = Callable[[Any], Any]


def merging(explorer: Explorer, program: Program, merge: Merge) -> Program:
    """A function whose ways are brought together, those that what is known leaves."""

    @functools.wraps(program)
    def merged(*args: Any, **named: Any) -> Any:
        return merge(explorer.tree(lambda: program(*args, **named)))

    return merged


def universal(explorer: Explorer, program: Program, merge: Merge, key: Program) -> Program:
    """A function of which every way is explored once, whatever is known where it is called."""
    known: dict[Any, tuple[Any, Any]] = {}

    @functools.wraps(program)
    def merged(*args: Any, **named: Any) -> Any:
        told = key(*args, **named)
        if told not in known:  # what it was given is kept, so that nothing else gets its identity
            known[told] = (merge(explorer.tree(lambda: program(*args, **named), alone=True)), (args, named))
        return known[told][0]

    return merged


def of_all(*args: Any, **named: Any) -> Any:
    """What tells calls apart by all that they are given."""
    given = (*args, *named.values())
    return tuple(one if isinstance(one, (str, bool)) else id(one) for one in given)


def of_model_and_engine(model: Any, engine: Any, layer: int | None = None) -> Any:
    """By model and engine alone: the layers of a dense model are all alike."""
    return id(model), id(engine)


def of_head(micro_batch: Any, *, training: bool) -> Any:
    """By what the output head of a pass depends on."""
    parts = (micro_batch.model, micro_batch.engine, micro_batch.head, micro_batch.tokens, micro_batch.entropy)
    return (*map(id, parts), training)


def of_pass(given: Any, *, training: bool) -> Any:
    """By all of a pass."""
    return (*(id(getattr(given, field)) for field in given.__struct_fields__), training)


def of_layer(own: Any, layer: int) -> Any:
    """By what a layer's backward pass depends on, whichever layer it is."""
    micro_batch = own.shared.micro_batch
    return id(micro_batch.model), id(micro_batch.engine), id(micro_batch.tokens)


def of_this_layer(own: Any, layer: int) -> Any:
    """By that and the layer."""
    return (*of_layer(own, layer), layer)
