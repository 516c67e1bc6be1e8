"""Finding a model and reading its dimensions, without transformers."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner import resources, shipped
from tuner.architectures import model_types
from tuner.errors import InputError, TunerError, UnsupportedError
from tuner.model_shape import QueryKeyNorm
from tuner.models import find_model, library, model_names, shape_from_config
from tuner.models.library import read_profile
from tuner.models.shape import read_config

FILES = sorted((shipped.profiles() / "models").glob("*.yaml"))

# As counted by the hub from the published weights; buffers and prediction modules left out.
PUBLISHED = {
    "Qwen2-7B-Instruct": 7_615_616_512,
    "Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-Math-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen2.5-VL-32B-Instruct": 33_452_718_336,
    "Qwen1.5-MoE-A2.7B-Chat": 14_315_784_192,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B-Instruct-2507": 4_022_468_096,
    "Qwen3-8B-Base": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B-Base": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Qwen3.5-0.8B": 852_985_920,
    "Qwen3.5-2B": 2_213_241_664,
    "Qwen3.5-4B": 4_539_265_536,
    "Qwen3.5-9B": 9_409_813_744,
    "Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
    "DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "Llama-3.1-8B-Instruct": 8_030_261_248,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.3-70B-Instruct": 70_553_706_496,
    "deepseek-llm-7b-chat": 6_910_365_696,
    "deepseek-coder-6.7b-instruct": 6_740_512_768,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V3": 671_026_404_352,
    "Mistral-Nemo-Instruct-2407": 12_247_782_400,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "gemma-1.1-7b-it": 8_537_680_896,
    "gemma-2-2b-it": 2_614_341_888,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b-it": 999_885_952,
    "gemma-3-4b-it": 4_300_079_472,
    "GLM-4-9B-0414": 9_400_279_040,
    "GLM-4.1V-9B-Thinking": 10_292_777_472,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "MiMo-7B-RL": 7_833_409_536,
    "OLMo-2-1124-7B": 7_298_617_344,
    "phi-4": 14_659_507_200,
    "Phi-3.5-mini-instruct": 3_821_079_552,
    "Seed-OSS-36B-Base": 36_151_104_512,
    "SmolLM2-135M": 134_515_008,
    "gpt2": 124_439_808,
}

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
LLAMA = QWEN | {"model_type": "llama", "num_attention_heads": 32, "hidden_size": 4096}


def write(folder: Path, content: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def read(**changes: object) -> Any:
    config = {key: value for key, value in (QWEN | changes).items() if value is not ...}
    return shape_from_config(config, name="x", source="config.json")


# -- bundled profiles ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_profile_has_the_published_parameters(name: str) -> None:
    assert find_model(name).parameters == PUBLISHED[name]


def test_there_are_many_models_and_no_name_twice() -> None:
    names = [name.lower() for name in model_names()]
    assert len(FILES) >= 45
    assert len(names) == len(set(names))
    assert names == sorted(names)


def test_every_listed_name_is_found_under_that_name() -> None:
    for name in model_names():
        shape = find_model(f"/data/models/{name.upper()}/")
        assert shape.name == name
        assert "huggingface.co" in shape.source


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_profile_states_nothing_that_is_not_read(file: Path) -> None:
    def keys(config: Any, prefix: str = "") -> set[str]:
        nested = (keys(value, f"{prefix}{key}.") for key, value in config.items() if isinstance(value, dict))
        return {f"{prefix}{key}" for key in config}.union(*nested)

    for config in read_profile(file).configs.values():
        _, used = read_config(config, name="x", source="x")
        assert keys(config) <= used


@pytest.mark.parametrize(
    "path",
    [
        "Qwen2.5-7B-Instruct",
        "qwen2.5-7b-instruct",
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen/Qwen2.5-7B-Instruct/",
        "~/models/Qwen2.5-7B-Instruct",
        "~nobody-here/models/Qwen2.5-7B-Instruct",
        "x" * 5000 + "/Qwen2.5-7B-Instruct",
        "hdfs://cluster/models/Qwen2.5-7B-Instruct//",
        "/cache/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/a09a35458c702b33eeacc393d103063234e8bc28",
    ],
)
def test_the_last_part_of_a_path_names_the_profile(path: str) -> None:
    shape = find_model(path)
    assert shape.name == "Qwen2.5-7B-Instruct"
    assert shape.parameters == 7_615_616_512


def test_variants_differ_where_their_configuration_does() -> None:
    lengths = {
        name: find_model(name).max_positions
        for name in ("Qwen2.5-7B-Instruct", "Qwen2.5-7B", "Qwen2.5-Math-7B", "Qwen2.5-7B-Instruct-1M")
    }
    assert list(lengths.values()) == [32768, 131072, 4096, 1_010_000]


@pytest.mark.parametrize("name", ["Qwen2.5-7-Instrct", "Qwen/Qwen2.5-7-Instruct"])
def test_unknown_name_says_what_to_give_and_what_is_near(name: str) -> None:
    with pytest.raises(InputError) as caught:
        find_model(name)
    assert name in caught.value.message
    assert "Qwen2.5-7B-Instruct" in caught.value.message.split("near it")[1]
    assert caught.value.hint is not None
    for way in ("--model NAME", "--model DIR", "config.json"):
        assert way in caught.value.hint


@pytest.mark.parametrize("name", ["Qwen2.5-7", "7B", "Qwen", "model", "null"])
def test_part_of_a_name_is_no_name(name: str) -> None:
    with pytest.raises(InputError, match="no bundled profile is named"):
        find_model(name)


@pytest.mark.parametrize("path", ["", "  "])
def test_empty_path_is_an_error(path: str) -> None:
    with pytest.raises(InputError, match="empty"):
        find_model(path)


def test_a_look_up_parses_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    reading = resources.read_profile

    def counted(file: Path, **keys: Any) -> dict[str, Any]:
        parsed.append(file)
        return reading(file, **keys)

    monkeypatch.setattr(resources, "read_profile", counted)
    library._find_in_profiles.cache_clear()  # another test may have asked
    find_model("Qwen3-8B")
    assert [file.stem for file in parsed] == ["qwen3-8b"]


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("names: [a]\nsource: s\nconfig: {model_type: qwen2}\nextra: 1\n", "extra"),
        ("source: s\nconfig: {model_type: qwen2}\n", "names"),
        ("names: []\nsource: s\nconfig: {model_type: qwen2}\n", "names"),
        ("names: a\nsource: s\nconfig: {model_type: qwen2}\n", "names"),
        ("names: [a]\nsource: s\nconfig: {a: 1}\nvariants: [{names: [b], configs: {}}]\n", "config"),
        ("- a\n", None),
        ("names: [a\n", None),
    ],
)
def test_malformed_profile_is_named(content: str, key: str | None, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_profile(file)
    assert "broken.yaml" in str(caught.value)
    assert caught.value.key == key


def test_incomplete_installation_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "tuner")
    for locate in (shipped.profiles, shipped.locale_dir):
        with pytest.raises(InputError, match="incomplete"):
            locate()


def test_an_installed_package_has_its_data_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = tmp_path / "tuner" / "_data"
    shutil.copytree(shipped.profiles() / "gpus", data / "profiles" / "gpus")
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path / "tuner")
    assert shipped.profiles() == data / "profiles"


# -- local checkpoints ---------------------------------------------------------------------


def test_a_folder_comes_before_the_profile_of_its_name(tmp_path: Path) -> None:
    write(tmp_path / "Qwen2.5-7B-Instruct", QWEN | {"num_hidden_layers": 3})
    shape = find_model("Qwen2.5-7B-Instruct", base=tmp_path)
    assert shape.layers == 3
    assert shape.name == "Qwen2.5-7B-Instruct"
    assert shape.source == str(tmp_path / "Qwen2.5-7B-Instruct" / "config.json")


@pytest.mark.parametrize("path", ["sft", "sft/", "sft/config.json", "./sft"])
def test_a_folder_or_its_file_may_be_given(path: str, tmp_path: Path) -> None:
    write(tmp_path / "sft", QWEN)
    assert find_model(path, base=tmp_path).parameters == 7_615_616_512
    assert find_model(str(tmp_path / path)).name == "sft"


def test_a_cached_snapshot_has_its_models_name(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Mine" / "snapshots" / "0a1b"
    write(folder, QWEN)
    assert find_model(str(folder)).name == "Mine"


def test_folder_without_configuration(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    with pytest.raises(InputError, match=r"holds no config\.json") as caught:
        find_model("weights", base=tmp_path)
    assert str(caught.value.location) == str(tmp_path / "weights")
    assert caught.value.hint is not None
    assert "--model" in caught.value.hint


def test_missing_json_file_is_not_taken_for_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        find_model("somewhere/config.json", base=tmp_path)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{\n  "model_type": "qwen2",\n  "hidden_size": ,\n}', ":3:18", "not valid JSON"),
        ("", ":1:1", "not valid JSON"),
        ("[1, 2]", "config.json", "expected a JSON object"),
        ("[" * 100_000, "config.json", "not a JSON text file"),
    ],
)
def test_broken_file_is_located(text: str, place: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        find_model(str(file))
    assert str(caught.value.location).startswith(str(file))
    assert str(caught.value.location).endswith(place)


def test_binary_file_is_no_traceback(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    file.write_bytes(b"\x80\x02\xff")
    with pytest.raises(InputError, match="not a JSON text file"):
        find_model(str(file))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model_type": ...}, "model_type"),
        ({"model_type": 7}, "model_type"),
        ({"hidden_size": ...}, "hidden_size"),
        ({"hidden_size": "3584"}, "hidden_size"),
        ({"hidden_size": 3584.0}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": [3584]}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": 10**15}, "hidden_size"),
        ({"num_hidden_layers": ...}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": None}, "num_attention_heads"),
        ({"num_attention_heads": 27}, "num_key_value_heads"),
        ({"num_key_value_heads": ...}, "num_key_value_heads"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"hidden_size": 3585}, "head_dim"),
        ({"head_dim": "auto"}, "head_dim"),
        ({"intermediate_size": ...}, "intermediate_size"),
        ({"vocab_size": ...}, "vocab_size"),
        ({"max_position_embeddings": ...}, "max_position_embeddings"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings"),
        ({"tie_word_embeddings": 0}, "tie_word_embeddings"),
        ({"use_sliding_window": True, "layer_types": ["full_attention"]}, "layer_types"),
        ({"use_sliding_window": True, "layer_types": 28}, "layer_types"),
        ({"rope_scaling": "yarn"}, "rope_scaling"),
        ({"rope_scaling": {"type": "yarn", "factor": "4"}}, "rope_scaling.factor"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": -1}}, "rope_parameters.factor"),
        ({"model_type": "qwen2_moe", "num_experts": 8}, "moe_intermediate_size"),
        ({"model_type": "deepseek_v3"}, "q_lora_rank"),
        ({"model_type": "qwen2_5_vl"}, "vision_config"),
        ({"model_type": "qwen2_5_vl", "vision_config": {"depth": 32}}, "vision_config.hidden_size"),
        ({"model_type": "qwen3_vl", "text_config": {"hidden_size": 64}}, "text_config.num_attention_heads"),
        ({"model_type": "gemma3", "text_config": 3}, "text_config"),
    ],
)
def test_unusable_configuration_names_the_key(changes: dict[str, object], key: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**changes)
    assert caught.value.key == key
    assert str(caught.value).startswith("config.json: ")


def test_an_image_has_as_many_patches_as_tokens_at_least() -> None:
    config = dict(read_profile(FILES[0].parent / "gemma-3-4b.yaml").configs["medgemma-4b-it"])
    vision = config["vision_config"] | {"image_size": 210}  # 15 by 15 patches of 14
    with pytest.raises(InputError) as caught:
        shape_from_config(config | {"vision_config": vision}, name="x", source="x")
    assert caught.value.key == "vision_config.image_size"


def test_more_experts_per_token_than_experts() -> None:
    config = dict(read_profile(FILES[0].parent / "qwen3-30b-a3b.yaml").configs["Qwen3-30B-A3B"])
    with pytest.raises(InputError) as caught:
        shape_from_config(config | {"num_experts_per_tok": 129}, name="x", source="x")
    assert caught.value.key == "num_experts_per_tok"


@pytest.mark.parametrize("model_type", ["chatglm", "minicpmo", "bert", "qwen99", "", "LLAMA"])
def test_other_model_types_are_refused_not_guessed(model_type: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read(model_type=model_type)
    assert repr(model_type) in caught.value.message
    assert caught.value.key == "model_type"
    assert caught.value.hint is not None
    assert all(known in caught.value.hint for known in model_types())


def test_other_kinds_of_layers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="chunked_attention"):
        read(use_sliding_window=True, layer_types=["chunked_attention"] * 28)


@pytest.mark.parametrize("model_type", model_types())
def test_no_type_reads_sizes_out_of_nothing(model_type: str) -> None:
    for config in ({}, {"text_config": {}}, {"vision_config": {}}, {"text_config": {}, "vision_config": {}}):
        with pytest.raises(TunerError):
            shape_from_config(config | {"model_type": model_type}, name="x", source="x")


# -- what a configuration means ------------------------------------------------------------


def test_missing_key_value_heads_mean_one_for_each_head() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    shape = shape_from_config(config, name="x", source="x")
    assert shape.kv_heads == shape.heads == 32
    assert read(num_key_value_heads=None).kv_heads == 28


def test_null_head_dim_is_hidden_over_heads() -> None:
    assert read(head_dim=None).head_dim == 128
    assert read(head_dim=64).head_dim == 64


@pytest.mark.parametrize(
    ("rope", "positions"),
    [
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
            131072,
        ),
        (
            {
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4,
                    "original_max_position_embeddings": 32768,
                }
            },
            131072,
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 4096}}, 32768),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 32768),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 32768),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 131072),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 65536),
        ({"rope_scaling": None}, 32768),
    ],
)
def test_longest_sequence_under_rope_scaling(rope: dict[str, object], positions: int) -> None:
    assert read(**rope).max_positions == positions


def test_text_keys_may_stand_at_the_top_or_in_a_part_of_their_own() -> None:
    flat = dict(read_profile(FILES[0].parent / "qwen2.5-vl-3b.yaml").configs["Qwen2.5-VL-3B-Instruct"])
    outer = {"model_type", "vision_config", "tie_word_embeddings"}
    nested = {key: value for key, value in flat.items() if key in outer}
    nested["text_config"] = {key: value for key, value in flat.items() if key not in outer}
    tied_within = {key: value for key, value in nested.items() if key != "tie_word_embeddings"}
    tied_within["text_config"] = nested["text_config"] | {"tie_word_embeddings": True}
    shapes = [shape_from_config(config, name="x", source="x") for config in (flat, nested, tied_within)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert shapes[0].parameters == 3_754_622_976
    assert shapes[0].parameters - shapes[0].extra_parameters == find_model("Qwen2.5-3B").parameters


@pytest.mark.parametrize(
    ("name", "window", "windowed"),
    [
        ("Mistral-7B-v0.1", 4096, 32),
        ("Mistral-7B-v0.3", None, 0),
        ("gemma-2-2b", 4096, 13),
        ("gemma-3-1b-it", 512, 22),
        ("gemma-3-27b-it", 1024, 52),
        ("gpt-oss-20b", 128, 12),
        ("Olmo-3-7B-Instruct", 4096, 24),
        ("Qwen2.5-7B", None, 0),
        ("Mixtral-8x7B-v0.1", None, 0),
    ],
)
def test_attention_windows(name: str, window: int | None, windowed: int) -> None:
    shape = find_model(name)
    assert (shape.sliding_window, shape.windowed_layers) == (window, windowed)


def test_stated_kinds_of_layers_decide_over_the_pattern() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"] * 23
    shape = read(use_sliding_window=True, sliding_window=4096, max_window_layers=20)
    assert shape.windowed_layers == 8
    assert read(use_sliding_window=True, sliding_window=4096, layer_types=kinds).windowed_layers == 5
    assert read(use_sliding_window=False, sliding_window=4096, layer_types=kinds).windowed_layers == 0


def test_a_window_that_no_layer_uses_is_kept_apart() -> None:
    idle = read(use_sliding_window=False, sliding_window=4096)
    assert (idle.idle_window, idle.sliding_window) == (4096, None)
    assert read(use_sliding_window=True, sliding_window=4096).idle_window is None
    for window in (None, 0, "4096", True):
        assert read(sliding_window=window).idle_window is None


# -- counts that follow from the dimensions ------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Qwen2.5-7B", "Qwen3-30B-A3B", "DeepSeek-V3", "Qwen3-Next-80B-A3B-Instruct"]
)
def test_parts_add_up(name: str) -> None:
    shape = find_model(name)
    layers = [shape.layer_parameters(layer) for layer in range(shape.layers)]
    ends = shape.embedding_parameters + shape.head_parameters + shape.norm_parameters
    assert sum(layers) == shape.decoder_parameters
    assert sum(layers) + ends == shape.parameters
    assert max(layers) == shape.largest_layer_parameters
    assert shape.sparse_layers == sum(shape.is_sparse(layer) for layer in range(shape.layers))
    assert shape.cached_layers == sum(not shape.is_linear(layer) for layer in range(shape.layers))


@pytest.mark.parametrize(
    ("name", "billions"),
    [("Qwen3-30B-A3B", 3.04), ("Qwen3-235B-A22B", 21.57), ("DeepSeek-V3", 36.63), ("gpt-oss-20b", 3.61)],
)
def test_active_parameters(name: str, billions: float) -> None:
    shape = find_model(name)
    assert shape.active_parameters / 1e9 == pytest.approx(billions, abs=0.005)


def test_active_parameters_of_a_dense_model_are_all_that_multiply() -> None:
    untied, tied = find_model("Qwen2.5-7B"), find_model("Qwen2.5-3B")
    assert untied.active_parameters == untied.parameters - untied.embedding_parameters
    assert tied.active_parameters == tied.parameters
    vision = find_model("Qwen2.5-VL-3B-Instruct")
    assert vision.active_parameters == tied.active_parameters


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Qwen2.5-7B", 2 * 4 * 128),
        ("Qwen3-30B-A3B", 2 * 4 * 128),
        ("DeepSeek-V3", 512 + 64),
        ("gemma-2b-it", 2 * 1 * 256),
        ("deepseek-llm-7b-chat", 2 * 32 * 128),
    ],
)
def test_cached_values(name: str, values: int) -> None:
    assert find_model(name).kv_values_per_token == values


def test_linear_attention_keeps_a_state_instead_of_a_cache() -> None:
    shape = find_model("Qwen3-Next-80B-A3B-Instruct")
    assert shape.cached_layers == 12
    assert shape.is_linear(0)
    assert not shape.is_linear(3)
    assert shape.linear is not None
    assert (shape.linear.value_heads, shape.linear.key_head_dim, shape.linear.value_head_dim) == (
        32,
        128,
        128,
    )
    assert (shape.linear.conv_width, shape.linear.conv_kernel) == (8192, 4)
    assert find_model("Qwen3-8B").linear is None


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Qwen2.5-7B", lambda shape: shape.qkv_bias and not shape.output_bias),
        ("Qwen3-8B", lambda shape: shape.qk_norm is QueryKeyNorm.PER_HEAD and not shape.qkv_bias),
        ("OLMo-2-1124-7B", lambda shape: shape.qk_norm is QueryKeyNorm.FULL),
        ("gpt-oss-20b", lambda shape: shape.attention_sinks and shape.moe.expert_bias),
        (
            "Moonlight-16B-A3B",
            lambda shape: shape.latent.q_lora_rank is None and shape.moe.dense_layers == (0,),
        ),
        ("GLM-4.5-Air", lambda shape: shape.qkv_bias and shape.moe.shared_intermediate == 1408),
        ("Qwen3-30B-A3B", lambda shape: shape.intermediate == 8 * 768),
        ("medgemma-4b-it", lambda shape: shape.architecture == "gemma3" and shape.extra_parameters > 4e8),
    ],
)
def test_features(name: str, check: Callable[[Any], bool]) -> None:
    assert check(find_model(name))


def test_look_ups_load_no_slow_package() -> None:
    code = (
        "import sys; from tuner.gpus import find_gpu; from tuner.models import find_model;"
        "find_model('Qwen3-8B'); find_gpu('h100');"
        "print(*{'pydantic', 'pynvml', 'difflib', 'torch', 'transformers', 'rich'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize(
    ("name", "parameters", "kinds"),
    [
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31_577_937_344, (6, 23, 23)),
        ("NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 120_668_687_360, (8, 40, 40)),
        ("NVIDIA-Nemotron-Nano-9B-v2", 8_888_227_328, (4, 27, 0)),
        ("NVIDIA-Nemotron-Nano-12B-v2", 12_310_001_152, (6, 28, 0)),
    ],
)
def test_layers_of_one_block_alone(name: str, parameters: int, kinds: tuple[int, ...]) -> None:
    """As transformers 5.24 counts them; layers with a cache, with a state, and with experts."""
    shape = find_model(name)
    assert shape.parameters == parameters
    assert (shape.cached_layers, shape.linear_layers, shape.sparse_layers) == kinds
    assert all(shape.has_mixer(layer) != shape.has_mlp(layer) for layer in range(shape.layers))


def test_a_pattern_names_each_layer() -> None:
    values = dict(
        read_profile(FILES[0].parent / "nemotron-nano-9b-v2.yaml").configs["NVIDIA-Nemotron-Nano-9B-v2"]
    )
    listed = {"M": "mamba", "*": "attention", "-": "mlp"}
    kinds = [listed[kind] for kind in values.pop("hybrid_override_pattern")]
    named = shape_from_config(values | {"layers_block_type": kinds}, name="x", source="x")
    assert named.parameters == find_model("NVIDIA-Nemotron-Nano-9B-v2").parameters
    with pytest.raises(UnsupportedError, match="are not modelled"):
        shape_from_config(values | {"hybrid_override_pattern": "M*?"}, name="x", source="x")
