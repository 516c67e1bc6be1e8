"""Ways in which a script leaves what it is in."""

from tuner.inputs.shell.conditions import Status


class ExitShell(Exception):  # noqa: N818 - no error: the script ends
    """``exit``."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self.status = status


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
