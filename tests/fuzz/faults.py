"""Programs that do what tuner must not, to see that the watch sees it."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.fuzz.case import Case
from tests.fuzz.watch import Watch


def misbehaving(fault: str) -> None:
    """A program in the place of tuner."""
    if fault == "writes":
        Path("witness").write_text("x")
    elif fault == "deletes":
        Path("kept").unlink()
    elif fault == "starts":
        subprocess.run(["true"], check=True)
    elif fault == "fails":
        raise KeyError(fault)
    elif fault == "bug":
        sys.exit(3)
    elif fault == "long":
        sys.stderr.write("x" * 50_000)
        sys.exit(2)
    elif fault == "tells":
        print(os.environ.get("NOTHING", "hf_secretsecret"))
    elif fault == "no json":
        print("{NaN: 1}")
    elif fault == "large":
        print(len(bytearray(600 * 1000**2)))
    else:
        print("{}")


def faults(names: list[str], folder: str) -> dict[str, tuple[str, ...]]:
    watch = Watch()
    made = Case(("advise", "--output-format=json"), {"kept": b""}, secrets=("hf_secretsecret",))
    seen = {}
    for name in names:
        place = Path(folder) / name
        place.mkdir()
        seen[name] = watch.run(made, place, partial(misbehaving, name)).problems
    return seen
