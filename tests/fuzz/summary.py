"""What campaigns counted, as files of JSON that can be added up, so that one campaign may be many short ones."""

import hashlib
import json
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import LISTED, Tally

_ROOT = Path(__file__).parents[2]
_OF_THE_STATE = ("tuner", "profiles", "locale", "tests/fuzz")  # what decides how an input ends
_NOT_OF_IT = (".pyc", ".mo")  # made of the rest


def state() -> str:
    """A digest of the sources, which tells one state of the code from another where there is no git."""
    digest = hashlib.sha256()
    for name in _OF_THE_STATE:
        for file in sorted((_ROOT / name).rglob("*")):
            if file.is_file() and file.suffix not in _NOT_OF_IT:
                digest.update(f"{file.relative_to(_ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def commit() -> str | None:
    """The commit that is checked out; None where there is no git, as in a copy of the sources."""
    try:
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


def summary(seed: int, first: int, tally: Tally, of_state: str) -> dict[str, Any]:
    """One campaign, for a file."""
    return {
        "commit": commit(),
        "state": of_state,
        "python": platform.python_version(),
        "seed": seed,
        "first": first,
        **asdict(tally),
    }


def added_up(files: list[Path]) -> dict[str, Any]:
    """Several campaigns as one; an input is named by its seed and its number.

    Raises:
        ValueError: they ran on different states of the code, or two have one seed.
    """
    runs = [json.loads(file.read_text()) for file in files]
    states = sorted({run["state"] for run in runs})
    if len(states) != 1:
        raise ValueError(f"campaigns on different states of the code: {', '.join(states)}")
    seeds = [run["seed"] for run in runs]
    twice = {seed for seed in seeds if seeds.count(seed) > 1}
    if twice:
        raise ValueError(f"two campaigns with seed {min(twice)}, which may have run the same inputs")
    codes: dict[str, int] = {}
    for run in runs:
        for code, count in run["codes"].items():
            codes[code] = codes.get(code, 0) + count
    return {
        "state": states[0],
        "commits": sorted({run["commit"] for run in runs if run["commit"] is not None}),
        "campaigns": len(runs),
        "seeds": sorted(seeds),
        "inputs": sum(run["inputs"] for run in runs),
        "codes": dict(sorted(codes.items())),
        "slowest": _most(runs, "slowest"),
        "largest": _most(runs, "largest"),
        "growth": max(run["growth"] for run in runs),
        "failures": [{"seed": run["seed"], **failure} for run in runs for failure in run["failures"]],
    }


def _most(runs: list[dict[str, Any]], name: str) -> list[tuple[float, int, int]]:
    """The largest figures of all campaigns, each with the seed and the number of its input."""
    figures = [(figure, run["seed"], number) for run in runs for figure, number in run[name]]
    return sorted(figures, reverse=True)[:LISTED]
