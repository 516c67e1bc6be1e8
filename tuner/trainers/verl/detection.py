"""Tells by its text whether a file in a folder is there to configure verl, or a project on a copy of it.

Nothing is parsed, so that a file with a mistake in it is told as well.
"""

import re

_SECTION = re.compile(r"""^\s{0,2}["']?(?:actor_rollout_ref|model_engine)["']?\s*:""", re.MULTILINE)
_FINE_TUNED = re.compile(r"^\s+partial_pretrain\s*:", re.MULTILINE)
_ENGINE = re.compile(r"^(?:engine|optim)\s*:\s*(?:#.*)?$", re.MULTILINE)  # of sft_trainer, which has both
_WORKER = re.compile(r"^worker\s*:\s*(?:#.*)?$", re.MULTILINE)  # of EasyR1
_WORKERS = re.compile(r"^\s+(?:actor|rollout)\s*:\s*(?:#.*)?$", re.MULTILINE)
_ENTRY = re.compile(r"""^\s*-\s+["']?(?:\+\+|[+~])?actor_rollout_ref[.@]""", re.MULTILINE)  # Hydra's list
_STARTED = re.compile(
    r"\b(?:verl[./]trainer|ragen\.train|rllm\.trainer|main_ppo|sft_trainer|train_agent_ppo)\b"
    r"|\bactor_rollout_ref\.\w|\bworker\.(?:actor|rollout)\.\w"
    r"|'actor_rollout_ref': "  # as a log prints it
)
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def may_configure(text: str, *, yaml: bool) -> bool:
    """Whether a text looks like a configuration, a launch or a log of verl.

    Args:
        text: of a file.
        yaml: it is YAML, in which only sections of its own count, not those that it reads from others.
    """
    if not yaml:
        return _STARTED.search(_COMMENT.sub("", text)) is not None
    if any(pattern.search(text) for pattern in (_SECTION, _FINE_TUNED, _ENTRY)):
        return True
    if _WORKER.search(text) and _WORKERS.search(text):
        return True
    return len({match[0].partition(":")[0].strip() for match in _ENGINE.finditer(text)}) > 1
