"""A simulated engine: what waits, what runs, and what happens from one event to the next."""

from math import ceil, floor, inf
from typing import TYPE_CHECKING

from tuner.timing.generation.load import Load, Simulated, Stretch, Turns, Waiting
from tuner.timing.generation.requests import (
    first_request,
    lost_tokens,
    next_request,
    preempted_request,
    tokens_before,
)
from tuner.timing.generation.running import Running

if TYPE_CHECKING:
    from tuner.timing.generation.tool_waits import ToolWaits

_ADMISSIONS = 16  # parts in which all prompts are computed, at least
_TURN_ADMISSIONS = 256  # the same of all turns, if each of them computes its conversation again
_ADMITTED_SHARE = 1 / 48  # of the cache, which is free before more sequences come beside others
_PREEMPTED_SHARE = 1 / 48  # of it, which a preemption frees at least
_RETURNS = 8  # parts of a piece, to which it is known when a sequence comes back from its tools
_PIECES = 32  # of the longest response: in none of them the context grows by more
_RESERVED_FIRST, _RESERVED_LAST, _RESERVED_STEPS = 0.7, 0.098, 600


def _nobody_away(turns: Turns) -> "ToolWaits":
    from tuner.timing.generation.tool_waits import ToolWaits  # few jobs have turns

    return ToolWaits(turns)


