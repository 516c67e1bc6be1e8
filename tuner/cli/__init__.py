"""The command line. Only this package catches errors and sets exit codes.

A command's module imports what it needs when it runs, so that help and errors come at once.
"""

import atexit
import gc
import os
import sys

from tuner.cli.faults import fault_of, silence_faulty  # here: no file may be left to open later
from tuner.cli.streams import name_streams
from tuner.language import _

# What commands end with where it is not zero; the program's help says it in words.
FINDINGS = 1
BAD_INPUT = 2  # also what click ends with where it cannot read the arguments
INTERNAL_ERROR = 3
INTERRUPTED = 130

_COLLECT_AFTER = 400_000  # objects; a run makes 120,000 that stay, and looking at them takes a tenth of it


def program() -> None:
    """The entry point of a process of its own, which ends as soon as nobody has anything to do any more.

    To take all objects of a run apart one by one takes a twentieth of it. Whoever asked before to be told of
    the end, such as a measurement of coverage, would not be told: then the end is the usual one.
    """
    ending = _Ending()
    name_streams()
    if not atexit._ncallbacks():  # of which there is no public name
        atexit.register(ending.leave)  # the first to be registered is the last to be called
    try:
        main()
    except SystemExit as end:
        ending.code = end.code if isinstance(end.code, int) else 1
        raise


class _Ending:
    """How the process ends."""

    code = 1  # unless told otherwise, there was a traceback

    def leave(self) -> None:
        """End the process, unless what was written cannot be delivered: the interpreter then says so."""
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # one of them is missing, full or closed
            return
        os._exit(self.code)


def main() -> None:
    """What the process does: every outcome becomes an exit code and at most one message."""
    gc.set_threshold(_COLLECT_AFTER)
    atexit.unregister(gc.freeze)  # of an earlier call in this process
    atexit.register(gc.freeze)  # the interpreter's last collection would look at every object, for nothing
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        _flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:
        code = _undelivered(error)
    sys.exit(code)


def _run() -> int:
    from tuner.cli.language import choose_language
    from tuner.errors import TunerError

    try:
        choose_language(sys.argv, os.environ)
    except TunerError as error:
        from tuner.render.error_text import error_text

        sys.stderr.write(f"error: {error_text(error)}\n")
        return BAD_INPUT
    from tuner.cli.application import run  # after the threshold: its imports make most of the objects

    return run()


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        silence_faulty(error)


def _undelivered(error: OSError) -> int:
    """Say that what was printed could not be delivered, if there is where to say it."""
    fault = fault_of(error)
    if fault is None:
        raise error
    silence_faulty(error)
    try:
        sys.stderr.write(_("error: {error}").format(error=fault) + "\n")
        sys.stderr.flush()
    except OSError as other:
        silence_faulty(other)
    return BAD_INPUT
