"""Refuses YAML whose nesting would exhaust the stack of what reads it, which ends the process."""

from typing import Any

import yaml

from tuner.language import _

MAX_DEPTH = 64
#: How libyaml from 0.2.6 on says that its own limit of 1,000 levels was reached, which its look-ahead can
#: reach before it has told of the first level.
_TOO_DEEP = "exceeded maximum nesting depth"


def expect_shallow(text: str, loader: Any) -> None:
    """Refuse text that is nested deeper than any configuration.

    Args:
        text: YAML.
        loader: the class that will read it.

    Raises:
        yaml.MarkedYAMLError: it is too deep, or no YAML.
    """
    try:
        _expect_shallow(text, loader)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        if mark is None or _TOO_DEEP not in f"{error.problem}":
            raise
        _expect_shallow(text[: mark.index], loader)  # up to there all is told, and ends at the first too deep
        raise _nested_deeper(mark) from None


def _expect_shallow(text: str, loader: Any) -> None:
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _nested_deeper(event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _nested_deeper(mark: Any) -> yaml.MarkedYAMLError:
    problem = _("nested deeper than {max_depth} levels").format(max_depth=MAX_DEPTH)
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
