"""The loss of verl's own trainer of fine-tuning against what FakeTensor counts in its code.

The function below is verl 0.7.0's ``_compute_loss_and_backward`` from the logits on, with what PyTorch's
cross entropy does under CUDA's autocast written out, as the fake tensors are on the CPU: it names the dtype
of the logits to log-softmax (``aten/src/ATen/native/LossNLL.cpp``), and autocast casts that for the loss.
"""

from typing import Any

import pytest

from tuner.memory.head.terms import head_peak_bytes
from tuner.workload import HeadKind, OutputHead

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tuner.trace.storages import Storages  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCES, LENGTH, V, H = 8, 256, 2048, 16
T = SEQUENCES * LENGTH


def head(*, shifts: bool) -> OutputHead:
    return OutputHead(
        kind=HeadKind.LOGITS,
        compiled=False,
        fused_cross_entropy=False,
        float32_loss=True,
        shifts_logits=shifts,
        fusable=(),
    )


def compute_loss_and_backward(
    hidden: Any, weight: Any, labels: Any, storages: Any, *, shifts: bool, training: bool
) -> None:
    logits = hidden @ weight.T  # stays in this variable until the function returns
    if shifts:
        shifted = logits[..., :-1, :].contiguous().view(-1, V)
        labels = labels[:, 1:].reshape(-1)
    else:
        shifted, labels = logits.view(-1, V), labels.reshape(-1)
    log_softmax = torch.log_softmax(shifted, dim=-1, dtype=shifted.dtype)
    loss = torch.nn.functional.nll_loss(log_softmax.float(), labels, reduction="none").sum()
    del log_softmax  # cross_entropy has returned
    if training:
        storages.backward = True
        loss.backward()


def counted(*, shifts: bool, training: bool) -> int:
    with FakeTensorMode(), torch.device("cpu"):
        weight = torch.empty(V, H, dtype=torch.bfloat16, requires_grad=training)
        hidden = torch.empty(SEQUENCES, LENGTH, H, dtype=torch.bfloat16, requires_grad=training)
        labels = torch.zeros(SEQUENCES, LENGTH, dtype=torch.long)
        with Storages(weight, hidden, labels) as storages, torch.set_grad_enabled(training):
            compute_loss_and_backward(hidden, weight, labels, storages, shifts=shifts, training=training)
            made = storages.numbers(weight.grad, hidden.grad) if training else set()
        return int(storages.peak(without=made))


@pytest.mark.parametrize("shifts", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_the_loss_takes_what_is_counted(shifts: bool, training: bool) -> None:
    """All rows are taken for as many as the logits have; a shifted copy lacks one of each sequence."""
    expected = head_peak_bytes(
        head(shifts=shifts), tokens=T, vocab=V, hidden=H, entropy=False, training=training
    )
    # A row less of each sequence in the shifted copy and all that follows from it, 12 bytes at most; labels
    # and losses, a few numbers per token.
    spare = 12 * SEQUENCES * V if shifts else 0
    few = 64 * T
    assert -few <= expected - counted(shifts=shifts, training=training) <= spare + few


def test_the_loss_takes_what_an_h200_measured() -> None:
    """A reader's run with torch 2.11: the head peaks at 55.7 GiB, with labels shifted by themselves."""
    size = head_peak_bytes(
        head(shifts=False), tokens=32_768, vocab=151_936, hidden=896, entropy=False, training=True
    )
    assert size / 2**30 == pytest.approx(55.7, abs=0.1)
