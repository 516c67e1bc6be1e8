"""A head over the logits of responses alone, against what FakeTensor counts in the code that verl runs.

The lines are those of verl 0.3.0.post1 ``workers/actor/dp_actor.py:152-157`` and of 0.7.1 lines 366-375, with
the casts of CUDA's autocast written out. flash-attn's cross entropy is stood in for.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.memory.batch.padded_response import PaddedResponse
from tuner.memory.head.terms import head_peak_bytes
from tuner.memory.ledger.terms import Term
from tuner.workload import HeadKind, OutputHead, Phase, Scaling

pytestmark = pytest.mark.sampled(6)

HEAD = OutputHead(kind=HeadKind.LOGITS, compiled=False, scaling=Scaling.IN_PLACE, slices_response=True)
L, V, H = 128, 4096, 64
_ONE_NUMBER_PER_TOKEN = 64


def peak(sequences: int, response: int, *, entropy: bool, training: bool, head: OutputHead = HEAD) -> int:
    sliced = PaddedResponse(sequence_tokens=L, response_tokens=response)
    tokens = sequences * L
    return head_peak_bytes(
        head, tokens=tokens, vocab=V, hidden=H, entropy=entropy, training=training, response=sliced
    )


def counted(
    sequences: int, response_length: int, *, entropy: bool, training: bool, checkpointed: bool = False
) -> int:
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.checkpoint import checkpoint

    from tests.memory.test_logits_traced import CrossEntropy, entropy_from_logits
    from tuner.trace.storages import Storages

    def forward(hidden: Any, weight: Any) -> list[Any]:
        logits = hidden @ weight.T
        logits.div_(0.7)
        logits = logits[:, -response_length - 1 : -1, :]
        results = [CrossEntropy.apply(logits.reshape(-1, V), True)]
        if entropy and checkpointed:
            results.append(checkpoint(entropy_from_logits, logits, use_reentrant=True))
        elif entropy:
            results.append(entropy_from_logits(logits))
        return results

    with FakeTensorMode(), torch.device("cpu"):
        weight = torch.empty(V, H, dtype=torch.bfloat16, requires_grad=training)
        hidden = torch.empty(sequences, L, H, dtype=torch.bfloat16, requires_grad=training)
        with Storages(weight, hidden) as storages, torch.set_grad_enabled(training):
            results = forward(hidden, weight)
            made: set[int] = set()
            if training:
                storages.backward = True
                torch.autograd.backward([result.sum() for result in results])
                made = storages.numbers(weight.grad, hidden.grad)
        return int(storages.peak(without=made))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sequences", [1, 8])
@pytest.mark.parametrize("response", [4, 12, 24, 32, 64, 112, 127])
@pytest.mark.parametrize(
    ("entropy", "training", "checkpointed"),
    [(False, False, False), (False, True, False), (True, True, False), (True, True, True)],
)
def test_responses_take_what_is_counted(
    sequences: int, response: int, entropy: bool, training: bool, checkpointed: bool
) -> None:
    head = OutputHead(
        kind=HeadKind.LOGITS,
        compiled=False,
        scaling=Scaling.IN_PLACE,
        slices_response=True,
        checkpointed=checkpointed,
    )
    expected = peak(sequences, response, entropy=entropy, training=training, head=head)
    found = counted(sequences, response, entropy=entropy, training=training, checkpointed=checkpointed)
    assert 0 <= found - expected <= _ONE_NUMBER_PER_TOKEN * sequences * L


@pytest.mark.parametrize("response", [4, 32, 64, 127])
def test_an_entropy_that_is_only_read_works_inside_logsumexp(response: int) -> None:
    """Inside one operator, so not counted: the exponentials, while its float32 input and softmax exist."""
    inside = 4 * 8 * response * V
    assert peak(8, response, entropy=True, training=False) == pytest.approx(
        counted(8, response, entropy=True, training=False) + inside, abs=_ONE_NUMBER_PER_TOKEN * 8 * L
    )


@pytest.mark.parametrize(
    ("response", "entropy", "training", "per_logit"),
    [
        (64, True, True, 14.0),
        (32, True, True, 7.0),
        (64, False, True, 4.0),
        (32, False, True, 4.0),
        (64, False, False, 3.0),
        (32, False, False, 2.5),
        (8, True, True, 4.0),
        (16, True, True, 4.5),
    ],
)
def test_bytes_of_a_logit_by_hand(response: int, entropy: bool, training: bool, per_logit: float) -> None:
    assert peak(8, response, entropy=entropy, training=training) == per_logit * 8 * L * V


@given(st.integers(1, 32), st.integers(1, L - 1), st.booleans(), st.booleans())
def test_longer_responses_take_more_and_never_more_than_logits_of_all_tokens(
    sequences: int, response: int, entropy: bool, training: bool
) -> None:
    size = peak(sequences, response, entropy=entropy, training=training)
    assert size <= peak(sequences, response + 1, entropy=entropy, training=training)
    assert size >= (4 if training else 2) * sequences * L * V
    of_all = head_peak_bytes(
        HEAD, tokens=sequences * L, vocab=V, hidden=H, entropy=entropy, training=training
    )
    assert size <= of_all + 2 * sequences * L * V


_PADDED = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=1024",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.rollout.n=5",
    "actor_rollout_ref.actor.entropy_coeff=0.001",
    "actor_rollout_ref.actor.use_kl_loss=True",
    "actor_rollout_ref.model.use_remove_padding=False",
    "trainer.n_gpus_per_node=8",
    "trainer.nnodes=1",
)
_LOGITS = 2048 * 152064  # of one sequence


def heads_of(version: str, *overrides: str) -> dict[Phase, Term]:
    """The output head of each phase of a job without packing, at its peak."""
    premises = Premises(gpu="h200-sxm", verl_version=version)
    estimate = consult("/dev/null", [*_PADDED, *overrides], premises).advice.estimate
    return {
        phase.phase: term
        for phase in estimate.phases
        for moment in phase.moments
        for term in moment.terms
        if term.name in ("head_forward", "head_backward")
    }


@pytest.mark.parametrize("version", ["0.4.1", "0.5.0", "0.6.1", "0.7.1"])
def test_a_job_without_packing_computes_with_responses_alone(version: str) -> None:
    """28 bytes of a response's logit measured on an H200: 32.5 GiB of 8 sequences."""
    heads = heads_of(version)
    assert heads[Phase.UPDATE_ACTOR].bytes == 14 * 8 * _LOGITS
    assert heads[Phase.REF_LOG_PROB].bytes == 3 * 16 * _LOGITS
    assert "T_r" in dict(heads[Phase.UPDATE_ACTOR].symbols)


def test_the_first_release_computes_an_entropy_in_every_pass() -> None:
    heads = heads_of("0.3.0.post1")
    assert heads[Phase.UPDATE_ACTOR].bytes == 14 * 8 * _LOGITS
    assert heads[Phase.OLD_LOG_PROB].bytes == heads[Phase.REF_LOG_PROB].bytes == 8 * 16 * _LOGITS


@pytest.mark.parametrize("version", ["0.5.0", "0.7.1"])
def test_with_packing_the_head_computes_with_all_tokens(version: str) -> None:
    heads = heads_of(version, "actor_rollout_ref.model.use_remove_padding=True")
    assert "T_r" not in dict(heads[Phase.UPDATE_ACTOR].symbols)


def test_the_engines_return_the_logits_of_all_tokens() -> None:
    heads = heads_of("0.8.0")
    assert "T_r" not in dict(heads[Phase.UPDATE_ACTOR].symbols)
