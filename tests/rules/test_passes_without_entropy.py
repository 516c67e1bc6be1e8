"""Rules about the entropy have nothing to say of a job whose passes compute none."""

import pytest

from tests.workloads import dynamic, grpo_7b
from tuner.rules.case import Case
from tuner.rules.kernels.entropy_chunking_costs import check


@pytest.mark.parametrize(
    ("in_update", "in_log_prob", "speaks"), [(False, False, False), (False, True, True), (True, False, True)]
)
def test_chunks_cost_something_where_the_entropy_is_computed(
    in_update: bool, in_log_prob: bool, speaks: bool
) -> None:
    update, log_prob = dynamic(16384, entropy=in_update), dynamic(16384, entropy=in_log_prob)
    workload = grpo_7b().with_actor_head(chunk_tokens=8192).with_actor(update=update, log_prob=log_prob)
    assert (check(Case.of(workload, headroom=0.1)) is not None) is speaks


def test_chunks_cost_nothing_where_nothing_computes_the_entropy_before_the_update() -> None:
    workload = grpo_7b().with_actor_head(chunk_tokens=8192)
    assert check(Case.of(workload.with_actor(log_prob=None), headroom=0.1)) is None
