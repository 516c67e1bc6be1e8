"""How many sequences and tokens a step brings, and how a pass cuts them into micro-batches."""

from math import ceil
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED
from tuner.workload.group_filter import GroupFilter

#: Mean length of prompts and of responses as a share of the maximum, where nobody says what it is.
#: Heuristic: lengths are spread evenly up to the maximum.
MEAN_SHARE = 0.5

#: Share of responses that are no longer than the 95th percentile.
P95 = 0.95


class Lengths(Struct, frozen=True, kw_only=True):
    """How long a job's prompts and responses really are, in tokens, and their images; None where nobody says.

    What responses wait for beside the engine stands with them.

    Memory is judged by the maxima, because one full batch is enough to run out. The seconds go by the
    means; the 95th percentile and the longest response say how long the slowest ones keep the rollout from
    its end, and the percentile how much room in the KV cache a sequence is given.
    """

    mean_prompt: int | None = None
    mean_response: int | None = None
    response_p95: int | None = None
    response_max: int | None = None  # of the longest response of a step
    kept_groups: float | None = None  # share of groups of responses that a filter keeps
    tool_seconds: float | None = None  # that the response which ends last waits for tools
    turns: float | None = None  # in which a response is generated
    tool_tokens: int | None = None  # that come back between two turns
    images_per_prompt: int | None = None
    image_pixels: int | None = None  # of one image, when it has its final size


ANY_LENGTHS = Lengths()  # nobody says


class Images(Struct, frozen=True, kw_only=True):
    """The images of a prompt, which a vision tower turns into some of its tokens.

    Where nobody says how large they are, the tokens are an assumption between the fewest and the most that
    there can be.
    """

    per_prompt: int
    pixels: int  # of one
    tokens: int  # of all images of a prompt
    least_tokens: int
    most_tokens: int
    assumed: bool = False  # the pixels; the number is told by the options, or by the engine's limit, or 1
    in_budgets: bool = True  # micro-batches that a token budget fills may hold them


class Conversation(Struct, frozen=True, kw_only=True):
    """How the response of an agent is put together: the model writes, tools answer, the model writes on.

    Each turn is a request of its own to the rollout engine, with all that was said before as its prompt. What
    tools answer is part of the response, and is not generated.
    """

    turns: float  # of a response, on average; 1 where it is generated in one piece
    most_turns: int | None  # that a response may have; None: any number
    tool_tokens: float  # that come back between two turns, on average
    turns_assumed: bool = False  # nobody said how many there are
    tokens_assumed: bool = False  # nobody said how long answers are


class Travel(Enum):
    """How a step's batch reaches the workers."""

    PADDED = "padded"  # from the driver, as tensors that are padded to the longest prompt and response
    PACKED = "packed"  # the same, without the padding of ids and positions
    STORED = "stored"  # no driver sends it: workers read their sequences from a store, record by record
    OWN = "own"  # every process has its own part, from files


class GreedyBaseline(Enum):
    """How one more response to each prompt is generated, whose reward is the baseline of the others.

    It is judged, and then dropped: nothing is trained on it.
    """

    BESIDE = "beside"  # together with the others
    AFTER = "after"  # in a generation of its own behind the others'
    AFTER_NEW_WEIGHTS = "after_new_weights"  # the same, before which the weights travel once more


