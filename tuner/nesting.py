"""Refuses YAML whose nesting would exhaust the stack of what reads it, which ends the process."""

from typing import Any

import yaml

from tuner.language import _

MAX_DEPTH = 64


def expect_shallow(text: str, loader: Any) -> None:
    """Refuse text that is nested deeper than any configuration.

    Args:
        text: YAML.
        loader: the class that will read it.

    Raises:
        yaml.MarkedYAMLError: it is too deep, or no YAML.
    """
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(
                    problem=_("nested deeper than {max_depth} levels").format(max_depth=MAX_DEPTH),
                    problem_mark=mark,
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
