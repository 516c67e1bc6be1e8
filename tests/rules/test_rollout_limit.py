"""How far the limit on running sequences is raised."""

import pytest

from tests.workloads import grpo_7b
from tuner.rules.rollout_engine import with_matching_limit
from tuner.workload import Workload


def short(**rollout: object) -> Workload:
    """A job with so short sequences that the cache holds more than a thousand."""
    lengths = {"max_prompt_tokens": 128, "max_response_tokens": 128, "prompts": 4096}
    return grpo_7b().with_batch(**lengths).with_rollout(max_sequences=64, max_model_tokens=None, **rollout)


@pytest.mark.parametrize(
    ("rollout", "least", "most"),
    [
        ({}, 512, 512),  # vLLM's own list of sizes ends there
        ({"capture_sizes": (8, 128)}, 128, 128),
        ({"capture_sizes": (8, 1024)}, 1024, 1024),
        ({"max_batched_tokens": 100}, 96, 96),  # vLLM refuses fewer tokens per step than sequences
        ({"cuda_graphs": False}, 1025, 1 << 20),  # the cache decides
    ],
)
def test_the_limit_is_raised_to_the_largest_graph(rollout: dict[str, object], least: int, most: int) -> None:
    assert least <= with_matching_limit(short(**rollout)).rollout.max_sequences <= most


def test_a_limit_beyond_it_stays() -> None:
    beyond = short().with_rollout(max_sequences=2000)
    assert with_matching_limit(beyond) == beyond
