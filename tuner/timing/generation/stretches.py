"""What a simulated engine did: stretches of steps that are alike."""

from msgspec import Struct, structs


class Stretch(Struct, frozen=True):
    """Steps of an engine that are alike, but for the context that grows."""

    steps: float
    decoding: float  # sequences that get a token in each step from a token before
    context: float  # tokens that each of them sees, in the middle of the stretch
    sampled: float  # sequences that get a token in each step, with those whose prompt has ended
    prompt_tokens: float  # computed in each step
    earlier: float = 0.0  # tokens before these that the cache has already, beside those of other prompts


class Simulated(Struct, frozen=True, kw_only=True):
    """What an engine did until its last sequence had ended."""

    stretches: tuple[Stretch, ...]
    crowded: tuple[int, int]  # the stretches from the first refusal of a sequence to the last admission
    most_running: int
    preempted: float  # sequences that lost their room, each time counted
    recomputed_tokens: float
    idle_s: float = 0.0  # in which all sequences were with their tools
    enough_tokens: float  # with a cache of no fewer, no sequence would have waited for room that did not here

    @property
    def steps(self) -> float:
        """Steps that the engine runs."""
        return sum(stretch.steps for stretch in self.stretches)

    @property
    def tokens(self) -> float:
        """Tokens that were generated."""
        return sum(stretch.steps * stretch.sampled for stretch in self.stretches)

    def repeated(self, tokens: float) -> "Simulated":
        """The same with so many more tokens, generated as those were while others waited."""
        first, last = self.crowded
        while_waiting = sum(each.steps * each.sampled for each in self.stretches[first:last])
        if tokens <= 0 or not while_waiting:
            return self
        times = 1 + tokens / while_waiting
        longer = (structs.replace(each, steps=each.steps * times) for each in self.stretches[first:last])
        return structs.replace(
            self,
            stretches=(*self.stretches[:first], *longer, *self.stretches[last:]),
            preempted=self.preempted * times,
            recomputed_tokens=self.recomputed_tokens * times,
        )
