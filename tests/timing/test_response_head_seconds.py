"""Padded passes whose log-probabilities and entropy come from the logits of responses alone."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing import step_time
from tuner.workload import HeadKind, Phase

SEQUENCE = 2048


def head_seconds(response: int, *, slices: bool, kind: HeadKind = HeadKind.LOGITS) -> float:
    """Seconds of the head in the pass of old log-probabilities, of padded sequences with such responses."""
    grpo = workloads.grpo_7b().with_batch(max_prompt_tokens=SEQUENCE - response, max_response_tokens=response)
    actor = grpo.actor
    padded = grpo.with_actor(
        engine=replace(actor.engine, packed=False),
        head=replace(actor.head, kind=kind, compiled=False, slices_response=slices),
        log_prob=workloads.static(4, entropy=True),
    )
    phase = step_time(padded, concurrent_sequences=128).phase(Phase.OLD_LOG_PROB)
    assert phase is not None
    return dict(phase.parts)["head"]


def test_prompts_are_multiplied_and_no_more() -> None:
    short, half, long = (head_seconds(tokens, slices=True) for tokens in (512, 1024, 1536))
    assert half - short == pytest.approx(long - half)
    whole = head_seconds(1024, slices=False)
    products = half - (long - short)  # what is left of it without any response
    assert 0 < products < short
    assert 2 * half - products == pytest.approx(whole)


@pytest.mark.parametrize("kind", [HeadKind.LOGITS, HeadKind.FUSED_TORCH])
def test_a_head_over_all_tokens_takes_as_long_whatever_are_responses(kind: HeadKind) -> None:
    slices = kind is not HeadKind.LOGITS  # which a fused one has no logits for
    assert head_seconds(512, slices=slices, kind=kind) == head_seconds(1536, slices=slices, kind=kind)
