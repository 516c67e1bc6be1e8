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


def composed(name: str, version: str) -> Tree:
    """An example with those that it inherits from.

    Raises:
        KeyError: the release has no example of this name.
    """
    return _composed(name, version, ())


def _composed(name: str, version: str, above: tuple[str, ...]) -> Tree:
    from tuner.trainers.nemo_rl.inheritance import inherited, parents_in

    own = exemplars(version)[name]
    tree: Tree = {}
    for parent in parents_in(own):
        below = Path(parent).name
        if below not in (*above, name):
            tree = inherited(tree, _composed(below, version, (*above, name)))
    return inherited(tree, {key: value for key, value in own.items() if key != "defaults"})
