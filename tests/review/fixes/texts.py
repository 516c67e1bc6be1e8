"""Random files to splice: configurations in YAML and launch scripts, in the styles that people write."""

import random
import shlex
from typing import Any

WORDS = ("actor", "rollout", "ref", "optim", "fsdp_config", "model", "data", "critic", "trainer", "n", "lr")
VALUES: tuple[Any, ...] = (
    8,
    0.4,
    1e-6,
    "vllm",
    "a, b",
    "x: y",
    "it's",
    "漢😀",
    True,
    False,
    None,
    [1, "b"],
    "",
)


def value(dice: random.Random) -> Any:
    """A value that an override may have."""
    return dice.choice(VALUES)


def yaml_text(dice: random.Random) -> bytes:
    """A configuration with comments, quotes, brackets, anchors, and line ends of any kind."""
    step = dice.choice((2, 2, 4))
    lines = ["# head: of the file"] * dice.randrange(2)
    _section(dice, lines, 0, step, 0)
    text = "\n".join(lines) + dice.choice(("\n", "\n", "", "\n\n# end\n"))
    if dice.random() < 0.3:
        text = text.replace("\n", "\r\n")
    return (b"\xef\xbb\xbf" if dice.random() < 0.2 else b"") + text.encode()


def _section(dice: random.Random, lines: list[str], column: int, step: int, depth: int) -> None:
    for name in dice.sample(WORDS, dice.randint(1, 4)):
        start = " " * column + (f'"{name}"' if dice.random() < 0.1 else name) + ":"
        note = dice.choice(("", "", "  # note: yes"))
        if depth < 3 and dice.random() < 0.4:
            lines.append(start + dice.choice(("", "", f" &a{len(lines)}")) + note)
            _section(dice, lines, column + step, step, depth + 1)
        else:
            lines.append(start + dice.choice(_SCALARS) + note)
        if dice.random() < 0.2:
            lines.append(
                dice.choice(("", " " * column + "# old: 1", "# note", " " * (column + step) + "# in"))
            )


_SCALARS = (
    *(
        " 8",
        " 1e-6",
        " True",
        " false",
        " null",
        " ~",
        "",
        " 'quoted: \"a\"'",
        ' "b\\tc"',
        " plain text",
        " 漢😀",
    ),
    *(" {}", " {p: 1, 'q': [1, 2], r: {s: a}}", ' {"p": 1,}', " [1, b]", " []", " ${data.n}", " !!int 8"),
)


def script_text(dice: random.Random) -> tuple[bytes, dict[str, str | None]]:
    """A launch script, and its keys with their values; None where a variable decides one."""
    names = [f"{one}.{other}" for one in WORDS[:6] for other in WORDS[6:]]
    keys: dict[str, str | None] = {}
    direct: list[str] = []
    listed: list[str] = []
    for key in dice.sample(names, dice.randint(1, 8)):
        word = dice.choice(("8", "0.4", "true", "vllm", "[1,2]", "a/b", "$N", "${N}x", "'it is'"))
        keys[key] = None if "$" in word else word
        text = f"{key}={word}"
        if "$" in word:
            text = dice.choice((text, f'"{text}"', f'{key}="{word}"'))
        elif shlex.quote(word) != word:
            text = shlex.quote(text)
        else:
            text = dice.choice((text, f"'{text}'", f'"{text}"', f"{key}='{word}'"))
        (listed if dice.random() < 0.3 else direct).append(text)
    lines = ["#!/usr/bin/env bash", "set -x  # trace", "N=4"]
    if listed:
        blank = dice.choice((" ", "\n    "))
        lines.append("ARGS=(" + blank + blank.join(listed) + "\n)")
    between = dice.choice((" ", " \\\n    "))
    program = dice.choice(
        ("python3 -m verl.trainer.main_ppo", "torchrun --nnodes 1 -m verl.trainer.main_ppo")
    )
    tail = ['"${ARGS[@]}"'] * bool(listed) + dice.choice(([], ['"$@"'], ["2>&1", "|", "tee log"]))
    lines.append(between.join([program, *direct]) + " " * bool(tail) + " ".join(tail))
    text = "\n".join(lines) + "\n"
    return text.encode(), keys
