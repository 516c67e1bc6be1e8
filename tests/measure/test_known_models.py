"""The table of the releases that know a type of model is read from wheels, packed or not."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.measure.known_models import __main__ as known_models
from tuner.serving.known_models import first_release, lacks_model

VLLM = "vllm/model_executor/models/registry.py"
TRANSFORMERS = "transformers/models/auto/configuration_auto.py"
CONTENTS = {
    "vllm-0.8.3": {VLLM: '_MODELS = {\n    "Qwen2ForCausalLM": ("qwen2", "Qwen2ForCausalLM"),\n}\n'},
    "vllm-0.8.4": {VLLM: '_MODELS = {\n    "Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM"),\n}\n'},
    "sglang-0.4.5.post1": {"sglang/srt/models/qwen2.py": "EntryClass = Qwen2ForCausalLM\n"},
    "sglang-0.4.5.post2": {"sglang/srt/models/qwen3.py": "EntryClass = [\n    Qwen3ForCausalLM,\n]\n"},
    "transformers-4.50.3": {TRANSFORMERS: '        ("qwen2", "Qwen2Config"),\n'},
    "transformers-4.51.0": {TRANSFORMERS: '        ("qwen3", "Qwen3Config"),\n'},
}


@pytest.mark.parametrize("packed", [False, True])
def test_the_table_has_the_last_without_and_the_first_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    table = tmp_path / "known_models.json"
    monkeypatch.setattr(known_models, "FILE", table)
    places = []
    for name, files in reversed(CONTENTS.items()):
        places.append(tmp_path / (f"{name}-py3-none-any.whl" if packed else name))
        if packed:
            with zipfile.ZipFile(places[-1], "w") as archive:
                for file, text in files.items():
                    archive.writestr(file, text)
            continue
        for file, text in files.items():
            (places[-1] / file).parent.mkdir(parents=True)
            (places[-1] / file).write_text(text)
    known_models.main([str(place) for place in places])
    found = json.loads(table.read_text())
    assert found["vllm"] == {"qwen3": ["0.8.3", "0.8.4"]}
    assert found["sglang"] == {"qwen3": ["0.4.5.post1", "0.4.5.post2"]}
    assert found["transformers"] == {"qwen3": ["4.50.3", "4.51.0"]}


def test_what_was_not_read_in_between_is_not_said_to_lack_it() -> None:
    """SGLang 0.4.4.post2 was not read: the one before lacks Gemma 3, the one behind has it."""
    assert first_release("sglang", "gemma3") == "0.4.4.post3"
    told = [lacks_model("sglang", version, "gemma3") for version in ("0.4.4", "0.4.4.post1", "0.4.4.post2")]
    assert told == [True, True, False]


def test_a_type_that_every_release_knows_is_lacked_by_none() -> None:
    assert first_release("vllm", "llama") is None
    assert not lacks_model("vllm", "0.3.1", "llama")
