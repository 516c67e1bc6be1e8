"""A screen that is drawn again and again, until q or Ctrl-C."""

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tuner.render.terminal import Terminal
from tuner.render.watch import Frame, frame_text

_QUIT = "q"


def show(drawn: Callable[[], tuple[Frame, Terminal]], *, interval_s: float) -> None:
    """Draw until a key or a signal ends it; what stood on the screen before is there again then.

    Args:
        drawn: the frame to draw now, and the terminal.
        interval_s: seconds between two frames.
    """
    console = Console(markup=False, emoji=False, highlight=False)

    def rendered() -> Text:
        return Text.from_ansi(frame_text(*drawn()))

    try:
        with _keys() as pressed, Live(rendered(), console=console, screen=True, auto_refresh=False) as live:
            live.refresh()
            while not pressed(interval_s):
                live.update(rendered(), refresh=True)
    except KeyboardInterrupt:
        pass


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Whether q is pressed within some seconds; where standard input is no terminal, never."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError):  # no terminal, or not on this system
        yield _waited
        return
    except termios.error:
        yield _waited
        return
    tty.setcbreak(descriptor)
    try:
        yield _pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _waited(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed(seconds: float) -> bool:
    ready, _writable, _failed = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and sys.stdin.read(1) in ("", _QUIT)
