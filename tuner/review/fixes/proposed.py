"""The fix of a finding: the edits of the user's file that its overrides come to."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.errors import TunerError
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.review.checked import Fix, Line
from tuner.review.fixes.changes import Change, changes, key_of
from tuner.review.fixes.editable import ScriptFile, YamlFile
from tuner.review.fixes.edits import CannotEditError


def with_fix(
    line: Line, file: YamlFile | ScriptFile, *, source: str, words: Sequence[str], safe: bool
) -> Line:
    """A finding with its fix, or with the reason why it has none.

    Args:
        line: the finding; one without overrides stays as it is.
        file: what would be edited.
        source: the file's name.
        words: what followed it on the command line, which wins over the file.
        safe: whether following it leaves the training as it is.
    """
    if not line.overrides:
        return line
    try:
        made = changes(line.overrides)
        if set(map(key_of, words)) & {change.path for change in made}:
            raise CannotEditError(_("the value comes from the command line"))
        edits = file.edits(made)
    except CannotEditError as error:
        return replace(line, no_fix=without_secrets(str(error)))
    except TunerError as error:
        return replace(line, no_fix=without_secrets(error.message))
    fix = Fix(
        title=" ".join(line.overrides), source=source, edits=edits, safe=safe and not _loses_a_value(made)
    )
    return replace(line, fix=fix)


def _loses_a_value(made: Sequence[Change]) -> bool:
    """Whether a value of the user's is taken away that no other key gets: what was meant is not known."""
    return any(change.deletes for change in made) and all(change.deletes for change in made)
