"""The page of a model, and the list of all of them."""

import json

import pytest

from tests.cli.runner import run
from tuner.models import find_model, model_names


def test_a_model_is_shown_with_its_sizes() -> None:
    text = run("model", "qwen3-30b-a3b-sft/global_step_5").out
    assert text.startswith("Qwen3-30B-A3B\n")
    for words in ("qwen3-30b-a3b-sft", "30.5B, 3.0B of them", "48, 2048 wide", "151,936", "96 KiB"):
        assert words in text
    page = json.loads(run("model", "Qwen3.5-4B", "-f", "json").out)
    shape = find_model("Qwen3.5-4B")
    assert page["parameters"] == shape.parameters == 4_539_265_536
    assert page["kv_cache_bytes_per_token"] == 8 * 2 * 4 * 256 * 2  # every fourth of 32 layers has a cache
    assert page["parameters_beside_decoder"] == 333_514_240
    assert page["tied_embeddings"] is True
    assert page["named_in"] is None


def test_all_of_them_are_listed() -> None:
    lines = run("model", "--all").out.splitlines()
    assert [line.split()[0] for line in lines] == list(model_names())
    pages = json.loads(run("model", "--all", "--output-format", "json").out)
    assert [page["name"] for page in pages] == list(model_names())
    by_name = {page["name"]: page["parameters"] for page in pages}
    for name in ("Kimi-K2-Instruct", "gpt2", "Qwen2.5-VL-7B-Instruct"):
        assert by_name[name] == find_model(name).parameters


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("model",), "either a model's name or --all"),
        (("model", "Qwen3-8B", "--all"), "either a model's name or --all"),
        (("model", "no-such-model"), "no bundled profile is named"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "model_type", "words"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", "deepseek_v4", "--trace counts"),
        ("openbmb/MiniCPM-o-2_6", "minicpmo", "--trace"),
    ],
)
def test_a_model_whose_type_is_not_modelled_is_told_from_one_that_nobody_knows(
    path: str, model_type: str, words: str
) -> None:
    answer = run("model", path)
    assert answer.code == 2
    said = " ".join(answer.err.split())
    assert f"models of its type, '{model_type}', are not modelled" in said
    assert words in said


def test_hy3_has_the_parameters_of_its_checkpoint_without_the_module_for_a_further_token() -> None:
    """298,786,140,416 in bfloat16: with it a layer, a projection of two widths and 3 norms."""
    shape = find_model("tencent/Hy3")
    module = shape.layer_parameters(79) + 2 * 4096 * 4096 + 3 * 4096
    assert shape.parameters + module == 298_786_140_416
