"""What a script asks the machine, and how a machine with NVIDIA or AMD GPUs answers."""

import re
from collections.abc import Sequence

from tuner.inputs.shell.values import Text

_OTHER_ACCELERATOR = re.compile(r"npu|ascend|cann\b", re.IGNORECASE)
_GPU = re.compile(r"\bnvidia-smi\b|\bnvcc\b|torch\.cuda\b|\bcuda\b", re.IGNORECASE)
_ASKING = frozenset(
    {"grep", "pgrep", "which", "command", "type", "hash", "nc", "diff", "cmp", "python", "python3"}
)


_HOOK = re.compile(r"\b(?:conda|mamba|micromamba|pixi|pyenv|direnv|brew|ssh-agent|module|modulecmd|lmod)\b")


def is_hook(text: str) -> bool:
    """Whether commands that are printed only prepare the shell, as an environment of Python needs it."""
    return _HOOK.search(text) is not None


def names_other_accelerator(text: str) -> bool:
    """Whether a text speaks of an accelerator that is no GPU."""
    return _OTHER_ACCELERATOR.search(text) is not None


def answer(words: Sequence[Text]) -> tuple[bool | None, bool]:
    """Whether a program succeeds, and whether that is taken from the GPU that is assumed.

    A program that does work is taken to succeed, as the script is written for; one that only asks has an
    answer that nobody knows, unless it asks for a GPU or for another accelerator.
    """
    name = str(words[0]).rpartition("/")[2] if words else ""
    asks = name in _ASKING and not any(str(word) == "-m" or str(word).endswith(".py") for word in words)
    if not asks and not name.startswith(("npu", "nvidia")):
        return True, False
    line = " ".join(map(str, words))
    if names_other_accelerator(line) and (asks or name.startswith("npu")):
        return False, True
    if _GPU.search(line) and (asks or name.startswith("nvidia")):
        return True, True
    return (None if asks else True), False
