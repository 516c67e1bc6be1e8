"""What verl's ways allocate when they run, against the memory model.

On a CPU every allocation is noted while real tensors are computed: autograd adds gradients up in place, as on
a GPU, which it does not where the tensors are fake.
"""

import gc
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile

from tuner.kernels import comparison
from tuner.kernels.benchmark.timing import peak_bytes
from tuner.kernels.comparison import HEADS, verl_log_prob_and_entropy
from tuner.kernels.comparison.fused import CHUNK_TOKENS
from tuner.memory.head.terms import head_peak_bytes
from tuner.trace.storages import Storages
from tuner.workload import HeadKind, OutputHead, Scaling

EAGER = OutputHead(kind=HeadKind.LOGITS, compiled=False)
TOKENS, HIDDEN, VOCABULARY = 512, 8, 2048
_NUMBERS_PER_TOKEN = 80  # bytes: labels' gradients, sums, entropies; less than 0.04 of a logit each


class OneKernel(torch.autograd.Function):
    """Keeps the logits and makes one gradient, as flash-attn's cross entropy; no numbers."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(logits)
        return torch.zeros(labels.shape)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        return torch.zeros_like(logits), None


def one_kernel(logits: Tensor, labels: Tensor) -> Tensor:
    """Reshaped first, as verl and this package do, so that the gradient that comes back is a view."""
    losses: Tensor = OneKernel.apply(logits.reshape(-1, logits.shape[-1]), labels)
    return losses


def inputs(tokens: int, hidden: int, vocabulary: int, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.ones(tokens, hidden, dtype=torch.bfloat16, device=device, requires_grad=True),
        torch.ones(vocabulary, hidden, dtype=torch.bfloat16, device=device, requires_grad=True),
        torch.zeros(tokens, dtype=torch.int64, device=device),
    )


def run(head: OutputHead, tensors: tuple[Tensor, Tensor, Tensor], *, training: bool) -> None:
    with torch.set_grad_enabled(training):
        log_probs, entropy = verl_log_prob_and_entropy(*tensors, head=head)
        if training:
            (log_probs.sum() + entropy.sum()).backward()


def allocated(head: OutputHead, *, training: bool) -> int:
    """Most bytes at once beyond the inputs and their gradients."""
    tensors = inputs(TOKENS, HIDDEN, VOCABULARY)
    for matrix in tensors[:2]:
        matrix.grad = torch.zeros_like(matrix)
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        run(head, tensors, training=training)
    assert profiled.profiler is not None
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def priced(head: OutputHead, *, training: bool) -> int:
    return head_peak_bytes(
        head, tokens=TOKENS, vocab=VOCABULARY, hidden=HIDDEN, entropy=True, training=training
    )


# 512 tokens: chunks without a rest, then with one of 12, 112 and 32 tokens.
@pytest.mark.sampled(16)
@pytest.mark.parametrize("chunk", [None, 512, 256, 128, 64, 32, 500, 200, 60])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["kept", "checkpointed"])
@pytest.mark.parametrize("scaling", Scaling, ids=lambda scaling: scaling.value)
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_logits_of_an_eager_entropy(
    training: bool,
    scaling: Scaling,
    checkpointed: bool,
    chunk: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "by_kernel", one_kernel)
    head = replace(EAGER, scaling=scaling, checkpointed=checkpointed, chunk_tokens=chunk)
    beyond = allocated(head, training=training) - priced(head, training=training)
    assert 0 <= beyond <= _NUMBERS_PER_TOKEN * TOKENS


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("sizes", [(512, 64), (2048, 64), (2048, 3584), (1024, 2048)], ids=str)
def test_fused_in_torch(sizes: tuple[int, int], training: bool) -> None:
    (tokens, hidden), vocabulary, head = sizes, 4096, HEADS["fused, torch"]
    with FakeTensorMode():
        tensors = inputs(tokens, hidden, vocabulary)
        with Storages(*tensors) as storages:
            run(head, tensors, training=training)
            gradients = [matrix.grad for matrix in tensors[:2] if matrix.grad is not None]
            peak = storages.peak(without=storages.numbers(gradients))
    expected = head_peak_bytes(
        head, tokens=tokens, vocab=vocabulary, hidden=hidden, entropy=True, training=training
    )
    # Inside logsumexp are the exponentials, which no operator shows: as large as the product after it.
    assert 0 <= peak - expected <= _NUMBERS_PER_TOKEN * tokens
    assert CHUNK_TOKENS == 512


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # what torch's compiler says of itself
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("name", [name for name in HEADS if name != "compiled, chunked"])
def test_on_the_device(name: str, training: bool) -> None:
    """All but the way whose kernels the compiler cuts in another way for each number of chunks."""
    head, tokens, hidden, vocabulary = HEADS[name], 8192, 64, 32000
    tensors = inputs(tokens, hidden, vocabulary, device="cuda")
    for matrix in tensors[:2]:
        matrix.grad = torch.zeros_like(matrix)
    run(head, tensors, training=training)
    peak = peak_bytes(lambda: run(head, tensors, training=training))
    expected = head_peak_bytes(
        head, tokens=tokens, vocab=vocabulary, hidden=hidden, entropy=True, training=training
    )
    if training and head.kind is HeadKind.FUSED_TORCH:
        # Its gradients grow chunk by chunk; those of the other ways come when the logits have gone.
        expected += sum(matrix.nbytes for matrix in tensors[:2])
    assert peak == pytest.approx(expected, rel=0.01)
