"""How fast many configurations are checked, and with how much memory; run it by hand, on a quiet machine.

    python tests/benchmarks/many_configurations.py [--count N] [--alone N]

Writes launch scripts out of the recorded launches, which differ by two settings, checks all of them with one
command, and some of them with a process each. Prints no time when the two disagree about a script. Then it
checks all of them and a fifth of them once more, and says how much the process that prints grows with each
file: while it judges, and in each format (Linux only, and 5,000 scripts or more).
"""

import argparse
import json
import os
import platform
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tuner.cli.formats import FORMATS

ROOT = Path(__file__).parents[2]
LAUNCHES = ROOT / "tests" / "data" / "verl-launches.jsonl"
PEAKS = Path(__file__).with_name("peaks.py")
CHECK = ("check", "--gpu", "h100-sxm", "--verl-version", "0.7.1")
COMMAND = (sys.executable, "-m", "tuner", *CHECK, "-f", "json-lines")
FIFTH = 5
LEAST = 5000  # scripts: with fewer, what a process makes once would count as growth
EXPECTED = {0, 1, 2}  # no findings, findings, or one of the scripts cannot be used


def written(folder: Path, count: int) -> list[Path]:
    """Launch scripts, the same ones every time."""
    drawn = random.Random(0)
    launches = [json.loads(line) for line in LAUNCHES.read_text(encoding="utf-8").splitlines()]
    files = []
    for number in range(count):
        launch = launches[number % len(launches)]
        overrides = [
            *launch["overrides"],
            f"actor_rollout_ref.rollout.gpu_memory_utilization={drawn.randint(30, 90) / 100}",
            f"actor_rollout_ref.rollout.n={drawn.choice([1, 2, 4, 5, 8, 16])}",
        ]
        words = [f"--config-name={launch['config_name'] or 'ppo_trainer'}", *map(shlex.quote, overrides)]
        files.append(folder / f"{number:05}.sh")
        files[-1].write_text(f"python3 -m {launch['entry']} \\\n    " + " \\\n    ".join(words) + "\n")
    return files


def checked(files: Sequence[Path]) -> tuple[float, list[str]]:
    """Seconds of one command for some files, and what it prints."""
    begin = time.perf_counter()
    lines = printed([*COMMAND, *map(str, files)]).splitlines()
    return time.perf_counter() - begin, lines


def printed(command: Sequence[str]) -> str:
    """What a command prints that checks scripts."""
    done = subprocess.run(
        command,
        capture_output=True,
        cwd=ROOT,
        check=False,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    if done.returncode not in EXPECTED:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def peaks(files: Sequence[Path], folder: Path) -> dict[str, int]:
    """The most bytes of the process that prints, while it judges and in each format."""
    measured = folder / "peaks.json"
    formats = [word for name in FORMATS for word in ("-f", f"{name}:{folder / name}")]
    printed([sys.executable, str(PEAKS), str(measured), *CHECK, *formats, *map(str, files)])
    content: dict[str, int] = json.loads(measured.read_text(encoding="utf-8"))
    return content


def print_growth(files: Sequence[Path], folder: Path) -> None:
    """Print how much more the process that prints takes with each file."""
    some = files[::FIFTH]
    fifth, whole = peaks(some, folder), peaks(files, folder)
    print("the process that prints, at most and more with each file:")
    for name, size in whole.items():
        more = (size - fifth[name]) / (len(files) - len(some))
        print(f"  {name:10} {size / 2**20:5.0f} MiB {more / 1024:6.2f} KiB")


def resident_mib() -> float:
    """Memory of all processes below this one, as Linux counts it; 0 elsewhere."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it has ended meanwhile
            continue
        parents[int(lines["Pid"])] = int(lines["PPid"]), int(lines.get("VmRSS", "0 kB").split()[0])
    below = {os.getpid()}
    for _ in range(3):
        below |= {pid for pid, (parent, _kib) in parents.items() if parent in below}
    return sum(parents[pid][1] for pid in below - {os.getpid()} if pid in parents) / 1024


class Watch(threading.Thread):
    """The most memory that is seen at once, twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most_mib = 0.0

    def run(self) -> None:
        """Look until the program ends."""
        while True:
            self.most_mib = max(self.most_mib, resident_mib())
            time.sleep(0.5)


def main() -> None:
    """Check everything at once and some alone, and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="scripts to check")
    parser.add_argument("--alone", type=int, default=20, help="how many of them get a process each as well")
    given = parser.parse_args()
    print(f"{date.today()}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory() as folder:
        files = written(Path(folder), given.count)
        few = files[:: max(1, len(files) // given.alone)]
        alone = [checked([file]) for file in few]
        watch = Watch()
        watch.start()
        taken, lines = checked(files)
        most_mib = watch.most_mib
        together = set(lines)
        for file, (_, alone_lines) in zip(few, alone, strict=True):
            if not together.issuperset(alone_lines):
                raise SystemExit(f"{file.name}: what one process finds in it is not what all together find")
        print(f"{len(files):,} at once: {taken:.1f} s, {len(files) / taken:.0f} a second, {most_mib:.0f} MiB")
        median_s = statistics.median(seconds for seconds, _ in alone)
        print(f"a process each: {median_s:.3f} s (median of {len(few)})")
        if len(files) >= LEAST:
            print_growth(files, Path(folder))


if __name__ == "__main__":
    main()
