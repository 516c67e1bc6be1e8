"""How many parameters the adapters of a model have."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from tuner.model_shape import ModelShape

ALL_LINEAR = "all-linear"


class Linear(Struct, frozen=True, kw_only=True):
    """One projection that an adapter can be put on, ``copies`` of it in the layer."""

    name: str
    inputs: int
    outputs: int
    copies: int = 1


class AdapterCounts(Struct, frozen=True, kw_only=True):
    """What all adapters of a model come to."""

    parameters: int
    matrices: int  # two for each linear module


def adapter_parameters(
    model: ModelShape,
    *,
    rank: int,
    target: str | Sequence[str],
    exclude: str | Sequence[str] = (),
    experts: bool,
) -> int:
    """Parameters of all adapters that peft adds; arguments as of :func:`count_adapters`."""
    return count_adapters(model, rank=rank, target=target, exclude=exclude, experts=experts).parameters


def count_adapters(
    model: ModelShape,
    *,
    rank: int,
    target: str | Sequence[str],
    exclude: str | Sequence[str] = (),
    experts: bool,
) -> AdapterCounts:
    r"""Parameters and matrices of all adapters that peft adds to a transformers model.

    .. math:: \sum r \, (n_{in} + n_{out}) \text{ over the targeted projections}

    Args:
        model: its dimensions.
        rank: :math:`r`.
        target: ``all-linear`` (every projection except the output head), names, or a pattern that
            spells names out.
        exclude: names left without an adapter.
        experts: whether routed experts and routers are linear modules of their own. They are in
            transformers 4; transformers 5 keeps the experts of a layer as one tensor, which peft skips.
    """
    values = modules = 0
    for layer in range(model.layers):
        for linear in _linears(model, layer, experts=experts):
            if _named(linear.name, target) and not _named(linear.name, exclude):
                values += linear.copies * (linear.inputs + linear.outputs)
                modules += linear.copies
    return AdapterCounts(parameters=rank * values, matrices=2 * modules)


def megatron_adapter_parameters(model: ModelShape, *, rank: int, target: Sequence[str]) -> int:
    """Parameters of all adapters in Megatron's fused projections.

    Routed experts run as one grouped projection and share one adapter.
    """
    gates = 2 if model.gated_mlp else 1
    total = 0
    for layer in range(model.layers):
        widths = [model.intermediate] if model.has_mlp(layer) else []
        if model.is_sparse(layer) and model.moe is not None:
            widths = [
                width for width in (model.moe.expert_intermediate, model.moe.shared_intermediate) if width
            ]
        sizes = {
            **_megatron_attention(model, layer),
            "linear_fc1": sum(model.hidden + gates * width for width in widths),
            "linear_fc2": sum(width + model.hidden for width in widths),
        }
        total += rank * sum(size for name, size in sizes.items() if name in target)
    return total


def _megatron_attention(model: ModelShape, layer: int) -> dict[str, int]:
    """Inputs and outputs of the projections of one layer's attention, by their names."""
    linear = model.linear
    if linear is not None and linear.scans and model.is_linear(layer):
        made = linear.conv_width + linear.value_width + linear.value_heads
        return {"in_proj": model.hidden + made, "out_proj": linear.value_width + model.hidden}
    if not model.has_mixer(layer):
        return {}
    query, key_value = model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    return {"linear_qkv": model.hidden + query + key_value, "linear_proj": query + model.hidden}


def _named(name: str, target: str | Sequence[str]) -> bool:
    if target == ALL_LINEAR:
        return True
    return _spelled_out(name, target) if isinstance(target, str) else name in target


@lru_cache(maxsize=32)  # every layer asks for the same few
def _spelled_out(name: str, pattern: str) -> bool:
    """Whether a pattern such as ``.*(q_proj|v_proj)`` spells a name out."""
    return re.search(rf"\b{name}\b", pattern) is not None


