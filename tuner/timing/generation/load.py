"""What a simulated engine is given."""

from msgspec import Struct

from tuner.timing.generation.turns import CutResponse, Turns, cut_response


class Load(Struct, frozen=True, kw_only=True):
    """The sequences of one engine in the order in which they come, and what decides how many run at once.

    Tokens of prompts are means over the sequences: responses to one prompt may share most of it.
    """

    responses: tuple[tuple[int, int], ...]  # so many sequences, each with a response of so many tokens
    held_prompt: float  # tokens of the KV cache that a sequence takes for its prompt and its last block
    new_prompt: float  # tokens of its prompt that are computed
    cache_tokens: float
    max_sequences: int
    step_tokens: int
    chunked: bool = True  # prompts are computed in parts, in steps that decode as well
    keeps_blocks: bool = True  # blocks of a preempted sequence are found again as far as nobody took them
    reserved_tokens: int = 0  # longest response that a running sequence keeps room for; 0: it keeps none
    turns: Turns | None = None  # None: each response is generated in one piece

    @property
    def sequences(self) -> int:
        """All of them."""
        return sum(count for count, _ in self.responses)

    @property
    def response_tokens(self) -> int:
        """Tokens that are generated."""
        return sum(count * self.cut(place).written for place, (count, _tokens) in enumerate(self.responses))

    def cut(self, place: int) -> CutResponse:
        """The turns of a response."""
        tokens = self.responses[place][1]
        if self.turns is None:
            return CutResponse(written=tokens, turns=1, stands_for=0.0, tool_tokens=0)
        return cut_response(tokens, self.turns.numbers[place], self.turns.tool_tokens)
