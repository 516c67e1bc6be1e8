"""The table of the output heads, and of what else a model's tokens take, for a terminal."""

from functools import partial

from tuner.consultation.cluster import ChosenGpu
from tuner.consultation.head import HeadRow, HeadSizes, head_rows, token_rows
from tuner.language import _
from tuner.memory.head.logits import published_rule_bytes
from tuner.model_shape import ModelShape
from tuner.render.columns import columns, left, right
from tuner.render.numbers import gib
from tuner.render.terminal import Terminal, plain
from tuner.render.words import listed
from tuner.workload import (
    ENTROPY_CHUNK_TOKENS,
)
from tuner.workload.head import head_label

_COLUMN = 11
_gib = partial(gib, decimals=2)  # the leanest ways take some 10 MiB


def head_text(
    sizes: HeadSizes, model: ModelShape | None, terminal: Terminal, *, card: ChosenGpu | None = None
) -> str:
    """The table of the heads and the one of their tokens, for a terminal."""
    title = _("Output head: {tokens:,} tokens x {vocab:,} vocabulary, hidden {hidden:,}, {dtype}").format(
        tokens=sizes.tokens, vocab=sizes.vocab, hidden=sizes.hidden, dtype=sizes.dtype.value
    )
    published = _gib(published_rule_bytes(tokens=sizes.tokens, vocab=sizes.vocab))
    notes = (
        _(
            "Peaks on one GPU; weights, their gradient and the hidden states are not counted. "
            "Chunks are of {entropy_chunk_tokens:,} tokens."
        ).format(entropy_chunk_tokens=ENTROPY_CHUNK_TOKENS),
        _(
            "The published rule of thumb, tokens x vocabulary x (4 + 2 + 1), gives {published}; "
            "none of these ways takes that."
        ).format(published=published),
    )
    parts = [
        terminal.style(terminal.prose(title), "bold"),
        _head_table(head_rows(sizes), terminal),
        "\n".join(terminal.prose(note) for note in notes),
    ]
    if card is not None:
        parts.append(terminal.prose(_of_card(head_rows(sizes), card)))
    if model is not None:
        parts.append(_token_table(sizes, model, terminal))
    return "\n\n".join(parts)


def _of_card(rows: tuple[HeadRow, ...], card: ChosenGpu) -> str:
    """The ways whose training with entropy takes more than a card has, or that all of them are within."""
    capacity = card.gpu.capacity_bytes
    beyond = [head_label(row.name) for row in rows if row.training_entropy_bytes > capacity]
    text = _("All of them are within the {capacity} of {gpu} ({reason}).")
    if beyond:
        text = _("Beyond the {capacity} of {gpu} ({reason}), in training with entropy: {ways}.")
    return text.format(capacity=gib(capacity), gpu=card.gpu.name, reason=card.reason, ways=listed(beyond))


def _head_table(rows: tuple[HeadRow, ...], terminal: Terminal) -> str:
    width = max(columns(head_label(row.name)) for row in rows)
    group = 2 * _COLUMN
    head = (
        "  " + " " * width + right(_("forward only"), group) + right(_("training"), group),
        "  " + " " * width + (right(_("log-prob"), _COLUMN) + right(_("+ entropy"), _COLUMN)) * 2,
    )
    lines = [terminal.style(line, "dim") for line in head]
    for row in rows:
        forward = (row.forward_bytes, row.forward_entropy_bytes)
        amounts = (*forward, row.training_bytes, row.training_entropy_bytes)
        lines.append(
            f"  {left(head_label(row.name), width)}"
            + "".join(_gib(amount).rjust(_COLUMN) for amount in amounts)
        )
    return "\n".join(lines)


def _token_table(sizes: HeadSizes, model: ModelShape, terminal: Terminal) -> str:
    rows, of_all = token_rows(sizes, model), _("{tokens:,} tokens")
    width = max(columns(row.name) for row in rows)
    lines = [
        terminal.style(
            _("{model}: all {layers} layers on one GPU").format(model=plain(model.name), layers=model.layers),
            "bold",
        ),
        terminal.style(
            " " * (2 + width) + right(_("per token"), 18) + right(of_all.format(tokens=sizes.tokens), 16),
            "dim",
        ),
    ]
    lines += [
        "  "
        + left(row.name, width)
        + right(_("{size:,} bytes").format(size=row.bytes_per_token), 18)
        + f"{_gib(row.bytes):>16}"
        for row in rows
    ]
    return "\n".join(lines)
