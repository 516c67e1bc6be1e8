"""Parameter counts against the models that transformers itself builds, on the meta device."""

import copy
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tuner import shipped
from tuner.architectures import find_architecture, model_types
from tuner.errors import InputError
from tuner.models import shape_from_config
from tuner.models.library import read_profile

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.slow,
    # Messages of transformers about its own future are not about the counts.
    pytest.mark.filterwarnings("ignore"),
]

OWN_CODE = {"kimi_k2", "mimo"}  # model types that live in the checkpoint's repository
CONFIGS = {
    file.stem: next(iter(read_profile(file).configs.values()))
    for file in sorted((shipped.profiles() / "models").glob("*.yaml"))
}
KNOWN = {name: config for name, config in CONFIGS.items() if config["model_type"] not in OWN_CODE}
ONE_PER_TYPE = {config["model_type"]: config for config in KNOWN.values()}


def built_parameters(config: dict[str, Any]) -> int:
    """Parameters of the model that transformers builds, without allocating them."""
    values = copy.deepcopy(config)
    multimodal = "vision_config" in values
    kind = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    auto = transformers.AutoModelForImageTextToText if multimodal else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(kind)
    return sum(parameter.numel() for parameter in model.parameters())


def shallow(config: dict[str, Any]) -> dict[str, Any]:
    """A copy of the configuration with four layers, so that building the model takes no time."""
    config = copy.deepcopy(config)
    for part in (config, config.get("text_config", {})):
        part.update({key: 4 for key in ("num_hidden_layers", "n_layer") if key in part})
    return config


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    return config.get("text_config", config)  # type: ignore[no-any-return]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", KNOWN)
def test_profile_has_the_parameters_that_transformers_builds(name: str) -> None:
    config = KNOWN[name]
    assert shape_from_config(config, name=name, source=name).parameters == built_parameters(config)


def test_only_models_with_code_of_their_own_are_left_out() -> None:
    left_out = {config["model_type"] for config in CONFIGS.values()} - set(ONE_PER_TYPE)
    assert left_out <= OWN_CODE
    assert len(KNOWN) >= 45


@pytest.mark.sampled(8)
@pytest.mark.parametrize("model_type", ONE_PER_TYPE)
def test_a_key_left_out_means_what_transformers_takes_it_for(model_type: str) -> None:
    """Where the reader does not insist on a key, its absence must not be a guess."""
    whole = shallow(ONE_PER_TYPE[model_type])
    for key in [key for key in text_part(whole) if key not in ("model_type", "vision_config", "text_config")]:
        config = copy.deepcopy(whole)
        del text_part(config)[key]
        try:
            shape = shape_from_config(config, name=model_type, source=model_type)
        except InputError as error:
            assert error.key is not None
            assert error.key.endswith(key)
        else:
            assert shape.parameters == built_parameters(config), key


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {"attention_bias": True}),
        ("llama", {"mlp_bias": True}),
        ("llama", {"num_key_value_heads": None}),
        ("llama", {"head_dim": 96}),
        ("qwen3", {"attention_bias": True}),
        ("qwen3", {"tie_word_embeddings": True}),
        ("qwen3_moe", {"mlp_only_layers": [0, 2], "intermediate_size": 5000}),
        ("qwen3_moe", {"decoder_sparse_step": 2, "intermediate_size": 5000}),
        ("qwen2_moe", {"mlp_only_layers": [1], "intermediate_size": 5000}),
        ("qwen2_moe", {"qkv_bias": False}),
        ("qwen3_next", {"full_attention_interval": 2}),
        ("qwen3_next", {"layer_types": ["full_attention", *3 * ["linear_attention"]]}),
        ("deepseek_v3", {"q_lora_rank": None}),
        ("deepseek_v3", {"attention_bias": True}),
        ("deepseek_v3", {"first_k_dense_replace": 0}),
        ("deepseek_v2", {"q_lora_rank": 100, "attention_bias": True}),
        ("deepseek_v3", {"n_shared_experts": 3}),
        ("glm4_moe", {"use_qk_norm": True, "attention_bias": False}),
        ("glm4", {"attention_bias": False}),
        ("gpt_oss", {"attention_bias": False}),
        ("gemma2", {"attention_bias": True}),
        ("seed_oss", {"attention_out_bias": True, "mlp_bias": True}),
        ("smollm3", {"tie_word_embeddings": False}),
        ("olmo2", {"num_key_value_heads": 8}),
        ("gpt2", {"n_inner": 1000}),
        ("mixtral", {"tie_word_embeddings": True}),
    ],
)
def test_switches_count_as_in_transformers(model_type: str, changes: dict[str, Any]) -> None:
    config = shallow(ONE_PER_TYPE[model_type]) | changes
    assert shape_from_config(config, name="x", source="x").parameters == built_parameters(config)


def test_counts_agree_after_a_round_trip_through_the_newest_spelling(tmp_path: Path) -> None:
    """What transformers writes today is read as what it wrote at a model's release."""
    from tuner.models import find_model

    for model_type, config in ONE_PER_TYPE.items():
        values = copy.deepcopy(config)
        kind = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
        folder = tmp_path / model_type
        kind.save_pretrained(folder)
        shape = find_model(str(folder))
        expected = shape_from_config(config, name=shape.name, source=shape.source)
        assert shape.parameters == expected.parameters, model_type
        assert shape.kv_values_per_token == expected.kv_values_per_token, model_type
        assert shape.windowed_layers == expected.windowed_layers, model_type
        assert shape.max_positions == expected.max_positions, model_type


def test_value_heads_are_there_where_transformers_has_token_classification() -> None:
    from transformers.models.auto import modeling_auto

    known = set(modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES)
    assert {kind for kind in model_types() if find_architecture(kind).token_classification} == known & set(
        model_types()
    )


def test_a_value_head_has_the_parameters_that_transformers_builds() -> None:
    config = shallow(ONE_PER_TYPE["llama"])
    kind = transformers.AutoConfig.for_model(**copy.deepcopy(config), num_labels=1)
    with torch.device("meta"):
        model = transformers.AutoModelForTokenClassification.from_config(kind)
    built = sum(parameter.numel() for parameter in model.parameters())
    assert replace(shape_from_config(config, name="", source=""), value_head=True).parameters == built
