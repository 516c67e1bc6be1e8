"""Write the output of the README's first command into the README, in every language.

``python -m docs.tools.readme_output`` does it; a test holds that nothing would change.
"""

import re

from docs.tools.program import ROOT, run

READMES = (ROOT / "README.md", ROOT / "README.zh.md")
COLUMNS = 100
PIECES = 3  # of advice that a README shows
_COMMAND = re.compile(r"```sh\n(.+?)\n```", re.DOTALL)
_OUTPUT = re.compile(r"(?<=```text\n).+?(?=\n```)", re.DOTALL)


def commands(readme: str) -> list[str]:
    """The command lines a README gives."""
    return [match[1] for match in _COMMAND.finditer(readme)]


def excerpt(printed: str) -> str:
    """The verdict, the bars, the first pieces of advice and the last block; the rest is left out."""
    blocks = printed.rstrip().split("\n\n")
    advice = next(number for number, block in enumerate(blocks) if block.startswith("Advice"))
    together = next(number for number, block in enumerate(blocks) if block.startswith("All together"))
    first, rest = blocks[: advice + 1 + PIECES], blocks[together:]
    return "\n\n".join([*first, "...", *rest] if advice + 1 + PIECES < together else blocks)


def refreshed(readme: str) -> str:
    """A README with an excerpt of what its first command prints today."""
    _, _, arguments = commands(readme)[0].rpartition("bin/tuner ")
    result = run(f"tuner {arguments}", columns=COLUMNS)
    result.check_returncode()
    return _OUTPUT.sub(lambda _: excerpt(result.stdout), readme, count=1)


def main() -> None:
    """Rewrite every README."""
    for path in READMES:
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
