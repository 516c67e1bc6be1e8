"""``tuner schema input``: what an editor knows of verl's keys, release by release."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.runner import ROOT, run
from tuner.trainers.verl.defaults import CONFIGS, has_config, read_defaults
from tuner.trainers.verl.releases import BUNDLED

EXAMPLE = ROOT / "docs/examples/qwen2.5-7b-grpo.yaml"


def schema(version: str) -> jsonschema.Draft202012Validator:
    result = run("schema", "input", "--verl-version", version)
    assert result.code == 0, result.err
    content: dict[str, Any] = json.loads(result.out)
    jsonschema.Draft202012Validator.check_schema(content)
    assert content["$id"].startswith(f"urn:tuner:schema:input:verl-{version}:")
    return jsonschema.Draft202012Validator(content)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("version", BUNDLED)
def test_every_release_takes_its_own_configurations(version: str) -> None:
    validator = schema(version)
    for config in CONFIGS:
        if has_config(version, config):
            validator.validate(read_defaults(version, config).tree)


def test_an_editor_is_told_types_defaults_and_what_is_made_of_a_key() -> None:
    validator = schema("0.9.1")
    validator.validate(yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))
    actor = validator.schema["properties"]["actor_rollout_ref"]["properties"]["actor"]["properties"]
    assert actor["ppo_mini_batch_size"]["default"] == 256
    assert "number" in actor["ppo_mini_batch_size"]["type"]
    assert "Counted by" in actor["ppo_mini_batch_size"]["description"]
    wrong = {"actor_rollout_ref": {"actor": {"ppo_mini_batch_size": [1]}}}
    (error,) = validator.iter_errors(wrong)
    assert list(error.path)[-1] == "ppo_mini_batch_size"


def test_releases_differ() -> None:
    """A key of a later release is no key of an earlier one."""
    older, newer = (schema(version).schema["properties"] for version in ("0.5.0", "0.9.1"))
    assert set(newer["actor_rollout_ref"]["properties"]["rollout"]["properties"]) - set(
        older["actor_rollout_ref"]["properties"]["rollout"]["properties"]
    )


@pytest.mark.parametrize("words", [("input", "--verl-version", "9.9"), ("report", "--verl-version", "0.9.1")])
def test_a_release_that_cannot_be_is_one_message(words: tuple[str, ...]) -> None:
    result = run("schema", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
