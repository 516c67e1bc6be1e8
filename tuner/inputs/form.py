"""Which form a configuration has: a command, a script or YAML, told by its name or its first line."""

import re

YAML_NAMES = (".yaml", ".yml", ".json")
SHELL_NAMES = (".sh", ".bash", ".slurm", ".sbatch", ".pbs")
_MAPPING = re.compile(r"(?:---|\{|-\s|[\w./@'\"+-]+\s*:(?:\s|$))")


def is_command(word: str) -> bool:
    """Whether a first word begins a pasted command and names no file."""
    return "=" in word or word.startswith(("+", "~")) or ("/" not in word and "." not in word)


def is_shell(name: str, text: str) -> bool:
    """Whether a text is a script and no YAML, by its name where that tells, else by its first line."""
    if name.endswith(YAML_NAMES):
        return False
    if name.endswith(SHELL_NAMES) or text.startswith("#!"):
        return True
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "%"))), "")
    return bool(first) and _MAPPING.match(first) is None