def _linears(model: ModelShape, layer: int, *, experts: bool) -> Iterator[Linear]:
    if model.traced is not None:
        for linear in model.traced.layer(layer).linears:
            yield Linear(name=linear.name, inputs=linear.inputs, outputs=linear.outputs)
        return
    if model.has_mixer(layer):
        yield from _attention(model, layer)
    if not model.has_mlp(layer):
        return
    moe = model.moe
    if moe is None or not model.is_sparse(layer):
        yield from _mlp(model, model.intermediate)
        return
    if experts:
        yield from _mlp(model, moe.expert_intermediate, copies=moe.experts)
        yield Linear(name="gate", inputs=model.hidden, outputs=moe.experts)
    if moe.shared_intermediate:
        yield from _mlp(model, moe.shared_intermediate)
        if moe.shared_gate:
            yield Linear(name="shared_expert_gate", inputs=model.hidden, outputs=1)


def _indexer(model: ModelShape, layer: int) -> Iterator[Linear]:
    indexer, latent = model.indexer, model.latent
    if indexer is None or latent is None or not model.has_indexer(layer):
        return
    rank = latent.q_lora_rank or model.hidden
    yield Linear(name="wq_b", inputs=rank, outputs=indexer.heads * indexer.head_dim)
    yield Linear(name="wk", inputs=model.hidden, outputs=indexer.head_dim)
    yield Linear(name="weights_proj", inputs=model.hidden, outputs=indexer.heads)


def _mlp(model: ModelShape, width: int, *, copies: int = 1) -> Iterator[Linear]:
    if model.gated_mlp:
        yield Linear(name="gate_proj", inputs=model.hidden, outputs=width, copies=copies)
    yield Linear(name="up_proj", inputs=model.hidden, outputs=width, copies=copies)
    yield Linear(name="down_proj", inputs=width, outputs=model.hidden, copies=copies)


def _attention(model: ModelShape, layer: int) -> Iterator[Linear]:
    hidden = model.hidden
    if model.linear is not None and model.is_linear(layer):
        linear = model.linear
        if linear.scans:
            made = linear.conv_width + linear.value_width + linear.value_heads
            yield Linear(name="in_proj", inputs=hidden, outputs=made)
            yield Linear(name="out_proj", inputs=linear.value_width, outputs=hidden)
            return
        yield Linear(name="in_proj_qkvz", inputs=hidden, outputs=linear.conv_width + linear.value_width)
        yield Linear(name="in_proj_ba", inputs=hidden, outputs=2 * linear.value_heads)
        yield Linear(name="out_proj", inputs=linear.value_width, outputs=hidden)
        return
    query = model.heads * model.head_dim
    if model.latent is not None:
        latent = model.latent
        if latent.q_lora_rank is None:
            yield Linear(name="q_proj", inputs=hidden, outputs=query)
        else:
            yield Linear(name="q_a_proj", inputs=hidden, outputs=latent.q_lora_rank)
            yield Linear(name="q_b_proj", inputs=latent.q_lora_rank, outputs=query)
        compressed = latent.kv_lora_rank + latent.qk_rope_head_dim
        expanded = model.heads * (latent.qk_nope_head_dim + latent.v_head_dim)
        yield Linear(name="kv_a_proj_with_mqa", inputs=hidden, outputs=compressed)
        yield Linear(name="kv_b_proj", inputs=latent.kv_lora_rank, outputs=expanded)
        yield Linear(name="o_proj", inputs=model.heads * latent.v_head_dim, outputs=hidden)
        yield from _indexer(model, layer)
        return
    key_value = model.kv_heads * model.head_dim
    yield Linear(name="q_proj", inputs=hidden, outputs=query * (2 if model.attention_gate else 1))
    yield Linear(name="k_proj", inputs=hidden, outputs=key_value)
    yield Linear(name="v_proj", inputs=hidden, outputs=key_value)
    yield Linear(name="o_proj", inputs=query, outputs=hidden)
