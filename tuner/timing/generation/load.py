"""What a simulated engine is given, what waits in it, and what it did."""

from msgspec import Struct, structs

from tuner.timing.generation.step import StepPrices, StepSeconds


class Stretch(Struct, frozen=True):
    """Steps of an engine that are alike, but for the context that grows."""

    steps: float
    decoding: float  # sequences that get a token in each step from a token before
    context: float  # tokens that each of them sees, in the middle of the stretch
    sampled: float  # sequences that get a token in each step, with those whose prompt has ended
    prompt_tokens: float  # computed in each step
    earlier: float = 0.0  # tokens before these that the cache has already, beside those of other prompts
    longest: float = 0.0  # tokens that the longest of them sees, where somebody asks


def priced_step(prices: StepPrices, stretch: Stretch, stages: int) -> StepSeconds:
    """Seconds of a step of a stretch, which so many stages of a pipeline divide."""
    return prices.priced(
        stretch.decoding / stages,
        stretch.context,
        stretch.sampled / stages,
        stretch.prompt_tokens / stages,
        stretch.earlier,
        stretch.longest,
    )


class Simulated(Struct, frozen=True, kw_only=True):
    """What an engine did until its last sequence had ended."""

    stretches: tuple[Stretch, ...]
    priced: tuple[StepSeconds, ...] = ()  # a step of each of them, where the clock of tools has asked for it
    crowded: tuple[int, int]  # the stretches from the first refusal of a sequence to the last admission
    most_running: int
    preempted: float  # sequences that lost their room, each time counted
    recomputed_tokens: float
    idle_s: float = 0.0  # in which all sequences were with their tools
    refused: bool  # a sequence found no room
    enough_tokens: float  # with a cache of no fewer, no sequence would have waited for room that did not here

    @property
    def steps(self) -> float:
        """Steps that the engine runs."""
        return sum([stretch.steps for stretch in self.stretches])  # lists: a search simulates much

    @property
    def tokens(self) -> float:
        """Tokens that were generated."""
        return sum([stretch.steps * stretch.sampled for stretch in self.stretches])

    def repeated(self, tokens: float) -> "Simulated":
        """The simulation with so many more tokens, generated as those were while others waited."""
        first, last = self.crowded
        while_waiting = sum(stretch.steps * stretch.sampled for stretch in self.stretches[first:last])
        if tokens <= 0 or not while_waiting:
            return self
        times = 1 + tokens / while_waiting
        longer = (
            structs.replace(stretch, steps=stretch.steps * times) for stretch in self.stretches[first:last]
        )
        return structs.replace(
            self,
            stretches=(*self.stretches[:first], *longer, *self.stretches[last:]),
            preempted=self.preempted * times,
            recomputed_tokens=self.recomputed_tokens * times,
        )


class CutResponse(Struct, frozen=True, kw_only=True):
    """The response of a sequence, cut into the turns that are simulated."""

    written: int  # tokens that are generated
    turns: int
    stands_for: float  # calls of tools that the end of a turn is
    tool_tokens: int  # that come back between two of the turns

    @property
    def number(self) -> float:
        """Turns that it has in truth."""
        return 1 + self.stands_for * (self.turns - 1)

    def before(self, turn: int) -> int:
        """Tokens of the response that are there as a turn begins, the first one being 0."""
        return self.written * turn // self.turns + self.tool_tokens * turn

    def after(self, turn: int) -> int:
        """Tokens of the response that are there as a turn ends."""
        return self.written * (turn + 1) // self.turns + self.tool_tokens * turn


class Turns(Struct, frozen=True, kw_only=True, cache_hash=True):
    """How the responses of a load are cut into turns, and what lies between two of these."""

    cuts: tuple[CutResponse, ...]  # in the order of the load's responses
    prompt_tokens: float
    block_tokens: int
    tool_s: float  # between two turns
    agent_s: float  # that a turn takes the process which holds the conversation
    agents: float  # such processes of this engine, which may share them with others
    prices: StepPrices  # which say how many steps of others go by meanwhile
    stages: int  # of the engine's pipeline, that the sequences of a step are divided over

    def priced(self, stretch: Stretch) -> StepSeconds:
        """What one step of a stretch takes."""
        return priced_step(self.prices, stretch, self.stages)


class Load(Struct, frozen=True, kw_only=True):
    """The sequences of one engine in the order in which they come, and what decides how many run at once.

    Tokens of prompts are means over the sequences: responses to one prompt may share most of it.
    """

    responses: tuple[tuple[int, int], ...]  # so many sequences, each with a response of so many tokens
    prompt_tokens: float  # that a sequence sees, whoever holds them
    held_prompt: float  # tokens of the KV cache that a sequence takes for its prompt and its last block
    new_prompt: float  # tokens of its prompt that are computed
    cache_tokens: float
    max_sequences: int
    step_tokens: int
    chunked: bool = True  # prompts are computed in parts, in steps that decode as well
    keeps_blocks: bool = True  # blocks of a preempted sequence are found again as far as nobody took them
    reserved_tokens: int = 0  # longest response that a running sequence keeps room for; 0: it keeps none
    tells_longest: bool = False  # the length of the longest running sequence decides what a step takes
    turns: Turns | None = None  # None: each response is generated in one piece

    @property
    def sequences(self) -> int:
        """How many sequences there are."""
        return sum([count for count, _ in self.responses])

    @property
    def response_tokens(self) -> int:
        """Tokens that are generated."""
        if self.turns is None:
            return sum([count * tokens for count, tokens in self.responses])
        cuts = zip(self.responses, self.turns.cuts, strict=True)
        return sum(count * cut.written for (count, _tokens), cut in cuts)

    @property
    def most_prompt_tokens(self) -> float:
        """Tokens that are computed before others are generated, if no turn finds anything in the cache."""
        first = self.sequences * self.new_prompt
        if self.turns is None:
            return first
        again = (
            count
            * cut.stands_for
            * sum(self.turns.prompt_tokens + cut.before(n) for n in range(1, cut.turns))
            for (count, _tokens), cut in zip(self.responses, self.turns.cuts, strict=True)
        )
        return first + sum(again)


class Waiting(Struct):
    """Sequences of one response in the queue of an engine."""

    count: int
    place: int  # of their response in the load
    length: int  # tokens of the response at which they leave the engine
    new: float  # tokens that are computed before the next one, whatever the cache still has
    turn: int = 0
    calls: float = 1.0  # of tools since the turn before, after each of which as much is computed again
    generated: int = 0  # tokens of the response that are there
    kept: float = 0.0  # tokens that are computed again once their blocks are taken
    mark: float = 0.0  # tokens given out by the cache up to which none of their blocks is taken

    def is_like(self, other: "Waiting") -> bool:
        """Whether both begin the same turn of the same response."""
        return (self.place, self.turn, self.generated) == (other.place, other.turn, other.generated)

    def join(self, other: "Waiting") -> None:
        """Let others of the same turn wait beside these."""
        both = self.count + other.count
        self.mark = (self.count * self.mark + other.count * other.mark) / both
        self.count = both
