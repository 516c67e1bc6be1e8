r"""An engine's scheduler, moved on from event to event.

Between two events - sequences are admitted, or end, or lose their room in the KV cache - the same
sequences run and each grows by a token in a step, so a whole stretch of steps is one entry of the result.

In every step the engine first serves the sequences that run, then admits waiting ones in their order
while fewer than ``max_num_seqs`` run, the step has tokens left, and the cache has room for what the
sequence has *now*: its prompt, and what it had generated before it was preempted. A prompt takes as many
steps as its tokens need beside those of the running sequences, or steps of its own where prompts are not
computed in chunks; the last of them yields the first token. When the running sequences cannot grow by
another token, the youngest lose their room and wait at the head of the queue; nothing is admitted before
a sequence has ended, since what was freed is for those that grow. Back again, a sequence computes its
tokens once more, with prefix caching only those whose blocks were taken meanwhile.

SGLang admits a sequence only while there is room for all that it may generate, and for a part of what the
running ones may still: 0.7 of it in the first step, falling to 0.098 in 600 steps.

Events are grouped: prompts that take many steps are admitted in parts of a sixteenth of all those steps,
turns of conversations in parts of what would be a 256th if each of them computed its conversation again, and
what a preemption frees is a forty-eighth of the cache at least. So times are true to a few hundredths,
and a larger cache or limit may cost as much.

Source: vLLM ``v1/core/sched/scheduler.py`` (``schedule``), SGLang ``managers/schedule_policy.py``
(``PrefillAdder``), ``managers/schedule_batch.py`` (``retract_decode``).
"""

from functools import lru_cache

from msgspec import structs

from tuner.timing.generation.engine import SimulatedEngine
from tuner.timing.generation.load import Load, Simulated


@lru_cache(maxsize=128)
def simulate(load: Load) -> Simulated:
    """Run one engine until its last sequence has ended."""
    simulations = _with_room(load)
    return simulations[0] if simulations else SimulatedEngine(load).run()


@lru_cache(maxsize=256)
def as_far_as_decides(load: Load) -> Load:
    """The load with a cache that holds all its sequences, where its own one makes no difference to that.

    So proposals that only give the engine more cache than it uses are simulated once.
    """
    longest = max(load.reserved_tokens, *(length for _, length in load.responses))
    roomy = structs.replace(load, cache_tokens=2 * load.sequences * (load.held_prompt + longest + 1))
    simulations = _with_room(roomy)
    if not simulations:
        # Until a cache makes a difference an engine does what it does in any larger one.
        simulated = simulate(load)
        if simulated.refused or simulated.enough_tokens > load.cache_tokens:
            return load
        simulations.append(simulated)
    return roomy if load.cache_tokens >= simulations[0].enough_tokens else load


@lru_cache(maxsize=256)
def _with_room(roomy: Load) -> list[Simulated]:
    """What an engine with room for all its sequences did, once that is known."""
    return []
