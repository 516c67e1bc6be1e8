"""Tells by its text whether a file in a folder is there to configure NeMo-RL."""

import re
from collections.abc import Mapping
from typing import Any

#: Sections of which one says by which algorithm a job learns.
ALGORITHMS = ("grpo", "sft", "ppo", "dpo", "rm", "distillation", "eval")

_POLICY = re.compile(r"^policy\s*:\s*(?:#.*)?$", re.MULTILINE)
_SECTION = re.compile(rf"^(?:{'|'.join(ALGORITHMS)}|cluster|loss_fn)\s*:\s*(?:#.*)?$", re.MULTILINE)
_STARTED = re.compile(r"\bexamples/(?:nemo_gym/)?run_(?:grpo|ppo|dpo|sft|rm|distillation|vlm_\w+)\w*\.py\b")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
#: Sections of the top, of which verl has none but ``data``.
_SECTIONS = frozenset(
    {
        "policy",
        "cluster",
        "checkpointing",
        "data_plane",
        "env",
        "loss_fn",
        "logger",
        "generation",
        *ALGORITHMS,
    }
)
#: Keys below ``policy`` that no other trainer has.
_OWN = frozenset(
    {
        "dtensor_cfg",
        "megatron_cfg",
        "train_global_batch_size",
        "max_total_sequence_length",
        "sequence_packing",
    }
)


def may_configure(text: str, *, yaml: bool) -> bool:
    """Whether a text looks like a configuration, a launch or a log of NeMo-RL."""
    if yaml:
        return _POLICY.search(text) is not None and _SECTION.search(text) is not None
    return _STARTED.search(_COMMENT.sub("", text)) is not None


def is_configuration(tree: Mapping[str, Any]) -> bool:
    """Whether a file is surely for NeMo-RL: by keys of its own, or by an algorithm beside a policy."""
    policy = tree.get("policy")
    if isinstance(policy, dict) and not _OWN.isdisjoint(policy):
        return True
    named = tree.get("defaults")
    parents = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    files = any(isinstance(one, str) and one.endswith(".yaml") for one in parents)
    return files and not _SECTIONS.isdisjoint(tree)


def is_program(program: str) -> bool:
    """Whether a program that a launch starts is one of NeMo-RL's."""
    return _STARTED.search(program) is not None
