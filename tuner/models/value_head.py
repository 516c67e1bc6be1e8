"""Which architectures transformers can build with a value head in the output projection's place."""

# Keys of transformers' MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES; the tests hold it against them.
_TOKEN_CLASSIFICATION = frozenset(
    (
        "deepseek_v3",
        "gemma",
        "gemma2",
        "glm4",
        "gpt2",
        "gpt_oss",
        "llama",
        "mistral",
        "mixtral",
        "phi",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_5",
        "qwen3_moe",
        "qwen3_next",
        "seed_oss",
        "smollm3",
    )
)


def has_token_classification(architecture: str) -> bool:
    """Whether transformers has a model for token classification of this ``model_type``."""
    return architecture in _TOKEN_CLASSIFICATION
