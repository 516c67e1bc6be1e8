"""The upper ends of a pass: what is left out of its moments, where the most that it takes is known."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.batch.padding import reaching
from tuner.memory.fsdp.one_unit import one_unit
from tuner.memory.head.squares import holds_squares, squares_term
from tuner.memory.ledger.terms import Moment
from tuner.memory.passes.moments import pass_moments
from tuner.workload import Backend, Checkpointing


def with_upper_ends(
    moments: Sequence[Moment], given: PassInput, *, most_tokens: int, training: bool
) -> tuple[Moment, ...]:
    """The moments of a pass with upper ends for what nobody counts.

    More tokens, which padding adds to a token budget; every activation, where Megatron recomputes parts of
    its own choice; one unit for the whole model, where a policy of the user's decides FSDP's; and the sum of
    squared probabilities.

    Args:
        moments: as they are counted.
        given: the pass.
        most_tokens: that a micro-batch may have.
        training: True for forward, backward and optimizer step; False for forward only.
    """
    most = _most(given, most_tokens)
    found = tuple(moments) if most == given else reaching(moments, pass_moments(most, training=training))
    unit = None if given.engine.backend is Backend.MEGATRON else one_unit(given, training=training)
    squares = squares_term(given, tokens=most_tokens, training=training)
    if unit is None and squares is None:
        return found
    return tuple(
        [
            Moment(
                name=at.name,
                terms=(
                    *at.terms,
                    *(() if unit is None else (unit,)),
                    *((squares,) if squares is not None and holds_squares(at, training=training) else ()),
                ),
            )
            for at in found
        ]
    )


def _most(given: PassInput, tokens: int) -> PassInput:
    engine = given.engine
    if engine.recomputes_parts:
        engine = replace(engine, checkpointing=Checkpointing.NONE)
    return replace(given, tokens=max(tokens, given.tokens), engine=engine)
