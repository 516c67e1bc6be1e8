"""The functions of :mod:`tests.validate.calls`, which imports torch, as workers."""

from tuner.validate.children.servers import ServedFunction


def called(name: str) -> ServedFunction:
    """The function of this name."""
    return ServedFunction("tests.validate.calls", name)
