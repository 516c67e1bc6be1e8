"""The spread of sequences' lengths: prompts and responses vary independently, so their variances add."""

from msgspec.structs import replace

from tests import workloads
from tuner.timing.dealing import _variance


def test_prompts_that_differ_add_to_the_variance_of_lengths() -> None:
    batch = workloads.grpo_7b().batch
    alike = replace(batch, lengths=replace(batch.lengths, mean_prompt=batch.max_prompt_tokens))
    assert alike.prompt_spread < batch.prompt_spread
    added = (batch.prompt_spread**2 - alike.prompt_spread**2) / 3
    assert abs(_variance(batch) - _variance(alike) - added) < 1e-6 * added