class SimulatedEngine:
    """State of the simulation, whose clock is that of the running sequences."""

    def __init__(self, load: Load, *, turn_admissions: int = _TURN_ADMISSIONS) -> None:
        """Everything waits."""
        self._load = load
        self._waiting = [first_request(load, place) for place in reversed(range(len(load.responses)))]
        self._away = None if load.turns is None else _nobody_away(load.turns)
        self._queued = False  # somebody was refused, and some have waited since
        self._running = Running()
        self._cache, self._held_prompt = load.cache_tokens, load.held_prompt
        self._prompt, self._chunked = load.prompt_tokens, load.chunked
        self._given = 0.0  # tokens of the cache given out so far
        self._refused = False  # somebody was, for want of room
        self._blocked = False  # nothing is admitted until a sequence ends
        self._stretches: list[Stretch] = []
        self._crowded: list[float] = [inf, 0]
        self._preempted = 0
        self._recomputed = 0.0
        self._peak = 0.0  # tokens of the cache that were taken or kept at once
        self._piece = max(1, max(length for _, length in load.responses) // _PIECES)
        steps = load.most_prompt_tokens / max(1, load.step_tokens - load.max_sequences)
        parts = _ADMISSIONS if load.turns is None else turn_admissions
        self._admission_steps = max(1, floor(steps / parts))

    def run(self) -> Simulated:
        """Move on until nothing runs and nothing waits."""
        while self._waiting or self._running.count or self._away:
            self._move()
        first, last = self._crowded
        tool_waits = self._away
        return Simulated(
            stretches=tuple(self._stretches),
            priced=() if tool_waits is None else tuple(tool_waits.priced),
            crowded=(int(min(first, last)), int(last)),
            most_running=self._running.most,
            preempted=self._preempted,
            recomputed_tokens=self._recomputed,
            idle_s=tool_waits.idle_s if tool_waits is not None else 0.0,
            refused=self._refused,
            enough_tokens=(self._peak + 1) / (1 - _ADMITTED_SHARE),
        )

    def _move(self) -> None:
        """On to the next event."""
        if self._away is not None and self._away.is_back:
            self._come_back(self._away)
        if self._waiting and self._admit():
            if self._queued or self._away is None:
                self._crowded[1] = len(self._stretches)
                self._queued = bool(self._waiting)
        elif self._running.count:
            self._crowded[0] = min(self._crowded[0], len(self._stretches))
            self._queued = bool(self._waiting)
            self._decode()
        elif self._away:
            self._away.wait()
        if self._running.has_ended:
            self._end()

    # -- the cache -----------------------------------------------------------------------

    def _free(self) -> float:
        return self._cache - self._running.cache_tokens(self._held_prompt)

    def _reserved(self) -> float:
        """Room that is kept for what the running sequences may still generate."""
        running = self._running
        along = min(1.0, running.clock / _RESERVED_STEPS)
        ratio = _RESERVED_FIRST + along * (_RESERVED_LAST - _RESERVED_FIRST)
        return ratio * max(0.0, running.count * self._load.reserved_tokens - running.generated)

    # -- events --------------------------------------------------------------------------

    def _admit(self) -> bool:
        """Admit what a step, or a few, can take; False where there is no room."""
        load, before = self._load, self._running.count
        slots = load.max_sequences - before
        if slots <= 0 or (self._blocked and before):
            return False
        free = self._free() - (self._reserved() if load.reserved_tokens else 0.0)
        if before and free < _ADMITTED_SHARE * load.cache_tokens:
            return False
        per_step = max(1, load.step_tokens - before) if load.chunked else load.step_tokens
        left: float = per_step * self._running.steps_until_end(self._admission_steps)
        admissions: list[tuple[int, Waiting]] = []
        tokens, earlier = 0.0, 0.0
        while self._waiting and slots > 0 and (left > 0 or not admissions):
            head = self._waiting[-1]
            room = planned = load.held_prompt + head.generated + 1
            if load.reserved_tokens > head.generated:
                planned += load.reserved_tokens - head.generated
            again = self._lost(head) if head.generated else 0.0
            new = max(1.0, head.new + again)
            fitting = floor(free / planned)
            count = min(head.count, slots, max(1, floor(left / new)))
            if fitting < count:
                count, self._refused = fitting, True
            if count <= 0:
                if before or admissions:
                    break
                count = 1  # alone it may take what there is
            admissions.append((count, head))
            tokens += count * new
            earlier += count * new * tokens_before(load, head, new) if head.turn else 0.0
            self._recomputed += count * again
            self._given += count * room
            free, slots, left = free - count * planned, slots - count, left - count * new
            head.count -= count
            if not head.count:
                self._waiting.pop()
        if not admissions:
            return False
        self._blocked = False
        self._peak = max(self._peak, load.cache_tokens - free)
        self._prefill(admissions, tokens, earlier / tokens, max(1, ceil(tokens / per_step - 1e-9)))
        return True

    def _lost(self, head: Waiting) -> float:
        """Tokens of a sequence that have to be computed again; none in a cache that still has them."""
        load = self._load
        if head.turn and load.keeps_blocks:
            self._peak = max(self._peak, load.cache_tokens + self._given - head.mark)
        return lost_tokens(load, head, self._given)

    def _prefill(
        self, admissions: list[tuple[int, Waiting]], tokens: float, earlier: float, steps: int
    ) -> None:
        """Steps that compute the prompts of admitted sequences."""
        running, chunked = self._running, self._chunked
        left, first = steps, sum([count for count, _ in admissions]) / steps
        while left:
            part = running.steps_until_end(left) if chunked else left
            self._emit(part, running.count if chunked else 0, first, tokens / steps, earlier)
            if chunked:
                self._advance(part)
                if running.has_ended:
                    self._end()
            left -= part
        for count, head in admissions:
            running.add(count, head)

    def _decode(self) -> None:
        """Steps until the next sequence ends, or until the cache is full; one alone takes what it needs."""
        count, free = self._running.count, self._free()
        most = floor(free / count) if count > 1 else self._piece
        if most < 1:
            self._preempt()
            return
        steps = self._running.steps_until_end(min(self._piece, most))
        if self._away and not self._waiting and steps > 1:
            step = Stretch(1, count, self._context(1), count, 0.0)
            steps = min(steps, self._away.steps_until_return(step, max(1, self._piece // _RETURNS)))
        self._emit(steps, count, 0.0, 0.0)
        self._advance(steps)
        self._peak = max(self._peak, self._load.cache_tokens - free + steps * count)

    def _preempt(self) -> None:
        """The youngest sequences lose their room."""
        load, running = self._load, self._running
        lacking: float = max(running.count, _PREEMPTED_SHARE * load.cache_tokens)
        while lacking > 0 and running.count > 1:
            youngest = running.youngest()
            generated = running.clock - youngest.start
            size = load.held_prompt + generated
            count = min(youngest.count, running.count - 1, ceil(lacking / size))
            running.remove(youngest, count)
            self._preempted += count
            again = preempted_request(load, youngest, count, generated=generated, mark=self._given)
            self._waiting.append(again)
            lacking -= count * size
        self._blocked = True

    def _end(self) -> None:
        """Sequences whose last token has come give their room back; those that have turns left go to tools.

        Blocks that were free before theirs are given out before theirs.
        """
        tool_waits = self._away
        running = self._running
        while (group := running.ended()) is not None:
            self._blocked = False
            if tool_waits is not None:
                mark = self._given + max(0.0, self._free())
                if (back := next_request(self._load, group, mark=mark)) is not None:
                    tool_waits.leave(back)
            running.remove(group, group.count)

    def _come_back(self, tool_waits: "ToolWaits") -> None:
        """Who is back from its tools waits behind all that wait."""
        while tool_waits.is_back:
            back = tool_waits.returned()
            alike = next((one for one in self._waiting if one.is_like(back)), None)
            if alike is None:
                self._waiting.insert(0, back)
            else:
                alike.join(back)

    def _advance(self, steps: int) -> None:
        self._running.clock += steps
        self._given += steps * self._running.count

    def _emit(self, steps: int, decoding: int, first: float, prompts: float, earlier: float = 0.0) -> None:
        context = self._context(steps) if decoding else 0.0
        longest = 0.0
        if decoding and self._load.tells_longest:
            longest = context + self._running.most_generated - self._running.mean_generated
        stretch = Stretch(steps, decoding, context, decoding + first, prompts, earlier, longest)
        self._stretches.append(stretch)
        if self._away is not None:
            self._away.passes(stretch)

    def _context(self, steps: int) -> float:
        """Tokens that each of the running sequences sees in the middle of so many steps.

        Blocks that responses to one prompt share are read for each of them.

        Source: vLLM ``v1/core/kv_cache_manager.py`` (``get_num_common_prefix_blocks``): only what all running
        sequences have in common is read once.
        """
        return self._prompt + self._running.mean_generated + (steps - 1) / 2
