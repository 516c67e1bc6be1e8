"""The example configurations of NeMo-RL, which are its defaults: every recipe inherits from one of them."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tuner.inputs.tree import Tree

FOLDER = ("examples", "configs")  # where a checkout has them
_DEFAULTS = Path(__file__).parent / "defaults"
GRPO = "grpo_math_1B.yaml"  # which has every section of a job that learns by rewards


@lru_cache(maxsize=8)
def exemplars(version: str) -> Mapping[str, Tree]:
    """The trees of a bundled release's examples, by the names of their files."""
    trees: dict[str, Tree] = json.loads((_DEFAULTS / f"{version}.json").read_text(encoding="utf-8"))
    return trees
