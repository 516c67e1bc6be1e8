"""Whether an edited YAML file says what was intended, and nothing else otherwise."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tuner.errors import TunerError
from tuner.inputs.override_syntax import same
from tuner.inputs.tree import Path, leaves
from tuner.inputs.yaml_file import parse_yaml
from tuner.language import _
from tuner.review.fixes.changes import KeyEdit
from tuner.review.fixes.edits import CannotEditError


def expect_yaml(before: bytes, after: bytes, changes: Sequence[KeyEdit]) -> None:
    """Refuse an edited file that is read otherwise than the old one with the changes.

    Raises:
        CannotEditError: it is.
    """
    expected = dict(_leaves(before))
    for change in changes:
        for path in [path for path in expected if path[: len(change.path)] == change.path]:
            del expected[path]
        for length in range(1, len(change.path)):  # what was empty has a key now
            if not change.deletes and expected.get(change.path[:length], "") in (None, {}):
                del expected[change.path[:length]]
        if not change.deletes:
            expected[change.path] = change.value
    actual = _leaves(after)
    if actual.keys() != expected.keys() or not all(same(actual[path], expected[path]) for path in expected):
        raise CannotEditError(_("the file would not be read as intended"))


@lru_cache(maxsize=2)  # each fix of a file begins from the same
def _leaves(data: bytes) -> dict[Path, Any]:
    try:
        tree = parse_yaml(data.decode("utf-8-sig"), source="").tree
    except (TunerError, UnicodeDecodeError):
        raise CannotEditError(_("the file would not be read as intended")) from None
    return {path: value for path, value in leaves(tree) if path}
