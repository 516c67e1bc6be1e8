"""How long commands take as whole processes; run it by hand, on a quiet machine.

    python tests/benchmarks/start_up.py [LAUNCHES.jsonl] [--every N] [--least-of N]

Times ``tuner --help``, and ``tuner advise`` on the example, as text and as JSON, and, where a file of
recorded launches is given, on every N-th of them; where something else runs beside it, the fastest of
several runs of each launch says more than one. Prints no time when a command ends in an unexpected exit code.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "qwen2.5-7b-grpo.yaml"
EXPECTED = {0, 2}  # advice, or one clear message
REPEATS = 9


def seconds(arguments: Sequence[str]) -> float:
    """One process, from start to end."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tuner", *arguments], capture_output=True, cwd=ROOT, check=False
    )
    taken = time.perf_counter() - begin
    if done.returncode not in EXPECTED:
        raise SystemExit(f"tuner {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr.decode()}")
    return taken


def report(name: str, times: Sequence[float]) -> None:
    """Minimum, median and maximum of a command."""
    middle = statistics.median(times)
    print(f"{name:<28} {len(times):>4} runs   {min(times):.3f}   {middle:.3f}   {max(times):.3f} s")


def launches(path: Path, every: int) -> list[list[str]]:
    """The command lines of recorded launches."""
    records = [json.loads(line) for line in path.read_text().splitlines()][::every]
    return [
        [
            *("advise", "/dev/null", "--gpu", "h100-sxm"),
            *("--verl-version", record["tags"][0].removeprefix("v"), "--", *record["overrides"]),
        ]
        for record in records
    ]


def main() -> None:
    """Time everything and print one line per command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launches", nargs="?", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--least-of", type=int, default=1)
    options = parser.parse_args()
    print(f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    print(f"{'':<28} {'':>9}   {'min':<5}   {'median':<5}  {'max':<5}")
    advise = ["advise", str(EXAMPLE)]
    for name, arguments in (
        ("--help", ["--help"]),
        ("advise, the example", advise),
        ("the same as JSON", [*advise, "--output-format", "json"]),
    ):
        seconds(arguments)  # writes the bytecode
        report(name, [seconds(arguments) for _ in range(REPEATS)])
    if options.launches is not None:
        fastest = [
            min(seconds(arguments) for _ in range(options.least_of))
            for arguments in launches(options.launches, options.every)
        ]
        report("advise, recorded launches", fastest)


if __name__ == "__main__":
    main()
