"""Records of a measurement that runs in a forked process, so that what it breaks ends with it."""

import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any

from tuner.lifetime import end_with_parent


def records_of(work: Callable[..., None], *arguments: object, timeout_s: float) -> list[dict[str, Any]]:
    """What a function sends from a process of its own; fewer records than planned where it fails.

    Args:
        work: gets the arguments and the end of a pipe, and closes it when it is done. A text that it sends is
            an error, which is printed and ends the collection.
        arguments: of the function.
        timeout_s: for all records together.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_worked, args=(work, *arguments, sender))
    process.start()
    sender.close()
    records: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout_s
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            message = receiver.recv()
            if isinstance(message, str):
                print(message, file=sys.stderr, flush=True)
                break
            records.append(message)
        else:
            print("the engine took too long", file=sys.stderr, flush=True)
    except EOFError:
        pass
    process.join(10)
    if process.is_alive():
        process.kill()
        process.join()
    return records


def _worked(work: Callable[..., None], *arguments: object) -> None:
    end_with_parent()
    work(*arguments)
