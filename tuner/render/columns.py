"""The columns that text takes on a screen, and text set to the left or right of some columns."""

from tuner.language import ENGLISH, chosen


def columns(text: str) -> int:
    """The columns that a text takes on a screen: two for a Chinese character."""
    return len(text) if chosen() == ENGLISH else cells(text)


def cells(text: str) -> int:
    """The columns of a text that a user may have written, in whatever language."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def left(text: str, width: int) -> str:
    """The text at the left of so many columns."""
    return text + " " * max(0, width - columns(text))


def right(text: str, width: int) -> str:
    """The text at the right of so many columns."""
    return " " * max(0, width - columns(text)) + text
