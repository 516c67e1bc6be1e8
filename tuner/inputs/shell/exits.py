"""Ways in which a script leaves what it is in."""

from tuner.errors import Location
from tuner.inputs.shell.conditions import Status


class ExitShell(Exception):  # noqa: N818 - no error: the script ends
    """``exit``, and where it stands; nowhere of a program that takes the script's place."""

    def __init__(self, status: Status, place: Location | None = None) -> None:
        super().__init__()
        self.status, self.place = status, place


class ReturnFromFunction(Exception):  # noqa: N818 - no error: the function ends
    """``return``."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self.status = status


class LeaveLoop(Exception):  # noqa: N818 - no error: the round ends
    """``break`` and ``continue``."""

    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self.ends = ends
