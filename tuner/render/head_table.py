"""Every way to compute log-probabilities and entropy side by side, and what else a model's tokens take."""

from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.language import _
from tuner.memory.head.logits import published_rule_bytes
from tuner.memory.head.peak import head_peak_bytes
from tuner.memory.layer.activations import all_layers_saved_bytes, layer_input_bytes
from tuner.model_shape import ModelShape
from tuner.render.columns import columns, left, right
from tuner.render.numbers import gib
from tuner.render.terminal import Terminal, plain
from tuner.workload import (
    ENTROPY_CHUNK_TOKENS,
    Backend,
    Checkpointing,
    Engine,
    OutputHead,
    Parallelism,
)
from tuner.workload.head_names import COMPARED_HEADS, head_label

_COLUMN = 11
_gib = partial(gib, decimals=2)  # the leanest ways take some 10 MiB


class HeadSizes(Struct, frozen=True, kw_only=True):
    """One micro-batch on one GPU."""

    tokens: int
    vocab: int
    hidden: int
    dtype: DType


class HeadRow(Struct, frozen=True, kw_only=True):
    """The peak of one way, in each direction, without and with entropy."""

    name: str
    forward_bytes: int
    forward_entropy_bytes: int
    training_bytes: int
    training_entropy_bytes: int


class TokenRow(Struct, frozen=True, kw_only=True):
    """What tokens of a model take besides the output head."""

    name: str
    bytes_per_token: int
    bytes: int


def head_rows(sizes: HeadSizes) -> tuple[HeadRow, ...]:
    """The peak of every way."""

    def peak(head: OutputHead, *, entropy: bool, training: bool) -> int:
        return head_peak_bytes(
            replace(head, logits_dtype=sizes.dtype),
            tokens=sizes.tokens,
            vocab=sizes.vocab,
            hidden=sizes.hidden,
            entropy=entropy,
            training=training,
        )

    return tuple(
        HeadRow(
            name=name,
            forward_bytes=peak(head, entropy=False, training=False),
            forward_entropy_bytes=peak(head, entropy=True, training=False),
            training_bytes=peak(head, entropy=False, training=True),
            training_entropy_bytes=peak(head, entropy=True, training=True),
        )
        for name, head in COMPARED_HEADS.items()
    )


def token_rows(sizes: HeadSizes, model: ModelShape) -> tuple[TokenRow, ...]:
    """KV cache and activations of the whole model on one GPU, nothing divided."""
    engine = _engine(sizes.dtype)
    amounts = (
        (_("KV cache"), model.kv_values_per_token * model.cached_layers * sizes.dtype.bytes),
        (_("activations, checkpointed"), layer_input_bytes(model, engine) * model.layers),
        (_("activations, all kept"), all_layers_saved_bytes(model, engine)),
    )
    return tuple(
        TokenRow(name=name, bytes_per_token=amount, bytes=amount * sizes.tokens) for name, amount in amounts
    )


def _engine(dtype: DType) -> Engine:
    return Engine(
        backend=Backend.FSDP2,
        parallel=Parallelism(gpus=1),
        stored_dtype=DType.FLOAT32,
        compute_dtype=dtype,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.NONE,
        packed=True,
    )


def head_text(sizes: HeadSizes, model: ModelShape | None, terminal: Terminal) -> str:
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
    if model is not None:
        parts.append(_token_table(sizes, model, terminal))
    return "\n\n".join(parts)


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
