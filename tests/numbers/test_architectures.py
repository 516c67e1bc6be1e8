"""Every number that the model gives for a job with a model of each ``model_type``, as it is today.

Dense ones run under FSDP; those with experts, latent attention or more prediction layers run under Megatron
as well. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes the listing anew.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.golden import expect
from tests.numbers.listing import listing
from tests.numbers.test_numbers import FOLDER
from tests.tables import bases, scene

PROFILES = Path(__file__).parents[2] / "profiles" / "models"
MEGATRON = (
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2",
    "actor_rollout_ref.actor.megatron.expert_model_parallel_size=4",
    "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=2",
    "actor_rollout_ref.model.mtp.enable=True",
    "actor_rollout_ref.model.mtp.enable_train=True",
    "actor_rollout_ref.rollout.name=sglang",
)
CARDS = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm-80g", "h20-sxm", "mi300x")


def first_of_each_type() -> dict[str, str]:
    """The first bundled model of every ``model_type``."""
    models: dict[str, str] = {}
    for file in sorted(PROFILES.glob("*.yaml")):
        profile = yaml.safe_load(file.read_text(encoding="utf-8"))
        models.setdefault(profile["config"]["model_type"], profile["names"][0])
    return models


MODELS = first_of_each_type()
SPARSE = ("_moe", "deepseek", "kimi", "mixtral", "gpt_oss", "minimax", "mimo", "qwen3_next", "glm4v")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", MODELS)
def test_under_fsdp(kind: str) -> None:
    number = list(MODELS).index(kind)
    overrides = [f"actor_rollout_ref.actor.strategy={('fsdp', 'fsdp2')[number % 2]}"]
    overrides += ["actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"] if number % 3 == 0 else []
    base = replace(bases()["grpo-0.9.1"], model=MODELS[kind], gpu=CARDS[number % len(CARDS)])
    expect(f"fsdp-{kind}.txt", "\n".join(listing(scene(base, overrides).workload)), folder=FOLDER)


@pytest.mark.parametrize("kind", [kind for kind in MODELS if any(part in kind for part in SPARSE)])
def test_under_megatron(kind: str) -> None:
    base = replace(bases()["megatron-0.9.1"], model=MODELS[kind], gpu="h200-sxm", nodes=4)
    expect(f"megatron-{kind}.txt", "\n".join(listing(scene(base, MEGATRON).workload)), folder=FOLDER)
