"""One pass over one model: the moments it goes through, and upper ends for what they leave out."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.batch.padding import reaching
from tuner.memory.fsdp.one_unit import one_unit
from tuner.memory.fsdp.row_masks import row_tokens_of, with_row_masks
from tuner.memory.head.squares import holds_squares, squares_term
from tuner.memory.ledger.terms import Moment
from tuner.workload import Backend, Checkpointing

_Moments = Callable[[PassInput], tuple[Moment, ...]]


def as_counted(pass_input: PassInput) -> PassInput:
    """One pass for all passes whose moments are the same, so that they are counted once.

    Under FSDP they depend on whether an optimizer step has a second micro-batch, not on how many more follow:
    what its steps keep of all of them is counted apart, in :mod:`tuner.memory.fsdp.kept_inputs`.
    """
    if pass_input.engine.backend is Backend.MEGATRON:
        return pass_input
    return replace(pass_input, micro_batches=min(2, pass_input.micro_batches), step_tokens=None)


# Advice compares hundreds of workloads that differ in one pass.
@lru_cache(maxsize=2048)
def pass_moments(pass_input: PassInput, *, training: bool) -> tuple[Moment, ...]:
    """What is allocated beyond the resident states, at each moment of a pass.

    Args:
        pass_input: model, engine, head and the tokens of one micro-batch.
        training: True for forward, backward and optimizer step; False for forward only.
    """
    forward, update = _moments_of(pass_input.engine.backend)
    moments = update(pass_input) if training else forward(pass_input)
    if pass_input.engine.masks_rows(row_tokens_of(pass_input)):
        moments = with_row_masks(moments, pass_input, training=training)
    if pass_input.patches is None:
        return moments
    from tuner.memory.vision.moments import with_tower  # few jobs have images

    return with_tower(moments, pass_input, training=training)


def _moments_of(backend: Backend) -> tuple[_Moments, _Moments]:
    """The forward and the training pass of an engine; only the engine that a job has is imported."""
    match backend:
        case Backend.FSDP:
            from tuner.memory.fsdp.fsdp1 import passes as fsdp1

            return fsdp1.forward_moments, fsdp1.training_moments
        case Backend.FSDP2:
            from tuner.memory.fsdp.fsdp2 import passes as fsdp2

            return fsdp2.forward_moments, fsdp2.training_moments
        case Backend.MEGATRON:
            from tuner.memory.megatron import passes as megatron

            return megatron.forward_moments, megatron.training_moments
        case Backend.NOT_MODELLED:
            raise ValueError("no bytes are known of an engine that is not modelled")


def with_upper_ends(
    moments: Sequence[Moment], pass_input: PassInput, *, most_tokens: int, training: bool
) -> tuple[Moment, ...]:
    """The moments of a pass with upper ends for what nobody counts.

    More tokens, which padding adds to a token budget; every activation, where Megatron recomputes parts of
    its own choice; one unit for the whole model, where a policy of the user's decides FSDP's; and the sum of
    squared probabilities.

    Args:
        moments: as they are counted.
        pass_input: the pass.
        most_tokens: that a micro-batch may have.
        training: True for forward, backward and optimizer step; False for forward only.
    """
    most = _most(pass_input, most_tokens)
    reached = (
        tuple(moments) if most == pass_input else reaching(moments, pass_moments(most, training=training))
    )
    unit = None if pass_input.engine.backend is Backend.MEGATRON else one_unit(pass_input, training=training)
    squares = squares_term(pass_input, tokens=most_tokens, training=training)
    if unit is None and squares is None:
        return reached
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
            for at in reached
        ]
    )


def _most(pass_input: PassInput, tokens: int) -> PassInput:
    engine = pass_input.engine
    if engine.recomputes_parts:
        engine = replace(engine, checkpointing=Checkpointing.NONE)
    return replace(pass_input, tokens=max(tokens, pass_input.tokens), engine=engine)
