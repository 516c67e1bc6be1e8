"""What is known of a model, as text and JSON."""

import json
from collections.abc import Iterable
from typing import Any

from tuner.dtypes import DType
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.render.columns import left
from tuner.render.numbers import gib, parameters
from tuner.render.terminal import Terminal, plain
from tuner.render.words import clauses
from tuner.units import KIB

_LABEL = 14
_NAME = 32  # columns of the longest names but a few


def as_text(model: ModelShape, terminal: Terminal) -> str:
    """The page for a terminal: sizes and where they come from."""
    heads = _("{query} for queries, {kv} for keys and values, of {width}").format(
        query=model.heads, kv=model.kv_heads, width=model.head_dim
    )
    tied = _("output head tied to the embedding") if model.tied_embeddings else _("output head of its own")
    rows = [
        (_("type"), model.architecture),
        (_("parameters"), _counted(model)),
        (_("weights"), _("{size} in bfloat16").format(size=gib(model.parameters * DType.BFLOAT16.bytes))),
        (_("layers"), _("{layers}, {hidden} wide").format(layers=model.layers, hidden=model.hidden)),
        (_("heads"), heads),
        (_("vocabulary"), clauses([f"{model.vocab:,}", tied])),
        (_("positions"), f"{model.max_positions:,}"),
        (_("KV cache"), _("{size} KiB of a token in bfloat16").format(size=f"{_kv_bytes(model) / KIB:,.0f}")),
        (_("source"), model.source),
    ]
    if model.contained_in:
        rows.insert(0, (_("told by"), model.contained_in))
    indent = " " * (_LABEL + 2)
    lines = [
        terminal.prose(plain(text), indent=indent, first=f"  {left(name, _LABEL)}") for name, text in rows
    ]
    return "\n".join([terminal.style(model.name, "bold"), *lines])


def as_line(model: ModelShape, terminal: Terminal) -> str:
    """Name, type and parameters on one line."""
    return (
        f"{terminal.style(left(model.name, _NAME), 'bold')} {left(model.architecture, 18)} {_counted(model)}"
    )


def as_json(models: ModelShape | Iterable[ModelShape]) -> str:
    """One model, or a list of them, in bytes and counts."""
    content = _content(models) if isinstance(models, ModelShape) else [_content(model) for model in models]
    return json.dumps(content, indent=2, ensure_ascii=False)


def _counted(model: ModelShape) -> str:
    total, active = parameters(model.parameters), parameters(model.active_parameters)
    if model.moe is None:
        return total
    return _("{total}, {active} of them for each token").format(total=total, active=active)


def _kv_bytes(model: ModelShape) -> int:
    return model.cached_layers * model.kv_values_per_token * DType.BFLOAT16.bytes


def _content(model: ModelShape) -> dict[str, Any]:
    return {
        "name": model.name,
        "model_type": model.architecture,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layers,
        "hidden_size": model.hidden,
        "attention_heads": model.heads,
        "key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "experts": None if model.moe is None else model.moe.experts,
        "vocab_size": model.vocab,
        "tied_embeddings": model.tied_embeddings,
        "max_positions": model.max_positions,
        "parameters_beside_decoder": model.extra_parameters,
        "kv_cache_bytes_per_token": _kv_bytes(model),
        "named_in": model.contained_in or None,
        "source": model.source,
    }
