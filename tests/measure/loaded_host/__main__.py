"""What a process keeps of the host's memory after it has loaded weights and let go of them; run it by hand.

    PYTHONPATH=.:tests python -m measure.loaded_host --folder DIR --output FILE [--layers N]

Needs no GPU. Weights are random and are written to ``DIR`` in bfloat16. verl has rank 0 of FSDP load a
checkpoint in float32 on the host, and the other ranks on PyTorch's meta device, once for the actor and once
for the reference (``get_init_weight_context_manager``). Both go to the card then and are let go of. That is
done here without a card, in a process of its own for each case, under the C library's own settings and with
``MALLOC_MMAP_THRESHOLD_``, which has it give back at once whatever is larger.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from measure.loaded_host.loading import CASES

THRESHOLD = "MALLOC_MMAP_THRESHOLD_"
NOTES = (
    "host_bytes: memory of the process that is no file and not shared. loaded: the weights are there. gone: "
    "they were let go of. trimmed: the C library was asked to give back what is free (malloc_trim).",
    "rank 0: on the host. others: under accelerate's init_empty_weights.",
    "settings: variables of the environment; weight_bytes: of all weights in float32.",
)


def main() -> None:
    """Each case in each role, with and without the variable."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=2)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for case in CASES:
        for role in ("write", "rank 0", "others"):
            for settings in ({}, {THRESHOLD: str(1 << 20)}):
                if role == "write" and settings:
                    continue
                rows += _run(case, role, settings, given)
                given.output.write_text(json.dumps(_file(rows, given.layers), indent=1) + "\n")


def _run(case: str, role: str, settings: dict[str, str], given: argparse.Namespace) -> list[dict[str, Any]]:
    words = [sys.executable, "-m", "measure.loaded_host.loading", case, role, str(given.layers)]
    said = subprocess.run(
        [*words, str(given.folder / case)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    known = {"case": case, "role": role, "settings": settings}
    return [{**known, **json.loads(line)} for line in said.splitlines() if line.startswith("{")]


def _file(rows: list[dict[str, Any]], layers: int) -> dict[str, Any]:
    return {
        "what": f"host memory of a process after loading {layers} layers, twice",
        "hardware": f"{os.cpu_count()} cores",
        "software": {
            "python": platform.python_version(),
            "libc": " ".join(platform.libc_ver()),
            **{name: metadata.version(name) for name in ("torch", "transformers", "accelerate")},
        },
        "date": date.today().isoformat(),
        "notes": NOTES,
        "readings": rows,
    }


if __name__ == "__main__":
    main()
