"""Refuses YAML whose nesting would exhaust the stack of what reads it, and YAML that holds too much.

The first ends the process; the second takes seconds and hundreds of megabytes, once nodes are made of it.
"""

from typing import Any

import yaml

from tuner.language import _

MAX_DEPTH = 64
MAX_NODES = 100_000  # keys and values; a trainer's whole configuration has some 2,000
#: How libyaml from 0.2.6 on says that its own limit of 1,000 levels was reached, which its look-ahead can
#: reach before it has told of the first level.
_TOO_DEEP = "exceeded maximum nesting depth"


class TooLargeError(yaml.MarkedYAMLError):
    """YAML that nests deeper, or holds more, than any configuration."""


def expect_shallow(text: str, loader: Any) -> None:
    """Refuse text that is nested deeper than any configuration, or holds more.

    Args:
        text: YAML.
        loader: the class that will read it.

    Raises:
        TooLargeError: it is too deep or too much.
        yaml.MarkedYAMLError: it is no YAML.
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
    depth = nodes = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            if nodes > MAX_NODES:
                raise _too_many(event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _nested_deeper(event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_many(mark: Any) -> TooLargeError:
    problem = _("more than {max_nodes:,} keys and values").format(max_nodes=MAX_NODES)
    return TooLargeError(problem=problem, problem_mark=mark)


def _nested_deeper(mark: Any) -> TooLargeError:
    problem = _("nested deeper than {max_depth} levels").format(max_depth=MAX_DEPTH)
    return TooLargeError(problem=problem, problem_mark=mark)
