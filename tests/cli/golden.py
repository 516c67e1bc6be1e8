"""Compares text with a file of ``tests/cli/golden``, or of another folder.

``UPDATE_GOLDEN=1 pytest tests/cli`` writes the files anew; read the difference before keeping it.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def expect(name: str, text: str, *, folder: Path = FOLDER) -> None:
    path = folder / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        folder.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: run once with UPDATE_GOLDEN=1"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: UPDATE_GOLDEN=1 writes it anew"
