"""Nemotron-H, Nemotron Nano v2 and Nemotron 3: each layer is Mamba-2, attention, an MLP or experts alone."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, with_moe
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import LinearAttention, ModelShape

#: As newer files spell the kinds of layers.
_KINDS = {
    "mamba": "M",
    "linear_attention": "M",
    "attention": "*",
    "full_attention": "*",
    "mlp": "-",
    "moe": "E",
}
_PATTERN, _LIST = "hybrid_override_pattern", "layers_block_type"


def read(config: Config) -> ModelShape:
    """Nemotron-H: a pattern says what each layer is, and how many there are.

    Source: transformers ``NemotronHConfig`` (``hybrid_override_pattern``, ``layers_block_type``).
    """
    pattern = _pattern(config)
    stated = replace(config, values={**config.values, "num_hidden_layers": len(pattern)})
    shape = base_shape(stated, grouped=True, head_dim=128)
    kinds = {kind: tuple(at for at, own in enumerate(pattern) if own == kind) for kind in "M*-E"}
    linear = LinearAttention(
        key_heads=config.size("n_groups", "mamba_n_groups", default=8),
        value_heads=config.size("mamba_num_heads"),
        key_head_dim=config.size("ssm_state_size", "mamba_d_state", default=128),
        value_head_dim=config.size("mamba_head_dim"),
        conv_kernel=config.size("conv_kernel", default=4),
        layers=kinds["M"],
        scans=True,
    )
    bias = config.flag("attention_bias", default=False)
    shape = replace(
        shape,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        gated_mlp=False,
        norms_per_layer=1,
        linear=linear if kinds["M"] else None,
        mixers_alone=tuple(sorted((*kinds["M"], *kinds["*"]))),
        mlps_alone=tuple(sorted((*kinds["-"], *kinds["E"]))),
    )
    return shape if not kinds["E"] else _sparse(shape, config, kinds["E"])


def _pattern(config: Config) -> str:
    named, listed = config.text(_PATTERN), config.values.get(_LIST, config.values.get("layer_types"))
    if named is None and not isinstance(listed, list):
        raise config.missing(_PATTERN)
    pattern = named or "".join(_KINDS.get(str(kind), "?") for kind in listed or ())
    if not pattern or set(pattern) - set(_KINDS.values()):
        raise _unknown(config, pattern)
    return pattern


def _unknown(config: Config, pattern: str) -> UnsupportedError:
    return UnsupportedError(
        _("layers of kind {unknown!r} are not modelled").format(unknown=pattern),
        location=config.location,
        key=f"{config.prefix}{_PATTERN}",
    )


def _sparse(shape: ModelShape, config: Config, sparse: tuple[int, ...]) -> ModelShape:
    """The shape with experts, which may work in a latent width."""
    others = tuple(layer for layer in range(shape.layers) if layer not in sparse)
    with_experts = with_moe(
        shape,
        config,
        experts=config.size("n_routed_experts"),
        width=config.size("moe_intermediate_size"),
        shared=config.size("moe_shared_expert_intermediate_size"),
        dense_layers=others,
    )
    assert with_experts.moe is not None
    moe = replace(with_experts.moe, latent_width=config.optional_size("moe_latent_size") or 0)
    return replace(with_experts, moe=moe)


ARCHITECTURE = Architecture(
    read=read,
    traceable=False,
    layer=LayerTraits(squares_relu=True, sigmoid_router=True, expert_activations=1),
    liger_layers=False,
)
