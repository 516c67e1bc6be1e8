"""The process of one start: ``python -m measure.generation.start ASKED SAID``, two files of ``heard``."""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from measure.generation.engine import Batch, Start, generate


def main() -> None:
    """Say a case after each repetition of a batch, or what went wrong, and that it is done."""
    asked, said = map(Path, sys.argv[1:])
    values = json.loads(asked.read_text(encoding="utf-8"))
    start = Start(**{**values, "batches": tuple(Batch(**batch) for batch in values["batches"])})
    with said.open("a", encoding="utf-8") as lines:

        def say(message: dict[str, Any]) -> None:
            lines.write(json.dumps(message) + "\n")
            lines.flush()

        try:
            generate(start, say)
        except Exception:
            say({"error": traceback.format_exc()})
        say({"done": True})
    os._exit(0)  # a process of the engine that is still there would be waited for


if __name__ == "__main__":
    main()
