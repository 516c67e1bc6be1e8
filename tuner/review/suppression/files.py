"""The comments of a file by its name."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tuner.errors import InputError
from tuner.files import STANDARD_INPUT, is_there
from tuner.inputs.form import is_shell
from tuner.inputs.yaml_file import read_text
from tuner.review.suppression.comments import Suppression, suppressions
from tuner.review.suppression.in_scripts import comments_in_script
from tuner.review.suppression.in_yaml import comments_in_yaml


def comments_of(texts: dict[str, str]) -> Callable[[str], tuple[Suppression, ...]]:
    """A function that gives the comments of a file, each file read once.

    Args:
        texts: what was read already and cannot be read again, as standard input, by the names of sources.
    """

    @cache
    def comments(source: str) -> tuple[Suppression, ...]:
        text = texts.get(source)
        if text is None:
            text = _text(source)
        if text is None:
            return ()
        if is_shell(source, text):
            return suppressions(comments_in_script(text, source=source))
        return suppressions(comments_in_yaml(text, source=source))

    return comments


def _text(source: str) -> str | None:
    """The text of a file; None of what is none, or is too large for a configuration."""
    if source == STANDARD_INPUT or not is_there(source, Path.is_file):
        return None
    try:
        return read_text(Path(source))
    except InputError:  # a log, which holds no comments
        return None
