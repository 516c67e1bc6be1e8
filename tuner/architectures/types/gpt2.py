"""GPT-2."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
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


ARCHITECTURE = Architecture(read=read, liger_layers=False, token_classification=True)
