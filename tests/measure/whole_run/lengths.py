"""How long the responses of a run are: drawn for each request, so that two runs have the same ones."""

import math
import random
from statistics import NormalDist

from msgspec import Struct


class Lengths(Struct, frozen=True, kw_only=True):
    """A log-normal spread of tokens between two bounds."""

    median: int
    sigma: float  # of the logarithm
    most: int  # the response length of the run; whatever is longer ends there
    least: int = 16
    seed: int = 7

    def of(self, prompt: int, response: int) -> int:
        """Tokens of one response.

        Args:
            prompt: number of the prompt in the data.
            response: number of the response among those to it.
        """
        drawn = random.Random(f"{self.seed} {prompt} {response}").lognormvariate(
            math.log(self.median), self.sigma
        )
        return max(self.least, min(self.most, round(drawn)))

    def quantile(self, share: float) -> int:
        """Tokens that this share of responses does not exceed, over endlessly many."""
        value = self.median * math.exp(self.sigma * NormalDist().inv_cdf(share))
        return max(self.least, min(self.most, round(value)))


def mean(lengths: Lengths, prompts: range, responses: int) -> float:
    """Mean tokens of all responses to these prompts."""
    drawn = [lengths.of(prompt, response) for prompt in prompts for response in range(responses)]
    return sum(drawn) / len(drawn)
