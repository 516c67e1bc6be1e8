"""A filter that drops groups of responses whose rewards are all alike, and has others generated for them."""

from math import erf, sqrt

from msgspec import Struct

#: Share of groups that a filter keeps where nobody says. Heuristic: the middle between the least that verl's
#: own script of DAPO provides for, three prompts generated for each that is trained on, and all of them
#: (``recipe/dapo/run_dapo_qwen2.5_32b.sh``: ``gen_prompt_bsz``), by the ratio of the two.
KEPT_GROUPS = 0.577

#: The ends of that share.
KEPT_GROUPS_ENDS = (1 / 3, 1.0)

_NEGLIGIBLE = 1e-4  # of a round
_MOST_COUNTED = 10_000  # rounds


class GroupFilter(Struct, frozen=True, kw_only=True):
    """How a trainer comes to the groups of a step of which a filter drops some.

    Either it generates round after round, each for as many prompts, until enough groups are kept; or a group
    that is dropped is replaced while others still run. A trainer may also generate more than it needs, once.
    """

    kept_share: float  # of groups
    assumed: bool = False  # nobody said how many are kept
    round_prompts: int | None = None  # of one round; None: groups are replaced one by one
    most_rounds: int | None = None  # with too few groups after these the trainer ends with an error
    at_once: float | None = (
        None  # of those: at most so many steps' groups run, and those left are thrown away
    )
    sends_weights: bool = False  # before every round, not once a step
    once: bool = False  # one round is all: the best groups of it are trained on, as many as a step needs

    def rounds(self, prompts: int) -> float:
        """Rounds of a step of so many prompts, on average; 1 where groups are replaced one by one."""
        if self.round_prompts is None or self.once:
            return 1.0
        return expected_rounds(prompts, self.round_prompts, self.kept_share)

    def generated_share(self, prompts: int) -> float:
        r"""Groups that are generated, over those that are trained on.

        Rounds are generated whole. Groups that are replaced come to :math:`1 / s` for the share s that is
        kept. Where a trainer asks for two for each that it drops, until it has enough, as many run then as it
        dropped, :math:`1 / s - 1` and no more than it lets run at once, and are thrown away.

        Source: verl 0.9.1 ``trainer/ppo/v1/replay_buffer.py`` (``ReplayBuffer.sample``: ``refill_credit``,
        ``draining``; ``ReplayBufferAsync.wait_for_sampleable``).
        """
        if self.round_prompts is not None:
            return self.rounds(prompts) * self.round_prompts / prompts
        needed = 1 / self.kept_share
        return needed if self.at_once is None else needed + min(needed - 1, self.at_once)

    def stops(self, prompts: int) -> bool:
        """Whether the trainer is expected to end with an error, since its rounds are not enough."""
        return self.most_rounds is not None and self.rounds(prompts) > self.most_rounds


def expected_rounds(prompts: int, round_prompts: int, kept_share: float) -> float:
    r"""Rounds until enough groups are kept, on average.

    Of :math:`r G` groups a binomial number is kept, about normal with the mean :math:`r G s`. There is one
    more round after r where fewer than P are:

    .. math:: E = \sum_{r \ge 0} P(K_{r G} < P)

    Args:
        prompts: groups that a step needs, P.
        round_prompts: groups of a round, G.
        kept_share: share of groups that is kept, s.
    """
    rounds = 1.0
    for number in range(1, _MOST_COUNTED):
        generated = number * round_prompts
        mean, spread = generated * kept_share, sqrt(generated * kept_share * (1 - kept_share))
        short = prompts - 0.5 - mean
        more = (1 + erf(short / spread / sqrt(2))) / 2 if spread else float(short > 0)
        if more < _NEGLIGIBLE:
            return rounds
        rounds += more
    return prompts / (round_prompts * kept_share)


def kept_share_of(prompts: int, round_prompts: int, rounds: float) -> float:
    """The share of groups that is kept where a step takes so many rounds on average; at most 1."""
    low, high = 1 / (_MOST_COUNTED * max(1, round_prompts)), 1.0
    for _ in range(40):
        middle = sqrt(low * high)
        if expected_rounds(prompts, round_prompts, middle) > rounds:
            low = middle
        else:
            high = middle
    return high
