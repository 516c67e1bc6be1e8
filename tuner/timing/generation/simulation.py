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
and what a preemption frees is a forty-eighth of the cache at least. So times are true to a few hundredths,
and a larger cache or limit may cost as much.

Source: vLLM ``v1/core/sched/scheduler.py`` (``schedule``), SGLang ``managers/schedule_policy.py``
(``PrefillAdder``), ``managers/schedule_batch.py`` (``retract_decode``).
"""

from functools import lru_cache
from heapq import heappop, heappush
from math import ceil, floor, inf
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from tuner.timing.generation.load import Load, Simulated, Stretch, Turns, Waiting

if TYPE_CHECKING:
    from tuner.timing.generation.away import Away

_ADMISSIONS = 16  # parts in which all prompts are computed, at least
_ADMITTED_SHARE = 1 / 48  # of the cache, which is free before more sequences come beside others
_PREEMPTED_SHARE = 1 / 48  # of it, which a preemption frees at least
_RETURNS = 8  # parts of a piece, to which it is known when a sequence comes back from its tools
_PIECES = 32  # of the longest response: in none of them the context grows by more
_RESERVED_FIRST, _RESERVED_LAST, _RESERVED_STEPS = 0.7, 0.098, 600


class _Running(Struct):
    """Sequences that were admitted together and leave the engine together."""

    count: int
    start: int  # the step after which they would have had no token, had they run since
    length: int
    place: int
    turn: int


@lru_cache(maxsize=128)
def simulate(load: Load) -> Simulated:
    """Run one engine until its last sequence has ended."""
    return _Engine(load).run()


@lru_cache(maxsize=256)
def as_far_as_decides(load: Load) -> Load:
    """The load with a cache that holds all its sequences, where its own one makes no difference to that.

    So proposals that only give the engine more cache than it uses are simulated once.
    """
    longest = max(load.reserved_tokens, *(length for _, length in load.responses))
    roomy = structs.replace(load, cache_tokens=2 * load.sequences * (load.held_prompt + longest + 1))
    return roomy if load.cache_tokens >= simulate(roomy).enough_tokens else load


def _nobody_away(turns: Turns) -> "Away":
    from tuner.timing.generation.away import Away  # few jobs have turns

    return Away(turns)


class _Engine:
    """State of the simulation. The clock counts steps in which the running sequences get a token."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._clock = 0
        self._waiting = [self._first(place) for place in reversed(range(len(load.responses)))]
        self._away = None if load.turns is None else _nobody_away(load.turns)
        self._queued = False  # somebody was refused, and some have waited since
        self._running: list[_Running] = []  # in order of their admission
        self._ends: list[tuple[int, int, _Running]] = []
        self._admitted = 0  # entries that were put among the running ones
        self._count = 0  # sequences that run
        self._starts = 0  # sum over them of the step at which they started
        self._given = 0.0  # tokens of the cache given out so far
        self._blocked = False  # nothing is admitted until a sequence ends
        self._stretches: list[Stretch] = []
        self._crowded: list[float] = [inf, 0]
        self._most = self._preempted = 0
        self._recomputed = 0.0
        self._peak = 0.0  # tokens of the cache that were taken or kept at once
        self._piece = max(1, max(length for _, length in load.responses) // _PIECES)
        steps = load.sequences * load.new_prompt / max(1, load.step_tokens - load.max_sequences)
        self._admission_steps = max(1, floor(steps / _ADMISSIONS))

    def run(self) -> Simulated:
        """Move on until nothing runs and nothing waits."""
        while self._waiting or self._count or self._away:
            self._come_back()
            if self._waiting and self._admit():
                if self._queued or self._away is None:
                    self._crowded[1] = len(self._stretches)
                    self._queued = bool(self._waiting)
            elif self._count:
                self._crowded[0] = min(self._crowded[0], len(self._stretches))
                self._queued = bool(self._waiting)
                self._decode()
            elif self._away:
                self._away.wait()
            self._end()
        first, last = self._crowded
        return Simulated(
            stretches=tuple(self._stretches),
            crowded=(int(min(first, last)), int(last)),
            most_running=self._most,
            preempted=self._preempted,
            recomputed_tokens=self._recomputed,
            idle_s=self._away.idle_s if self._away is not None else 0.0,
            enough_tokens=(self._peak + 1) / (1 - _ADMITTED_SHARE),
        )

    # -- the cache -----------------------------------------------------------------------

    def _generated(self) -> int:
        return self._count * self._clock - self._starts

    def _free(self) -> float:
        load, count = self._load, self._count
        return load.cache_tokens - count * load.held_prompt - (count * self._clock - self._starts)

    def _reserved(self) -> float:
        """Room that is kept for what the running sequences may still generate."""
        along = min(1.0, self._clock / _RESERVED_STEPS)
        ratio = _RESERVED_FIRST + along * (_RESERVED_LAST - _RESERVED_FIRST)
        return ratio * max(0.0, self._count * self._load.reserved_tokens - self._generated())

    # -- events --------------------------------------------------------------------------

    def _admit(self) -> bool:
        """Admit what a step, or a few, can take; False where there is no room."""
        load, before = self._load, self._count
        slots = load.max_sequences - before
        if slots <= 0 or (self._blocked and before):
            return False
        free = self._free() - (self._reserved() if load.reserved_tokens else 0.0)
        if before and free < _ADMITTED_SHARE * load.cache_tokens:
            return False
        per_step = max(1, load.step_tokens - before) if load.chunked else load.step_tokens
        left: float = per_step * self._steps_until_end(self._admission_steps)
        taken: list[tuple[int, Waiting]] = []
        tokens, earlier, admitted = 0.0, 0.0, 0
        while self._waiting and slots > 0 and (left > 0 or not taken):
            head = self._waiting[-1]
            room = planned = load.held_prompt + head.generated + 1
            if load.reserved_tokens > head.generated:
                planned += load.reserved_tokens - head.generated
            again = self._lost(head) if head.generated else 0.0
            new = max(1.0, head.new + again)
            count = min(head.count, slots, floor(free / planned), max(1, floor(left / new)))
            if count <= 0:
                if before or taken:
                    break
                count = 1  # alone it may take what there is
            taken.append((count, head))
            tokens, admitted = tokens + count * new, admitted + count
            earlier += count * new * self._earlier(head, new)
            self._recomputed += count * again
            self._given += count * room
            free, slots, left = free - count * planned, slots - count, left - count * new
            head.count -= count
            if not head.count:
                self._waiting.pop()
        if not taken:
            return False
        self._blocked = False
        self._peak = max(self._peak, load.cache_tokens - free)
        self._prefill(taken, tokens, earlier / tokens, max(1, ceil(tokens / per_step - 1e-9)))
        return True

    def _lost(self, head: Waiting) -> float:
        """Tokens of a sequence that was there before which have to be computed again."""
        if not self._load.keeps_blocks:
            return head.calls * head.kept
        if head.turn:
            self._peak = max(self._peak, self._load.cache_tokens + self._given - head.mark)
        return head.calls * max(0.0, min(head.kept, self._given - head.mark))

    def _earlier(self, head: Waiting, new: float) -> float:
        """Tokens before those that a turn computes, beyond what tokens of a first prompt have before them."""
        turns = self._load.turns
        if turns is None or not head.turn:
            return 0.0
        at_once = new / max(1.0, head.calls)
        return max(0.0, turns.prompt_tokens + head.generated - at_once + (at_once - turns.prompt_tokens) / 2)

    def _prefill(self, taken: list[tuple[int, Waiting]], tokens: float, earlier: float, steps: int) -> None:
        """Steps that compute the prompts of admitted sequences."""
        left, admitted = steps, sum(count for count, _ in taken)
        while left:
            part = self._steps_until_end(left) if self._load.chunked else left
            decoding = self._count if self._load.chunked else 0
            self._emit(part, decoding, admitted / steps, tokens / steps, earlier)
            if self._load.chunked:
                self._advance(part)
                self._end()
            left -= part
        for count, head in taken:
            start = self._clock - 1 - head.generated
            entry = _Running(count, start, head.length, head.place, head.turn)
            self._running.append(entry)
            self._admitted += 1
            heappush(self._ends, (entry.start + entry.length, self._admitted, entry))
            self._starts += count * entry.start
        self._count += admitted
        self._most = max(self._most, self._count)

    def _decode(self) -> None:
        """Steps until the next sequence ends, or until the cache is full; one alone takes what it needs."""
        count, free = self._count, self._free()
        most = floor(free / count) if count > 1 else self._piece
        if most < 1:
            self._preempt()
            return
        steps = self._steps_until_end(min(self._piece, most))
        if self._away and not self._waiting and steps > 1:
            step = Stretch(1, count, self._context(1), count, 0.0)
            steps = min(steps, self._away.steps_until_return(step, max(1, self._piece // _RETURNS)))
        self._emit(steps, count, 0.0, 0.0)
        self._advance(steps)
        self._peak = max(self._peak, self._load.cache_tokens - free + steps * count)

    def _steps_until_end(self, most: int) -> int:
        ends = self._ends
        while ends and not ends[0][2].count:
            heappop(ends)
        return min(most, ends[0][0] - self._clock) if ends else most

    def _preempt(self) -> None:
        """The youngest sequences lose their room."""
        load = self._load
        lacking: float = max(self._count, _PREEMPTED_SHARE * load.cache_tokens)
        while lacking > 0 and self._count > 1:
            youngest = self._running[-1]
            if not youngest.count:
                self._running.pop()
                continue
            generated = self._clock - youngest.start
            size = load.held_prompt + generated
            count = min(youngest.count, self._count - 1, ceil(lacking / size))
            youngest.count -= count
            self._count -= count
            self._starts -= count * youngest.start
            self._preempted += count
            self._waiting.append(self._preempted_ones(youngest, count, generated))
            lacking -= count * size
        self._blocked = True

    def _end(self) -> None:
        """Sequences whose last token has come give their room back."""
        ends = self._ends
        while ends and (ends[0][0] <= self._clock or not ends[0][2].count):
            entry = heappop(ends)[2]
            if entry.count:
                if self._away is not None:
                    self._leave(entry)
                self._count -= entry.count
                self._starts -= entry.count * entry.start
                entry.count = 0
                self._blocked = False

    def _advance(self, steps: int) -> None:
        self._clock += steps
        self._given += steps * self._count

    def _emit(self, steps: int, decoding: int, first: float, prompts: float, earlier: float = 0.0) -> None:
        context = self._context(steps) if decoding else 0.0
        stretch = Stretch(steps, decoding, context, decoding + first, prompts, earlier)
        self._stretches.append(stretch)
        if self._away is not None:
            self._away.passes(stretch)

    def _context(self, steps: int) -> float:
        """Tokens that each of the running sequences sees in the middle of so many steps.

        Blocks that responses to one prompt share are read for each of them.

        Source: vLLM ``v1/core/kv_cache_manager.py`` (``get_num_common_prefix_blocks``): only what all running
        sequences have in common is read once.
        """
        generated = self._count * self._clock - self._starts
        return self._load.prompt_tokens + generated / self._count + (steps - 1) / 2

    # -- turns ---------------------------------------------------------------------------

    def _first(self, place: int) -> Waiting:
        """The sequences of a response as they come first."""
        turns, (count, tokens) = self._load.turns, self._load.responses[place]
        return Waiting(
            count=count,
            place=place,
            length=tokens if turns is None else turns.cuts[place].after(0),
            new=self._load.new_prompt,
        )

    def _preempted_ones(self, running: _Running, count: int, generated: int) -> Waiting:
        """Sequences that lost their room in the middle of a turn."""
        return Waiting(
            count=count,
            place=running.place,
            length=running.length,
            new=self._load.new_prompt,
            turn=running.turn,
            generated=generated,
            kept=float(generated),
            mark=self._given,
        )

    def _leave(self, entry: _Running) -> None:
        """A turn has ended; unless it was the last, the sequences go to their tools.

        Blocks that were free before theirs are given out before theirs.
        """
        load, turn = self._load, entry.turn + 1
        if load.turns is None or self._away is None or turn == load.turns.cuts[entry.place].turns:
            return
        cut = load.turns.cuts[entry.place]
        there, before = cut.before(turn), cut.before(turn) - cut.tool_tokens
        block = load.turns.block_tokens / 2 * cut.stands_for
        cached = load.keeps_blocks
        back = Waiting(
            count=entry.count,
            place=entry.place,
            length=cut.after(turn),
            new=cut.tool_tokens + (block if cached else 0.0),
            turn=turn,
            calls=cut.stands_for,
            generated=there,
            kept=before + (load.new_prompt if cached else load.turns.prompt_tokens),
            mark=self._given + max(0.0, self._free()),
        )
        self._away.leave(back)

    def _come_back(self) -> None:
        """Who is back from its tools waits behind all that wait."""
        if self._away is not None:
            for back in self._away.returned():
                alike = next((one for one in self._waiting if one.is_like(back)), None)
                if alike is None:
                    self._waiting.insert(0, back)
                else:
                    alike.join(back)
