"""Prints the next free code of a rule or check: ``python -m tests.rules.next_code MEM``."""

import sys
from functools import cache

from tuner.render.rule_page import pages
from tuner.rules.retired import RETIRED

# Letters of the codes and the folder of `tuner/rules` where their rules lie.
FOLDERS = {
    "MEM": "memory",
    "BAT": "batching",
    "ROL": "rollout",
    "SEQ": "sequence",
    "KRN": "kernels",
    "SYN": "sync",
}

# Codes between others that are promised to checks which are not written yet.
PROMISED = tuple(f"CFG{number}" for number in range(173, 180))

_FIRST = {"CFG": 101}  # of verl's own checks; CFG001 is older than the others
_LAST = 899  # those above are about comments, budgets and what else a project says, not about settings


@cache
def in_use() -> dict[str, str]:
    """Codes and names of all rules and checks."""
    return {page.rule.code: page.rule.name for page in pages()}


def numbers(letters: str) -> list[int]:
    """Numbers that were ever given out under some letters, in order."""
    codes = in_use().keys() | {rule.code for rule in RETIRED} | set(PROMISED)
    first = _FIRST.get(letters, 1)
    taken = sorted(int(code[3:]) for code in codes if code[:3] == letters)
    return [number for number in taken if first <= number <= _LAST]


def next_code(letters: str) -> str:
    """The first code that was never used."""
    return f"{letters}{max(numbers(letters), default=0) + 1:03}"


def main() -> None:
    letters = sorted({*FOLDERS, "CFG"})
    if len(sys.argv) != 2 or sys.argv[1] not in letters:
        sys.exit(f"usage: python -m tests.rules.next_code {'|'.join(letters)}")
    print(next_code(sys.argv[1]))


if __name__ == "__main__":
    main()
