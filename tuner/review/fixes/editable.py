"""The user's own file as something that can be edited: a configuration in YAML, or a launch script."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tuner.files import STANDARD_INPUT
from tuner.inputs.form import is_shell
from tuner.inputs.run_folder import HYDRA, is_wandb
from tuner.inputs.user_input import UserInput
from tuner.inputs.yaml_file import parse_yaml
from tuner.language import _
from tuner.review.checked import Edit
from tuner.review.fixes.changes import KeyEdit
from tuner.review.fixes.edits import CannotEditError, applied
from tuner.review.fixes.readback import expect_yaml
from tuner.review.fixes.script_edits import LaunchScript, expect_script, script_edits
from tuner.review.fixes.yaml_edits import yaml_edits


class YamlFile(Struct, frozen=True, kw_only=True):
    """A configuration in YAML."""

    data: bytes

    def edits(self, changes: Sequence[KeyEdit]) -> tuple[Edit, ...]:
        """The edits that make the changes, and nothing else.

        Raises:
            CannotEditError: a value is shared, computed, or not written in the file's own lines.
        """
        edits = self.draft(changes)
        self.prove(edits, changes)
        return edits

    def draft(self, changes: Sequence[KeyEdit]) -> tuple[Edit, ...]:
        """Edits that should make the changes, before anybody has read the file with them.

        Raises:
            CannotEditError: a value is shared, computed, or not written in the file's own lines.
        """
        return yaml_edits(self.data, changes)

    def prove(self, edits: Sequence[Edit], changes: Sequence[KeyEdit]) -> None:
        """Refuse edits after which the file is not read with the changes, and otherwise as before.

        Raises:
            CannotEditError: it is not.
        """
        expect_yaml(self.data, applied(self.data, edits), changes)


class ScriptFile(Struct, frozen=True, kw_only=True):
    """A launch script."""

    script: LaunchScript

    def edits(self, changes: Sequence[KeyEdit]) -> tuple[Edit, ...]:
        """The edits that make the changes, and nothing else.

        Raises:
            CannotEditError: an override is not written out in the script.
        """
        edits = self.draft(changes)
        self.prove(edits, changes)
        return edits

    def draft(self, changes: Sequence[KeyEdit]) -> tuple[Edit, ...]:
        """Edits that should make the changes, before anybody has read the script with them.

        Raises:
            CannotEditError: an override is not written out in the script.
        """
        return script_edits(self.script, changes)

    def prove(self, edits: Sequence[Edit], changes: Sequence[KeyEdit]) -> None:
        """Refuse edits after which a launch does not get the changes, or anything else is another.

        Raises:
            CannotEditError: that is so.
        """
        expect_script(self.script, self.script.with_data(applied(self.script.data, edits)), changes)


def editable(
    given: UserInput, data: bytes, words: Sequence[str], launch: int | None
) -> YamlFile | ScriptFile:
    """The file that a configuration was read from.

    Args:
        given: what was read.
        data: the file's bytes.
        words: what followed its name on the command line.
        launch: which launch of a script is meant, from 1.

    Raises:
        CannotEditError: there is no file of the user's to edit.
    """
    if given.source == STANDARD_INPUT:
        raise CannotEditError(_("standard input is no file"))
    if given.log is not None:
        raise CannotEditError(_("the log of a run stays as it is"))
    if given.within:
        raise CannotEditError(_("the launch stands inside of a file for another program"))
    if not given.text:
        raise CannotEditError(_("a command that is typed is no file"))
    if data.decode("utf-8-sig") != given.text:
        raise CannotEditError(_("the file has been changed meanwhile"))
    if is_shell(given.source, given.text):
        path = Path(given.source)
        script = LaunchScript(path=path, data=data, arguments=tuple(words), number=launch or 1)
        return ScriptFile(script=script)
    if _is_record(given):
        raise CannotEditError(_("the record of a run stays as it is"))
    return YamlFile(data=data)


def _is_record(given: UserInput) -> bool:
    """Whether a file was written by a run, and not for one."""
    document = given.document
    if document is None or document.printed or document.source != given.source:
        return True
    own_folder = Path(given.source).absolute().parent.name
    return own_folder == HYDRA or is_wandb(parse_yaml(given.text, source=given.source).tree)
