"""The output head's tensors against what FakeTensor counts in the code that verl runs.

The functions below are verl's, with the casts that CUDA's autocast makes written out, as the fake
tensors are on the CPU. flash-attn's cross entropy and the compiled entropy, each one kernel, are stood in
for by functions that keep and make the same tensors.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tuner.memory.head.terms import head_peak_bytes
from tuner.workload import HeadKind, OutputHead, Scaling

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tuner.trace.storages import Storages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

T, V, H = 512, 4096, 64
CHUNK = 128
_ONE_NUMBER_PER_TOKEN = 64  # losses, entropies, labels: bytes per token, below a hundredth of a logit each


class CrossEntropy(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """Keeps the logits and writes their gradient over them if asked, as flash-attn's kernel."""

    @staticmethod
    def forward(ctx: Any, logits: Any, in_place: bool) -> Any:
        ctx.save_for_backward(logits)
        ctx.in_place = in_place
        return torch.empty(logits.shape[0])

    @staticmethod
    def backward(ctx: Any, _: Any) -> tuple[Any, None]:
        (logits,) = ctx.saved_tensors
        return logits if ctx.in_place else torch.empty_like(logits), None


class CompiledEntropy(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """Reads the logits, and makes one gradient in their dtype."""

    @staticmethod
    def forward(ctx: Any, logits: Any) -> Any:
        ctx.save_for_backward(logits)
        return torch.empty(logits.shape[0])

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        return torch.empty_like(ctx.saved_tensors[0])


def entropy_from_logits(logits: Any) -> Any:
    probabilities = torch.nn.functional.softmax(logits, dim=-1, dtype=torch.float32)
    return torch.logsumexp(logits.float(), dim=-1) - torch.sum(probabilities * logits, dim=-1)


def entropy_from_logits_with_chunking(logits: Any) -> Any:
    entropy = torch.zeros(logits.shape[0])
    for i in range(0, logits.shape[0], CHUNK):
        chunk = logits[i : i + CHUNK].float()
        probabilities = torch.nn.functional.softmax(chunk, dim=-1)
        entropy[i : i + CHUNK] = torch.logsumexp(chunk, dim=-1) - torch.sum(probabilities * chunk, dim=-1)
    return entropy


def log_softmax_row_by_row(logits: Any, labels: Any) -> Any:
    rows = zip(logits, labels, strict=True)
    chosen = [
        torch.log_softmax(row, dim=-1, dtype=torch.float32).gather(-1, label[None])[0] for row, label in rows
    ]
    return torch.stack(chosen)


def entropy_function(head: OutputHead) -> Callable[[Any], Any]:
    plain = entropy_from_logits if head.chunk_tokens is None else entropy_from_logits_with_chunking
    function = CompiledEntropy.apply if head.compiled else plain
    if not head.checkpointed:
        return function  # type: ignore[no-any-return]
    # verl leaves use_reentrant to torch, whose default is True.
    return lambda logits: checkpoint(function, logits, use_reentrant=True, preserve_rng_state=False)


def counted(head: OutputHead, *, entropy: bool, training: bool) -> int:
    """Peak bytes beyond hidden states, weight and their gradients."""
    with FakeTensorMode(), torch.device("cpu"):
        weight = torch.empty(V, H, dtype=torch.bfloat16, requires_grad=training)
        hidden = torch.empty(T, H, dtype=torch.bfloat16, requires_grad=training)
        labels, temperature = torch.zeros(T, dtype=torch.long), torch.ones(T, 1)
        with Storages(weight, hidden, labels, temperature) as storages, torch.set_grad_enabled(training):
            results = _head(head, (hidden @ weight.T)[None], labels, temperature, entropy=entropy)
            made: set[int] = set()
            if training:
                storages.backward = True
                torch.autograd.backward([result.sum() for result in results])
                made = storages.numbers(weight.grad, hidden.grad)
        return storages.peak(without=made)


def _head(head: OutputHead, returned: Any, labels: Any, temperature: Any, *, entropy: bool) -> list[Any]:
    logits = returned.squeeze(0)
    if head.scaling is Scaling.IN_PLACE:
        logits.div_(temperature.to(logits.dtype))
    if head.scaling is Scaling.COPY:
        logits = logits / temperature.to(logits.dtype)
    parts = [partial(_entropy, head, logits)] if entropy else []
    parts.append(partial(_log_probs, head, logits, labels, in_place=not entropy))
    # Up to 0.8, which scale in place, the entropy comes last, and its backward pass first.
    return [compute() for compute in (reversed(parts) if head.scaling is Scaling.IN_PLACE else parts)]


def _entropy(head: OutputHead, logits: Any) -> Any:
    return entropy_function(head)(logits)


def _log_probs(head: OutputHead, logits: Any, labels: Any, *, in_place: bool) -> Any:
    if head.fused_cross_entropy:
        return CrossEntropy.apply(logits, in_place)
    return log_softmax_row_by_row(logits, labels)


def expected(head: OutputHead, *, entropy: bool, training: bool) -> int:
    return head_peak_bytes(head, tokens=T, vocab=V, hidden=H, entropy=entropy, training=training)


def assert_as_counted(head: OutputHead, *, entropy: bool, training: bool) -> None:
    beyond = counted(head, entropy=entropy, training=training) - expected(
        head, entropy=entropy, training=training
    )
    assert 0 <= beyond <= _ONE_NUMBER_PER_TOKEN * T


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("training", [False, True])
def test_log_probabilities_take_what_is_counted(scaling: Scaling, training: bool) -> None:
    assert_as_counted(OutputHead(kind=HeadKind.LOGITS, scaling=scaling), entropy=False, training=training)


@pytest.mark.sampled(6)
@pytest.mark.slow
def test_without_flash_attention_the_rows_are_saved() -> None:
    head = OutputHead(kind=HeadKind.LOGITS, fused_cross_entropy=False)
    assert_as_counted(head, entropy=False, training=True)


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("chunk", [None, CHUNK])
def test_an_eager_entropy_takes_what_is_counted(
    scaling: Scaling, checkpointed: bool, chunk: int | None
) -> None:
    head = OutputHead(
        kind=HeadKind.LOGITS,
        compiled=False,
        scaling=scaling,
        checkpointed=checkpointed,
        chunk_tokens=chunk,
    )
    assert_as_counted(head, entropy=True, training=True)


@pytest.mark.parametrize("scaling", list(Scaling))
def test_a_compiled_entropy_takes_what_is_counted(scaling: Scaling) -> None:
    head = OutputHead(kind=HeadKind.LOGITS, scaling=scaling)
    assert_as_counted(head, entropy=True, training=True)


@pytest.mark.parametrize("scaling", [Scaling.NONE, Scaling.COPY])
def test_logsumexp_works_on_a_tensor_of_its_own(scaling: Scaling) -> None:
    """Inside one operator, so not counted: the exponentials, while its float32 input and softmax exist."""
    head = OutputHead(kind=HeadKind.LOGITS, compiled=False, scaling=scaling)
    inside = 4 * T * V
    assert expected(head, entropy=True, training=False) == pytest.approx(
        counted(head, entropy=True, training=False) + inside, abs=_ONE_NUMBER_PER_TOKEN * T
    )
