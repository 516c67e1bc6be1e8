"""One generated input: the words of a command line, the files that they name, and standard input."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Case:
    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    secrets: tuple[str, ...] = ()  # that stand in the files, in standard input or among the words

    def write(self, folder: Path) -> None:
        """Put the files where the words look for them."""
        for name, content in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    @property
    def size(self) -> int:
        return sum(map(len, self.words)) + sum(map(len, self.files.values())) + len(self.stdin)

    @property
    def given(self) -> str:
        """Everything that the command gets to see."""
        parts = [*self.words, *(content.decode("utf-8", "replace") for content in self.files.values())]
        return "\n".join([*parts, self.stdin.decode("utf-8", "replace")])

    def reproduced(self, folder: Path) -> str:
        """Write the case into a folder, and the command that runs it there."""
        folder.mkdir(parents=True, exist_ok=True)
        self.write(folder)
        words = " ".join(map(_quoted, self.words))
        command = f"cd {shlex.quote(str(folder))} && tuner {words}"
        if self.stdin:
            (folder / "stdin").write_bytes(self.stdin)
            command += " < stdin"
        (folder / "command.sh").write_text(f"{command}\n", encoding="utf-8", errors="surrogateescape")
        return command if len(command) <= 2_000 else f"bash {shlex.quote(str(folder / 'command.sh'))}"


def _quoted(word: str) -> str:
    if word.isprintable() and word.isascii():
        return shlex.quote(word)
    escaped = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}"
        for byte in word.encode("utf-8", "surrogateescape")
    )
    return f"$'{escaped}'"
