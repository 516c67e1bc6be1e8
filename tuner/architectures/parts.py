"""What the families of models have in common: sizes, experts, attention windows."""

from collections.abc import Callable

from msgspec.structs import replace

from tuner.architectures.config import Config
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import MixtureOfExperts, ModelShape

_KINDS = ("full_attention", "sliding_attention", "linear_attention")
_EXTENDING = ("linear", "dynamic")  # kinds of rope scaling by which the stated positions are multiplied


def base_shape(
    config: Config,
    *,
    grouped: bool = False,
    head_dim: int | None = None,
    tied: bool = False,
) -> ModelShape:
    """A dense model without biases.

    Args:
        config: where the sizes are read.
        grouped: the number of key/value heads must be stated; where it need not be, a missing
            number means as many as there are heads. Null always means that.
        head_dim: the width of a head where the file does not state it; None: hidden over heads,
            which is also what null means.
        tied: whether the output projection shares the embedding where the file does not say.
    """
    heads = config.size("num_attention_heads")
    hidden = config.size("hidden_size")
    kv_heads = config.size(
        config.stated("num_key_value_heads") if grouped else "num_key_value_heads", default=heads
    )
    if heads % kv_heads:
        raise config.error(
            "num_key_value_heads",
            _("{kv_heads} does not divide the {heads} attention heads").format(
                kv_heads=kv_heads, heads=heads
            ),
        )
    default = head_dim if "head_dim" not in config.values else None
    own_head_dim = config.optional_size("head_dim") or default
    if own_head_dim is None and hidden % heads:
        raise config.error(
            "head_dim",
            _("is missing, and {heads} heads do not divide hidden_size {hidden}").format(
                heads=heads, hidden=hidden
            ),
        )
    return ModelShape(
        name="",
        architecture="",
        hidden=hidden,
        layers=config.layers("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=own_head_dim or hidden // heads,
        intermediate=config.count("intermediate_size", default=0),  # 0: `complete` judges
        vocab=config.size("vocab_size"),
        tied_embeddings=config.flag("tie_word_embeddings", default=tied),
        max_positions=_positions(config),
    )


def _positions(config: Config) -> int:
    """The longest sequence that engines take: some kinds of rope scaling extend the stated one.

    Source: vLLM ``config/model.py``, ``_get_and_verify_max_len``; Gemma 3 states what its scaling has made.
    """
    positions = config.size("max_position_embeddings")
    rope = config.section("rope_parameters") or config.section("rope_scaling")
    if rope is None:
        return positions
    kind, factor = rope.find("rope_type", "type")[1], rope.number("factor")
    if factor is None:
        return positions
    if kind in _EXTENDING and "gemma3" not in str(config.find("model_type")[1]):
        return int(positions * factor)
    original = rope.optional_size("original_max_position_embeddings")
    return positions if kind != "yarn" or original is None else max(positions, int(original * factor))


def complete(shape: ModelShape, config: Config) -> ModelShape:
    """The shape itself, once it is sure to have the MLP that its layers need.

    Raises:
        InputError: a dense layer's width is not stated.
    """
    if not shape.intermediate:
        raise config.missing("intermediate_size")
    return shape


def with_moe(
    shape: ModelShape,
    config: Config,
    *,
    experts: int,
    width: int,
    shared: int = 0,
    shared_gate: bool = False,
    biases: bool = False,
    dense_layers: tuple[int, ...] = (),
) -> ModelShape:
    """The shape with experts in every layer that is not listed as dense.

    Args:
        shape: the dense shape.
        config: where the experts per token are read.
        experts: routed experts of a layer.
        width: intermediate width of one of them.
        shared: summed intermediate width of the shared experts.
        shared_gate: whether a gate scales the shared experts.
        biases: whether router and experts have biases.
        dense_layers: layers that keep a dense MLP.
    """
    chosen = config.size("num_experts_per_tok", "num_experts_per_token", "experts_per_token")
    if chosen > experts:
        raise config.error(
            "num_experts_per_tok",
            _("{chosen} is more than the {experts} experts").format(chosen=chosen, experts=experts),
        )
    moe = MixtureOfExperts(
        experts=experts,
        experts_per_token=chosen,
        expert_intermediate=width,
        shared_intermediate=shared,
        shared_gate=shared_gate,
        router_bias=experts if biases else 0,
        expert_bias=biases,
        dense_layers=dense_layers,
    )
    intermediate = shape.intermediate if dense_layers else chosen * width + shared
    return replace(shape, moe=moe, intermediate=intermediate)


def dense_first(config: Config, layers: int) -> tuple[int, ...]:
    """The dense layers before the first sparse one (DeepSeek, GLM)."""
    return tuple(range(min(layers, config.count(config.stated("first_k_dense_replace"), default=0))))


def sparse_steps(config: Config, layers: int) -> tuple[int, ...]:
    """The dense layers where every n-th layer is sparse and some are excepted (Qwen)."""
    step = config.size("decoder_sparse_step", default=1)
    excepted = config.indices("mlp_only_layers", below=layers)
    return tuple(layer for layer in range(layers) if layer in excepted or (layer + 1) % step)


def idle_window(config: Config) -> int | None:
    """The window that stands in a file though nothing uses it; None where it names none."""
    window = config.values.get("sliding_window")
    return window if type(window) is int and window > 0 else None


def with_windows(
    shape: ModelShape, config: Config, windowed: Callable[[int], bool], *, default: int | None = 4096
) -> ModelShape:
    """The shape with attention limited to a window in some layers.

    Args:
        shape: the shape with full attention.
        config: where the window and, in newer files, the kind of every layer are read.
        windowed: which layers have the window where the file does not list them.
        default: the window of a file without the key; null always means no window.
    """
    window = config.optional_size("sliding_window")
    if "sliding_window" not in config.values:
        window = default
    kinds = config.kinds("layer_types", layers=shape.layers)
    if kinds is not None and (unknown := sorted(set(kinds) - set(_KINDS))):
        raise UnsupportedError(
            _("layers of kind {unknown!r} are not modelled").format(unknown=unknown[0]),
            location=config.location,
            key=f"{config.prefix}layer_types",
        )
    if window is None:
        return shape
    limited = sum(map(windowed, range(shape.layers))) if kinds is None else kinds.count("sliding_attention")
    return replace(shape, sliding_window=window if limited else None, windowed_layers=limited)
