"""With which values of one setting a job fits, everything else kept.

An answer that rests on a default is only as good as the default is true. This says how far the
setting may be from it: up to how many tokens, sequences or which share of the card every phase fits.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from math import ceil, isqrt

from msgspec import Struct
from msgspec.structs import replace

from tuner import batching
from tuner.memory.estimate import estimate
from tuner.workload import Checkpointing, Pass, Quantity, Workload

_CLOSE = 1.02  # a limit is found to within two percent
_SHARES = tuple(share / 100 for share in range(5, 100, 5))
_SIZES = (
    Quantity.MAX_PROMPT_TOKENS,
    Quantity.MAX_RESPONSE_TOKENS,
    Quantity.TOKEN_BUDGET,
    Quantity.MICRO_BATCH_SEQUENCES,
)


class Fitting(Struct, frozen=True, kw_only=True):
    """The values of a setting with which a job fits: from ``low`` to ``high``, both included.

    Both are None when no value was found that fits. A switch is 0 or 1. ``certain`` is the largest of a
    size with which even the high end of every interval fits; None where there is none, or where the
    setting is no size.
    """

    quantity: Quantity
    low: float | None
    high: float | None
    most: float  # the largest value that was asked about; more makes no difference or no sense
    certain: float | None = None


def _with_length(workload: Workload, name: str, tokens: float) -> Workload:
    """The job with other lengths, which its rollout engine does not end before."""
    return workload.with_batch(**{name: int(tokens), "engine_tokens": None})


def _with_budget(workload: Workload, tokens: float) -> Workload:
    """The budget of the update, and of the passes that go by the same one."""
    actor, reference = workload.actor, workload.reference
    budget = actor.update.batching.token_budget

    def changed(one: Pass) -> Pass:
        if one.batching.token_budget != budget:
            return one
        return replace(one, batching=replace(one.batching, token_budget=int(tokens)))

    log_prob = None if actor.log_prob is None else changed(actor.log_prob)
    workload = workload.with_actor(update=changed(actor.update), log_prob=log_prob)
    return workload if reference is None else workload.with_reference(log_prob=changed(reference.log_prob))


def _with_micro_batch(workload: Workload, sequences: float) -> Workload:
    update = workload.actor.update
    batched = replace(update.batching, micro_batch_sequences=int(sequences))
    return workload.with_actor(update=replace(update, batching=batched))


def _packed(workload: Workload, on: float) -> Workload:
    workload = workload.with_actor_engine(packed=bool(on))
    if workload.reference is None:
        return workload
    return workload.with_reference(engine=replace(workload.reference.engine, packed=bool(on)))


_CHANGES: dict[Quantity, Callable[[Workload, float], Workload]] = {
    Quantity.MAX_PROMPT_TOKENS: lambda job, value: _with_length(job, "max_prompt_tokens", value),
    Quantity.MAX_RESPONSE_TOKENS: lambda job, value: _with_length(job, "max_response_tokens", value),
    Quantity.TOKEN_BUDGET: _with_budget,
    Quantity.MICRO_BATCH_SEQUENCES: _with_micro_batch,
    Quantity.MEMORY_FRACTION: lambda job, value: job.with_rollout(memory_fraction=value),
    Quantity.PARAM_OFFLOAD: lambda job, value: job.with_actor_engine(param_offload=bool(value)),
    Quantity.OPTIMIZER_OFFLOAD: lambda job, value: job.with_actor_engine(optimizer_offload=bool(value)),
    Quantity.CHECKPOINTING: lambda job, value: job.with_actor_engine(
        checkpointing=Checkpointing.FULL if value else Checkpointing.NONE
    ),
    Quantity.PACKED: _packed,
}


def _most(workload: Workload, quantity: Quantity) -> int:
    """The largest number worth asking about."""
    batch, engine = workload.batch, workload.actor.engine
    if quantity is Quantity.MAX_PROMPT_TOKENS:
        return workload.model.max_positions - batch.max_response_tokens
    if quantity is Quantity.MAX_RESPONSE_TOKENS:
        return workload.model.max_positions - batch.max_prompt_tokens
    sequences = batching.local_sequences(batch, engine, optimizer_step=True)
    if quantity is Quantity.MICRO_BATCH_SEQUENCES:
        return sequences
    return ceil(sequences * batch.sequence_tokens / engine.parallel.sequence_split)


def _now(workload: Workload, quantity: Quantity) -> int:
    """What a size is set to."""
    batch, batching_of_update = workload.batch, workload.actor.update.batching
    return {
        Quantity.MAX_PROMPT_TOKENS: batch.max_prompt_tokens,
        Quantity.MAX_RESPONSE_TOKENS: batch.max_response_tokens,
        Quantity.TOKEN_BUDGET: batching_of_update.token_budget,
        Quantity.MICRO_BATCH_SEQUENCES: batching_of_update.micro_batch_sequences,
    }[quantity]


def values_that_fit(workload: Workload, quantity: Quantity) -> Fitting:
    """Ask about one setting.

    A job that fits for certain is asked how far it does so, another one how far it is expected to.
    Sizes are bisected, since a job that fits with one fits with a smaller one; the fraction of the
    rollout engine, which may be too small as well as too large, goes in steps of 0.05.
    """
    certain = estimate(workload).fits_for_certain()

    def fits(value: float, *, surely: bool = certain) -> bool:
        estimated = estimate(_CHANGES[quantity](workload, value))
        return estimated.fits_for_certain() if surely else estimated.fits()

    if quantity in _SIZES:
        now, most = _now(workload, quantity), max(1, _most(workload, quantity))
        safe = largest = _largest(now, most, fits)
        if largest is not None and not certain:
            safe = _largest(now, largest, partial(fits, surely=True))
        low = None if largest is None else 1
        return Fitting(quantity=quantity, low=low, high=largest, most=most, certain=safe)
    share = quantity is Quantity.MEMORY_FRACTION
    fitting = (
        _shares(workload.generator.memory_fraction, fits)
        if share
        else [value for value in (0.0, 1.0) if fits(value)]
    )
    return Fitting(
        quantity=quantity,
        low=min(fitting, default=None),
        high=max(fitting, default=None),
        most=_SHARES[-1] if share else 1.0,
    )


def _shares(now: float, fits: Callable[[float], bool]) -> list[float]:
    """Shares that fit, the smallest and the largest of them included.

    Around a share that fits, the nearest that does not is bisected; otherwise every second is tried.
    """
    if not fits(now):
        return [share for share in _SHARES[1::2] if fits(share)]
    shares = [now]
    for side in ([share for share in _SHARES if share > now], [share for share in _SHARES if share < now]):
        side.sort(key=lambda share: abs(share - now))
        shares += side[: bisect_left(side, True, key=lambda share: not fits(share))]
    return shares


def _largest(now: int, most: int, fits: Callable[[float], bool]) -> int | None:
    """The largest whole number up to ``most`` that fits, to within two percent; between it and ``now``."""
    if fits(most):
        return most
    low, high = (now, most) if now < most and fits(now) else (1, min(now, most))
    if low == 1 and not fits(low):
        return None
    while high - low > 1 and high / low > _CLOSE:
        middle = isqrt(low * high)
        middle = middle if low < middle < high else low + 1
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
