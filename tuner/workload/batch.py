"""How many sequences and tokens a step brings, and how a pass cuts them into micro-batches."""

from msgspec import Struct


class Batch(Struct, frozen=True, kw_only=True):
    """Sizes of one training step. Prompt counts are global, lengths are maxima."""

    prompts: int
    responses_per_prompt: int
    mini_batch_prompts: int
    epochs: int
    max_prompt_tokens: int
    max_response_tokens: int

    @property
    def sequence_tokens(self) -> int:
        """The longest possible sequence: prompt and response."""
        return self.max_prompt_tokens + self.max_response_tokens

    @property
    def sequences(self) -> int:
        """Sequences of one step, over all GPUs."""
        return self.prompts * self.responses_per_prompt

    @property
    def mini_batch_sequences(self) -> int:
        """Sequences of one optimizer step, over all GPUs."""
        return min(self.mini_batch_prompts, self.prompts) * self.responses_per_prompt


class Batching(Struct, frozen=True, kw_only=True):
    """How many tokens one micro-batch brings to one GPU."""

    dynamic: bool
    token_budget: int  # per GPU, used when dynamic
    micro_batch_sequences: int  # per data-parallel rank, used when not dynamic
    hard_limit: bool = True  # False: the budget only decides how many micro-batches there are


class Pass(Struct, frozen=True, kw_only=True):
    """One kind of pass over a model: forward only, or forward and backward."""

    batching: Batching
    entropy: bool = False
