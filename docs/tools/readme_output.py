"""Write the output of the README's first command into the README, in every language.

``python -m docs.tools.readme_output`` does it; a test holds that nothing would change.
"""

import re

from docs.tools.program import ROOT, run

READMES = (ROOT / "README.md", ROOT / "README.zh.md")
COLUMNS = 100
_COMMAND = re.compile(r"```sh\n(.+?)\n```", re.DOTALL)
_OUTPUT = re.compile(r"(?<=```text\n).+?(?=\n```)", re.DOTALL)


def commands(readme: str) -> list[str]:
    """The command lines a README gives."""
    return [match[1] for match in _COMMAND.finditer(readme)]


def refreshed(readme: str) -> str:
    """A README with what its first command prints today."""
    _, _, arguments = commands(readme)[0].rpartition("bin/tuner ")
    result = run(f"tuner {arguments}", columns=COLUMNS)
    result.check_returncode()
    return _OUTPUT.sub(lambda _: result.stdout.rstrip(), readme, count=1)


def main() -> None:
    """Rewrite every README."""
    for path in READMES:
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
