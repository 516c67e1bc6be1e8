"""What the kernels ask of their arguments: each violation is a ValueError that names the argument.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from tuner.kernels.asynchronous_read import AsynchronousRead, ask
from tuner.kernels.rows import Rows, select

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
LABEL_DTYPES = (torch.int32, torch.int64)
LOWEST_TEMPERATURE = 1e-6  # the logits over a lower one leave float32
HIGHEST_INVERSE = 1.001 / LOWEST_TEMPERATURE  # as float32 rounds it


def check_matrices(hidden: Tensor, weight: Tensor) -> None:
    """Shapes ``[..., H]`` and ``[V, H]``, one dtype, one device."""
    if hidden.dim() < 1 or hidden.shape[-1] < 1:
        raise ValueError(f"hidden must be [..., H] with H at least 1, not {tuple(hidden.shape)}")
    if weight.dim() != 2 or weight.shape[0] < 1:
        raise ValueError(f"weight must be [V, H] with V at least 1, not {tuple(weight.shape)}")
    if weight.shape[1] != hidden.shape[-1]:
        raise ValueError(f"weight must have H = {hidden.shape[-1]} columns as hidden, not {weight.shape[1]}")
    if hidden.dtype not in DTYPES:
        raise ValueError(f"hidden must be bfloat16, float16 or float32, not {hidden.dtype}")
    if weight.dtype != hidden.dtype:
        raise ValueError(f"weight must be {hidden.dtype} as hidden, not {weight.dtype}")
    if weight.device != hidden.device:
        raise ValueError(f"weight must be on {hidden.device} as hidden, not on {weight.device}")


def check_logits(logits: Tensor) -> None:
    """Shape ``[..., V]`` and dtype."""
    if logits.dim() < 1 or logits.shape[-1] < 1:
        raise ValueError(f"logits must be [..., V] with V at least 1, not {tuple(logits.shape)}")
    if logits.dtype not in DTYPES:
        raise ValueError(f"logits must be bfloat16, float16 or float32, not {logits.dtype}")


def check_labels(labels: Tensor, rows: Tensor, name: str) -> None:
    """One label for each row of the tensor of this name, an integer on its device."""
    if labels.shape != rows.shape[:-1]:
        raise ValueError(
            f"labels must be {tuple(rows.shape[:-1])} as the rows of {name}, not {tuple(labels.shape)}"
        )
    if labels.dtype not in LABEL_DTYPES:
        raise ValueError(f"labels must be int64 or int32, not {labels.dtype}")
    if labels.device != rows.device:
        raise ValueError(f"labels must be on {rows.device} as {name}, not on {labels.device}")


def inverse_temperatures(temperature: float | Tensor, labels: Tensor) -> Tensor:
    """One over the temperature of each row, a float32 vector.

    Args:
        temperature: a number, or a tensor with one element or shaped like ``labels``.
        labels: any shape.

    Raises:
        ValueError: a number below 1e-6 or not finite (a tensor's are read with the labels); a tensor of
            another shape, on another device, or with a gradient.
    """
    if not isinstance(temperature, Tensor):
        if not isfinite(temperature) or temperature < LOWEST_TEMPERATURE:
            raise ValueError(
                f"temperature must be a finite number of at least {LOWEST_TEMPERATURE:g}, not {temperature!r}"
            )
        return torch.full((labels.numel(),), 1 / temperature, device=labels.device, dtype=torch.float32)
    if temperature.numel() != 1 and temperature.shape != labels.shape:
        raise ValueError(
            f"temperature must be a number or {tuple(labels.shape)} as labels, not {tuple(temperature.shape)}"
        )
    if temperature.device != labels.device:
        raise ValueError(f"temperature must be on {labels.device} as labels, not on {temperature.device}")
    if temperature.requires_grad:
        raise ValueError("temperature must not require a gradient: none is computed for it")
    return temperature.float().reciprocal().reshape(-1).expand(labels.numel()).contiguous()


def extremes(active_T: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor) -> Tensor:
    """How many rows are active, the lowest and highest label of theirs, and inverse temperature; float64."""
    if not active_T.numel():
        return torch.tensor([0, 0, 0, 1, 1], dtype=torch.float64, device=active_T.device)
    lowest, highest = torch.where(active_T, labels_T, 0).aminmax()
    least, most = torch.where(active_T, inverse_temperature_T, 1.0).aminmax()
    return torch.stack([value.double() for value in (active_T.sum(), lowest, highest, least, most)])


def check_extremes(row_extremes: list[float], *, ignore_index: int, vocabulary: int) -> None:
    """Raise a ValueError for what :func:`extremes` found, as :func:`checked_rows`."""
    _, lowest_label, highest_label, least_inverse, most_inverse = row_extremes
    if lowest_label < 0 or highest_label >= vocabulary:
        wrong = int(lowest_label if lowest_label < 0 else highest_label)
        raise ValueError(
            f"labels must be in [0, {vocabulary}) or {ignore_index}, which is ignored, not {wrong}"
        )
    if not (least_inverse > 0 and most_inverse <= HIGHEST_INVERSE):
        raise ValueError(f"temperature must be finite and at least {LOWEST_TEMPERATURE:g} for every row")


@dataclass(frozen=True, kw_only=True)
class Look:
    """The one look at values that a pass allows itself: asked for, and on its way to the host."""

    active_T: Tensor
    on_device: Tensor  # of :func:`extremes`
    answer: AsynchronousRead  # the same, for the host
    ignore_index: int
    vocabulary: int

    def rows(self) -> Rows:
        """The rows whose label is not ignored; waits, and reads once more where rows are ignored.

        Raises:
            ValueError: a label outside the vocabulary; a temperature below 1e-6, infinite or NaN.
        """
        row_extremes = self.answer.numbers()
        check_extremes(row_extremes, ignore_index=self.ignore_index, vocabulary=self.vocabulary)
        return select(self.active_T, count=int(row_extremes[0]))


def look_at_rows(
    labels_T: Tensor, inverse_temperature_T: Tensor, *, ignore_index: int, vocabulary: int
) -> Look:
    """Ask the device which rows there are and whether their values are in range, without waiting."""
    active_T = labels_T != ignore_index
    on_device = extremes(active_T, labels_T, inverse_temperature_T)
    return Look(
        active_T=active_T,
        on_device=on_device,
        answer=ask(on_device),
        ignore_index=ignore_index,
        vocabulary=vocabulary,
    )


def checked_rows(
    labels_T: Tensor, inverse_temperature_T: Tensor, *, ignore_index: int, vocabulary: int
) -> Rows:
    """The rows of a look, waited for at once; errors as :meth:`Look.rows`."""
    look = look_at_rows(labels_T, inverse_temperature_T, ignore_index=ignore_index, vocabulary=vocabulary)
    return look.rows()
