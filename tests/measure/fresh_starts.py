"""Starts of a rollout engine one after another, each in a process of its own, written after each."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def record_starts(
    about: str | None,
    names: Sequence[str],
    *,
    starts: Callable[[Path], Mapping[str, Any]],
    work: Callable[..., None],
    file: Callable[[list[dict[str, Any]]], dict[str, Any]],
) -> None:
    """Reads the command line, runs the starts that it names and writes what each recorded.

    Args:
        about: the module's docstring, shown as help.
        names: of all starts, in order.
        starts: makes them by name, given a folder for their files.
        work: runs one in a process of its own: the start, and the queue for what it recorded.
        file: the content of the output, of what was recorded so far.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--starts", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, default=300.0, help="after these no other start begins")
    given = parser.parse_args()
    context, end = get_context("spawn"), time.monotonic() + given.seconds
    recorded: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        known = starts(Path(folder))
        for name in given.starts:
            if time.monotonic() > end:
                break
            results = context.Queue()
            child = context.Process(target=work, args=(known[name], results))
            child.start()
            recorded.append({"start": name, **results.get()})
            child.join()
            given.output.write_text(json.dumps(file(recorded), indent=1) + "\n", encoding="utf-8")
