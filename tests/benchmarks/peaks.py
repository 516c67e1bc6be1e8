"""Runs ``tuner check`` and writes down the most memory that it takes to judge, and for each format.

    python tests/benchmarks/peaks.py FILE check run.sh -f json:out.json -f sarif:out.sarif

FILE gets JSON: bytes that are resident at most, by ``judging`` and the names of the formats. Linux only.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tuner.cli import main
from tuner.render.checked import context
from tuner.review.review import Review

_STATUS = Path("/proc/self/status")
_PEAK_ANEW = "5"  # to /proc/PID/clear_refs: the peak is from then on what is resident now


def peak_bytes() -> int:
    """The most that was resident since the last call."""
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    Path("/proc/self/clear_refs").write_text(_PEAK_ANEW)
    return int(line.split()[1]) * 1024


def run() -> None:
    """Check what the command line names."""
    file = Path(sys.argv.pop(1))
    peaks: dict[str, int] = {}
    pieces = context.pieces

    def measured(name: str, review: Review, given: context.RenderContext) -> Iterator[str]:
        peaks.setdefault("judging", peak_bytes())
        yield from pieces(name, review, given)
        peaks[name] = peak_bytes()

    context.pieces = measured
    try:
        main()
    finally:
        file.write_text(json.dumps(peaks))


if __name__ == "__main__":
    run()