class Batch(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Sizes of one training step. Prompt counts are global, lengths are maxima but for ``lengths``.

    A job that learns from given sequences has each of them whole as a response, behind a prompt of no tokens.
    """

    prompts: int
    responses_per_prompt: int
    mini_batch_prompts: int
    epochs: int
    max_prompt_tokens: int
    max_response_tokens: int
    engine_tokens: Annotated[int | None, UNPUBLISHED] = None  # at which the rollout engine ends a sequence
    travel: Travel = Travel.PADDED
    balanced: bool = True  # sequences are dealt out so that all ranks get about as many tokens
    sorted_ranks: bool = False  # and each rank's lie in order of length: mini-batches of all are alike
    ordered_by_arrival: bool = (
        False  # each rank's lie as their responses ended: mini-batches of all are alike
    )
    lengths: Lengths = ANY_LENGTHS
    rounds: int = 1  # in which the sequences are generated one after the other, each with its part of them
    group_filter: GroupFilter | None = None  # None: all groups that are generated are trained on
    greedy_baseline: GreedyBaseline | None = None  # None: no prompt has a response beside those to learn from
    conversation: Conversation | None = None  # None: each response is generated in one piece
    images: Images | None = None  # None: of a job without, or with a tower whose dimensions are not known
    loss_averages_micro_batches: bool = False  # over the tokens of one, not over those of the mini-batch
    budgets_scale_loss: bool = False  # it is divided by as many micro-batches as static sizes would make
    fills_mini_batches: bool = False  # with sequences of padding, where the last one is smaller
    group_advantages: bool = False  # rewards against those of the same prompt: none where all are equal
    loss_of_advantages: bool = False  # no KL term and no entropy bonus: it vanishes with the advantage
    zero_advantage_ratio: float | None = None  # share of responses without advantage; None: nobody says

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean prompt length; where nobody says, a stated share of the maximum."""
        mean = self.lengths.mean_prompt
        return self.max_prompt_tokens * MEAN_SHARE if mean is None else min(mean, self.max_prompt_tokens)

    @property
    def mean_response_tokens(self) -> float:
        """Mean response length.

        Where nobody says, a stated share of the maximum, or of the length up to which the 95th percentile
        has responses spread evenly.
        """
        mean, p95 = self.lengths.mean_response, self.lengths.response_p95
        if mean is not None:
            return min(mean, self.longest_response_tokens)
        longest = self.longest_response_tokens
        if p95 is not None:
            longest = min(longest, p95 / P95)
        return longest * MEAN_SHARE

    @property
    def mean_sequence_tokens(self) -> float:
        """Mean length of prompt and response together, at least 1."""
        return max(1.0, self.mean_prompt_tokens + self.mean_response_tokens)

    @property
    def known_mean_tokens(self) -> float | None:
        """Mean length of prompt and response together; None where nobody says how long responses are."""
        lengths = self.lengths
        unknown = lengths.mean_response is None and lengths.response_p95 is None
        return None if unknown else self.mean_sequence_tokens

    @property
    def prompt_spread(self) -> float:
        """How far prompts lie from their mean at most, spread evenly as far as 0 and the maximum allow."""
        mean = self.mean_prompt_tokens
        return min(mean, self.max_prompt_tokens - mean)

    @property
    def response_spread(self) -> float:
        """How far responses lie from their mean at most, spread evenly as far as 0 and the maximum allow."""
        mean = self.mean_response_tokens
        return min(mean, self.longest_response_tokens - mean)

    @property
    def response_p95_tokens(self) -> float:
        """The length that 95 % of responses do not exceed; where nobody says, that of evenly spread ones."""
        p95 = self.lengths.response_p95
        if p95 is not None:
            return min(p95, self.longest_response_tokens)
        return self.mean_response_tokens + (2 * P95 - 1) * self.response_spread

    @property
    def room_tokens(self) -> int:
        """Tokens of the KV cache that a running sequence is given room for.

        Prompt and response at the lengths that evenly spread ones reach, twice their means and no more than
        the maxima, or the response at its 95th percentile where that is known. Longer ones are few, and take
        the room that shorter ones leave.
        """
        lengths = self.lengths
        p95 = None if lengths.response_p95 is None else self.response_p95_tokens
        prompt = min(self.max_prompt_tokens, 2 * self.mean_prompt_tokens)
        response = min(self.longest_response_tokens, 2 * self.mean_response_tokens)
        return min(self.reached_tokens, ceil(prompt + (response if p95 is None else p95)))

    @property
    def sequence_tokens(self) -> int:
        """The longest prompt with the longest response, to which tensors are padded."""
        return self.max_prompt_tokens + self.max_response_tokens

    @property
    def reached_tokens(self) -> int:
        """The longest sequence that there can be: prompt and response, as far as the rollout engine goes."""
        both = self.sequence_tokens
        return both if self.engine_tokens is None else min(both, self.engine_tokens)

    @property
    def longest_response_tokens(self) -> float:
        """The longest response that there can be, behind a prompt of mean length where the engine ends it."""
        if self.engine_tokens is None:
            return self.max_response_tokens
        room = self.engine_tokens - self.mean_prompt_tokens
        return min(self.max_response_tokens, max(1.0, room))

    @property
    def sequences(self) -> int:
        """Sequences of one step, over all GPUs."""
        return self.prompts * self.responses_per_prompt

    @property
    def generated_sequences(self) -> int:
        """Sequences that are generated for one step, with greedy ones that nothing is trained on."""
        return self.sequences + (0 if self.greedy_baseline is None else self.prompts)

    @property
    def round_sequences(self) -> int:
        """Sequences that are generated at a time, over all GPUs."""
        return ceil(self._sequences_at_once / self.rounds)

    @property
    def _sequences_at_once(self) -> int:
        """Sequences that a step generates without those that follow in a generation of their own."""
        beside = self.greedy_baseline is GreedyBaseline.BESIDE
        return self.generated_sequences if beside else self.sequences

    @property
    def second_generation(self) -> "Batch | None":
        """The greedy responses as a batch, where they are generated behind the others; else None."""
        if self.greedy_baseline in (None, GreedyBaseline.BESIDE):
            return None
        return replace(self, responses_per_prompt=1, greedy_baseline=None)

    @property
    def filter_rounds(self) -> float:
        """Rounds in which enough groups are kept by a filter, on average; 1 without one."""
        return 1.0 if self.group_filter is None else self.group_filter.rounds(self.prompts)

    @property
    def generation_rounds(self) -> float:
        """Rounds of generation of a step, one after the other, on average, those for dropped groups too."""
        return self.rounds * self.filter_rounds

    @property
    def generated_share(self) -> float:
        """Sequences that are generated, over those that are trained on."""
        return 1.0 if self.group_filter is None else self.group_filter.generated_share(self.prompts)

    @property
    def generated_at_a_time(self) -> int:
        """Sequences that are generated in one round, over all GPUs, those of groups that are dropped too."""
        return ceil(round(self._sequences_at_once * self.generated_share / self.generation_rounds, 6))

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
    packs_whole: Annotated[bool, UNPUBLISHED] = False  # none is fuller: sequences are put where they fit
    fills_budget: Annotated[bool, UNPUBLISHED] = False  # each is padded up to it, and all of it is computed
    group_sequences: int = 1  # a micro-batch that is not filled by tokens has whole groups of so many


class Pass(Struct, frozen=True, kw_only=True):
    """One kind of pass over a model: forward only, or forward and backward."""

    batching: Batching
    entropy: bool = False
    squares: bool = False  # the sum of squared probabilities as well
    mini_batch_sequences: int | None = None  # of an optimizer step, over all GPUs; None: the batch's own
    epochs: int | None = None  # None: the batch's own; one where nothing is trained
