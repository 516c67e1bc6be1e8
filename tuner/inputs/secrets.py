"""Keeps secrets of a user's script out of everything that is printed."""

import re
from functools import lru_cache
from typing import Any

HIDDEN = "hidden"

_NAME = r"\w*(?:(?:API|ACCESS|SECRET|AUTH|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)"
# Keys of a configuration are in small letters, where a token is also what a model reads, such as pad_token.
_KEY = re.compile(
    r"(?i)(?:\w*_)?(?:(?:api|access|secret|auth|private)_?key"
    r"|(?:hf|hub|auth|access|api|bearer|secret|wandb|swanlab)_?token|secret|password|passwd|credentials?)"
)
_SHORTEST = 8  # characters; MAX_TOKEN=16384 is no secret
_IS_NAME = re.compile(_NAME)
_IN_LINE = re.compile(r"""([\w-]+)["']?\s*[:=]\s*["']?([^\s"',{}\[\]]+)""")  # a key and its value, wherever
_ASSIGNED = re.compile(rf"\b({_NAME})=(\"[^\"]*\"|'[^']*'|\S+)")
# Hugging Face, OpenAI and Anthropic, GitHub, AWS, Weights & Biases, Slack, JSON web tokens.
_VALUES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{16,})"
    r"|(?:hf_|sk-)[A-Za-z0-9]{30,}"  # whatever it is glued to: no name is as long
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|AKIA[A-Z0-9]{12,}|xox[abps]-[\w-]{10,}"
    # 40 hexadecimal digits or more, with whatever else was pasted to them; no number, and no name in a cache.
    r"|(?<![0-9a-f])(?<!snapshots/)(?<!blobs/)(?<!sha256:)(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{40,}"
    r"|(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
)


def is_secret(variable: str, value: str) -> bool:
    """Whether a variable of a shell holds a secret, by its name: ``WANDB_API_KEY``, ``HF_TOKEN``."""
    bare = value.strip("'\"")
    return _IS_NAME.fullmatch(variable) is not None and len(bare) >= _SHORTEST and not bare.isdigit()


def hidden_value(key: str, value: Any) -> Any:
    """A value of a configuration with a word in place of whatever is a secret, by its key or its form."""
    if isinstance(value, dict):
        return {without_secrets(str(name)): hidden_value(str(name), child) for name, child in value.items()}
    if isinstance(value, list):
        return [hidden_value(key, child) for child in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if is_secret(key, value) or _is_secret_key(key, value) else without_secrets(value)


@lru_cache(maxsize=1024)  # alike configurations have most of theirs in common
def hidden_override(text: str) -> str:
    """An override, or another word of a command line, without its secret."""
    key, equals, value = text.partition("=")
    name = key.lstrip("+~").rpartition(".")[2]
    return f"{without_secrets(key)}{equals}{hidden_value(name, value)}" if equals else without_secrets(text)


def _is_secret_key(key: str, value: str) -> bool:
    return _KEY.fullmatch(key) is not None and len(value) >= _SHORTEST and "${" not in value


def without_secrets(text: str) -> str:
    """A text with a word in place of whatever is a secret by its name or its form."""
    shown = _VALUES.sub(HIDDEN, text)
    return _ASSIGNED.sub(_hidden, shown) if "=" in shown else shown


def has_secret(line: str) -> bool:
    """Whether a line of YAML or of a script holds a secret, by its form or by the key before it."""
    return without_secrets(line) != line or any(
        hidden_value(key, value) != value for key, value in _IN_LINE.findall(line)
    )


def _hidden(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if is_secret(match[1], match[2]) else match[0]
