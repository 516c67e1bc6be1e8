"""Dense families: what transformers builds for their configuration, one function per family.

Each states which projections have biases, which norms there are and what an omitted switch
means. A size that is omitted is an error, except where published files rely on a default of
transformers.
"""

from msgspec.structs import replace

from tuner.model_shape import LogitCopies, ModelShape, QueryKeyNorm
from tuner.models.config import Config
from tuner.models.parts import base_shape, with_windows


def llama(config: Config) -> ModelShape:
    """Llama: one switch for all attention biases, one for the MLP."""
    bias = config.flag("attention_bias", default=False)
    mlp_bias = config.flag("mlp_bias", default=False)
    return replace(base_shape(config), qkv_bias=bias, output_bias=bias, mlp_bias=mlp_bias)


def seed_oss(config: Config) -> ModelShape:
    """Seed-OSS: a switch of its own for the output projection; biases unless switched off."""
    return replace(
        base_shape(config, grouped=True, head_dim=128),
        qkv_bias=config.flag("attention_bias", default=True),
        output_bias=config.flag("attention_out_bias", default=False),
        mlp_bias=config.flag("mlp_bias", default=False),
    )


def smollm3(config: Config) -> ModelShape:
    """SmolLM3: Llama with tied embeddings unless the file says otherwise."""
    config.stated("num_key_value_heads")
    shape = replace(llama(config), tied_embeddings=config.flag("tie_word_embeddings", default=True))
    if not config.flag("use_sliding_window", default=False):
        return shape
    return with_windows(shape, config, lambda layer: (layer + 1) % 4 == 0, default=None)


def mistral(config: Config) -> ModelShape:
    """Mistral: no biases; a window in every layer unless the file says null."""
    return with_windows(base_shape(config, grouped=True), config, lambda layer: True)


def qwen2(config: Config) -> ModelShape:
    """Qwen2, Qwen2.5 and their text part in Qwen-VL: biases on queries, keys and values."""
    shape = replace(base_shape(config, grouped=True), qkv_bias=True)
    if not config.flag("use_sliding_window", default=False):
        return shape
    first = config.count("max_window_layers", default=28)
    return with_windows(shape, config, lambda layer: layer >= first)


def qwen3(config: Config) -> ModelShape:
    """Qwen3 and its text part in Qwen3-VL."""
    shape = qwen3_attention(config, head_dim=128)
    if not config.flag("use_sliding_window", default=False):
        return shape
    first = config.count("max_window_layers", default=28)
    return with_windows(shape, config, lambda layer: layer >= first)


def qwen3_attention(config: Config, *, head_dim: int | None) -> ModelShape:
    """What all Qwen3 models share: heads are normalised one by one, no biases."""
    bias = config.flag("attention_bias", default=False)
    return replace(
        base_shape(config, grouped=True, head_dim=head_dim),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=QueryKeyNorm.PER_HEAD,
    )


def mimo(config: Config) -> ModelShape:
    """MiMo: Qwen2 with multi-token-prediction modules, which its own code always builds."""
    shape = qwen2(config)
    shape = replace(shape, qkv_bias=config.flag("attention_bias", default=True))
    modules = config.count("num_nextn_predict_layers", default=0)
    one_module = shape.layer_parameters(0) + 2 * shape.hidden**2 + 3 * shape.norm_parameters
    return replace(shape, extra_parameters=modules * one_module)


def gemma(config: Config) -> ModelShape:
    """Gemma: wide heads, tied embeddings."""
    bias = config.flag("attention_bias", default=False)
    shape = base_shape(config, grouped=True, head_dim=256, tied=True)
    return replace(shape, qkv_bias=bias, output_bias=bias)


def gemma2(config: Config) -> ModelShape:
    """Gemma 2: norms before and after each block, every other layer has a window."""
    shape = replace(gemma(config), norms_per_layer=4, logit_copies=_soft_capping(config))
    return with_windows(shape, config, lambda layer: layer % 2 == 0)


def _soft_capping(config: Config) -> LogitCopies:
    """Logits divided, put through tanh and multiplied, unless the file says null."""
    if "final_logit_softcapping" in config.values and config.number("final_logit_softcapping") is None:
        return LogitCopies()
    return LogitCopies(saved=1, forward=1, backward=1)


def gemma3(config: Config) -> ModelShape:
    """Gemma 3: Gemma 2 with normalised heads; the last of every six layers has no window."""
    # Published Gemma 3 files state only what differs from these defaults of transformers.
    defaults = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
    }
    stated = {key: value for key, value in config.values.items() if value is not None}
    config = replace(config, values=defaults | stated)
    shape = replace(gemma(config), norms_per_layer=4, qk_norm=QueryKeyNorm.PER_HEAD)
    pattern = config.size("sliding_window_pattern", default=6)
    return with_windows(shape, config, lambda layer: (layer + 1) % pattern != 0)


def glm4(config: Config) -> ModelShape:
    """GLM-4-0414: norms before and after each block."""
    shape = base_shape(config, grouped=True, head_dim=128)
    return replace(shape, qkv_bias=config.flag("attention_bias", default=True), norms_per_layer=4)


def glm4v(config: Config) -> ModelShape:
    """The text part of GLM-4.1V: GLM-4 with biases always."""
    return replace(base_shape(config, grouped=True), qkv_bias=True, norms_per_layer=4)


def olmo2(config: Config) -> ModelShape:
    """OLMo 2: all query heads are normalised together, and all key heads."""
    return replace(llama(config), qk_norm=QueryKeyNorm.FULL)


def olmo3(config: Config) -> ModelShape:
    """OLMo 3: OLMo 2, where the last of every four layers has no window."""
    return with_windows(olmo2(config), config, lambda layer: (layer + 1) % 4 != 0)


def phi(config: Config) -> ModelShape:
    """Phi-1, Phi-1.5 and Phi-2: LayerNorm, biases everywhere, attention beside the MLP."""
    if config.flag("qk_layernorm", default=False):
        raise config.error("qk_layernorm", "query and key norms of this model are not modelled")
    return replace(
        base_shape(config),
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated_mlp=False,
        norm_bias=True,
        norms_per_layer=1,
    )


def phi3(config: Config) -> ModelShape:
    """Phi-3, Phi-3.5 and Phi-4: no biases; where a window is stated it holds in every layer."""
    return with_windows(base_shape(config), config, lambda layer: True, default=None)


def gpt2(config: Config) -> ModelShape:
    """GPT-2: learned positions, LayerNorm, biases everywhere but in the head."""
    hidden = config.size("n_embd", "hidden_size")
    heads = config.size("n_head", "num_attention_heads")
    positions = config.size("n_positions", "max_position_embeddings")
    return ModelShape(
        name="",
        architecture="gpt2",
        hidden=hidden,
        layers=config.layers("n_layer", "num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=config.size("n_inner", default=4 * hidden),
        vocab=config.size("vocab_size"),
        tied_embeddings=config.flag("tie_word_embeddings", default=True),
        max_positions=positions,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        gated_mlp=False,
        norm_bias=True,
        position_parameters=positions * hidden,
    )
