"""The functions of :mod:`tests.validate.calls`, which imports torch, as workers."""

from tuner.validate.children.servers import Worker


def called(name: str) -> Worker:
    """The function of this name."""
    return Worker("tests.validate.calls", name)
