"""The backslash that should continue a launch and stands before a blank: the shell makes a word of it.

The program gets that word, a blank or a blank with ``#``, and the command ends at the end of the line.
"""

import re

from tuner.inputs.user_input import UserInput

_BEFORE_BLANK = re.compile(r"(?:^|[^\\])(?:\\\\)*\\[ \t]+(?:#.*)?")


def lost_continuation(given: UserInput) -> int | None:
    """The line of such a backslash above the first override that is lost; None where none stands there."""
    place = given.lost[0].command if given.lost else None
    if place is None or place.line is None or place.source != given.source:
        return None
    lines = given.text.splitlines()[: place.line - 1]
    while lines and not lines[-1].strip():
        lines.pop()
    # What stands between quotes or in the comment of a line is no reason to end at its last backslash.
    last = lines[-1] if lines else ""
    return len(lines) if any(match.end() == len(last) for match in _BEFORE_BLANK.finditer(last)) else None
