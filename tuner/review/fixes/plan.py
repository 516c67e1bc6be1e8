"""The fixes of findings: the edits of the user's YAML file or script that their overrides come to."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import TunerError
from tuner.files import STANDARD_INPUT
from tuner.inputs.named_inputs import is_shell
from tuner.inputs.run_folder import HYDRA, is_wandb
from tuner.inputs.secrets import without_secrets
from tuner.inputs.user_input import UserInput
from tuner.inputs.yaml_file import parse_yaml
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError, KeyEdit, applied, changes, joined, key_of
from tuner.review.fixes.script import LaunchScript, expect_script, script_edits
from tuner.review.fixes.yaml_edits import expect_yaml, yaml_edits
from tuner.review.input_findings import Edit, FindingLine, Fix


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
        launch: which launch of a script is meant, from 1; that which was read where nobody says.

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
        script = LaunchScript(
            path=path, data=data, arguments=tuple(words), number=launch or given.launch, machine=given.machine
        )
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


class Draft(Struct, frozen=True, kw_only=True):
    """Edits that should fix a finding, before anybody has read the file with them."""

    line: FindingLine
    changes: tuple[KeyEdit, ...]
    edits: tuple[Edit, ...]


def is_to_be_fixed(line: FindingLine) -> bool:
    """Whether a finding is mended in the file; what buys memory or time is written as one block."""
    return bool(line.overrides) and not line.in_block


def with_fixes(
    lines: Sequence[FindingLine],
    file: YamlFile | ScriptFile,
    *,
    source: str,
    words: Sequence[str],
    safe: Collection[tuple[str, tuple[str, ...]]],
    proved: bool,
) -> tuple[FindingLine, ...]:
    """Findings with their fixes, or with the reasons why they have none.

    Args:
        lines: the findings; those without overrides, and those of the block, stay as they are.
        file: what would be edited.
        source: the file's name.
        words: what followed it on the command line, which wins over the file.
        safe: codes with overrides that leave the training as it is.
        proved: whether the file is read with the fixes, with all of them at once that touch different places.
            Else :func:`objection` is asked about those that are to be applied.
    """
    drafts = [_drafted(line, file, words) for line in lines]
    unproven = [draft for draft in drafts if isinstance(draft, Draft)] if proved else []
    wrong = {id(draft): reason for group in apart(unproven) for draft, reason in _objections(file, group)}
    fixed = []
    for draft in drafts:
        if not isinstance(draft, Draft):
            fixed.append(draft)
        elif id(draft) in wrong:
            fixed.append(replace(draft.line, no_fix=wrong[id(draft)]))
        else:
            overrides = draft.line.overrides
            fix = Fix(
                title=" ".join(overrides),
                source=source,
                edits=draft.edits,
                safe=(draft.line.code, overrides) in safe and not _loses_a_value(draft.changes),
            )
            fixed.append(replace(draft.line, fix=fix))
    return tuple(fixed)


def objection(line: FindingLine, file: YamlFile | ScriptFile) -> str:
    """Why the file would not be read as intended with a fix that nobody has proved; empty where it would."""
    assert line.fix is not None
    draft = Draft(line=line, changes=changes(line.overrides), edits=line.fix.edits)
    return next((reason for _draft, reason in _objections(file, [draft])), "")


def _drafted(line: FindingLine, file: YamlFile | ScriptFile, words: Sequence[str]) -> Draft | FindingLine:
    """What is to be proved of a finding, or the finding as it stays."""
    if not is_to_be_fixed(line):
        return line
    try:
        made = changes(line.overrides)
        if set(map(key_of, words)) & {change.path for change in made}:
            raise CannotEditError(_("the value comes from the command line"))
        return Draft(line=line, changes=made, edits=file.draft(made))
    except (CannotEditError, TunerError) as error:
        return replace(line, no_fix=_reason(error))


def apart(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Drafts in groups: those of one change different keys by edits of different places."""
    groups: list[list[Draft]] = []
    for draft in drafts:
        group = next((group for group in groups if all(_is_apart(draft, other) for other in group)), None)
        if group is None:
            groups.append([draft])
        else:
            group.append(draft)
    return groups


def _is_apart(one: Draft, other: Draft) -> bool:
    keys = ((a.path, b.path) for a in one.changes for b in other.changes)
    if any(a[: len(b)] == b or b[: len(a)] == a for a, b in keys):
        return False
    return all(a.end <= b.start or b.end <= a.start for a in one.edits for b in other.edits)


def _objections(file: YamlFile | ScriptFile, drafts: Sequence[Draft]) -> Iterator[tuple[Draft, str]]:
    """The drafts of a group after which the file is not read as intended, and why.

    What is read as intended with all of them is so with each, since none changes what another one does.
    Where it is not, it is read with each alone.
    """
    edits = [edit for draft in drafts for edit in draft.edits]
    try:
        file.prove(joined(edits), [change for draft in drafts for change in draft.changes])
    except (CannotEditError, TunerError) as error:
        if len(drafts) == 1:
            yield drafts[0], _reason(error)
            return
        for draft in drafts:
            yield from _objections(file, [draft])


def _reason(error: CannotEditError | TunerError) -> str:
    return without_secrets(error.message if isinstance(error, TunerError) else str(error))


def _loses_a_value(made: Sequence[KeyEdit]) -> bool:
    """Whether a value of the user's is taken away that no other key gets: what was meant is not known."""
    return any(change.deletes for change in made) and all(change.deletes for change in made)
