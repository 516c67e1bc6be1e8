"""Files that a script writes itself, ``cat > run.sh <<EOF``, with their text: it may run them afterwards."""

from collections.abc import Sequence
from os.path import normpath
from typing import Protocol

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.shell.folders import folder_spelling
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.values import Field, Text, Unknown, text

WRITERS = frozenset({"cat", "echo", "printf"})  # whose output is known, where what they are given is
_OVER, _BEHIND = frozenset({">", ">|"}), ">>"
_CHANGES = frozenset({"sed", "perl", "awk", "mv", "cp", "rm", "install", "truncate", "envsubst"})
_SCHEDULERS = frozenset({"sbatch", "srun", "qsub", "time", "nohup"})
_MOST_FILES = 64
_MOST_CHARACTERS = 1 << 20  # of all files together


class WrittenFile(Struct, frozen=True, kw_only=True):
    """What a script has written into a file, and where it has the text."""

    text: Text
    location: Location


class WritingShell(Protocol):
    """What writing needs of the interpreter."""

    scope: Scope
    uncertain: int  # branches around the statement that nobody knows whether they are taken


class WrittenFiles:
    """The files that one interpreter's script has written; processes that it starts see them as well."""

    def __init__(self, shell: WritingShell) -> None:
        self._shell = shell
        self._files: dict[object, WrittenFile | None] = {}  # None where nobody knows what is in one
        self._left = _MOST_CHARACTERS

    def write(self, name: Text, output: Text, place: Location, *, behind: bool = False) -> None:
        """Take what is written into a file.

        Args:
            name: of the file.
            output: what is written.
            place: where the script writes it.
            behind: it is written behind what the file has.
        """
        key = self._key(name, place)
        before = self._files.get(key)
        known = not (behind and before is None) and not (self._shell.uncertain and key in self._files)
        self._left -= output.weight
        if not known or self._left < 0 or len(self._files) >= _MOST_FILES:
            self._files[key] = None
            return
        if behind and before is not None:
            self._files[key] = WrittenFile(text=text(before.text, output), location=before.location)
        else:
            self._files[key] = WrittenFile(text=output, location=place)

    def read(self, name: Text, place: Location) -> WrittenFile | None:
        """What a file has; None of one that the script has not written."""
        return self._files.get(self._key(name, place)) if self._files else None

    def changed_by(self, words: Sequence[Field]) -> None:
        """Forget the files that a program changes in a way that is not followed: ``sed -i``."""
        if self._files and (words[0].text.string or "").rpartition("/")[2] in _CHANGES:
            for word in words[1:]:
                key = self._key(word.text, word.location)
                if key in self._files:
                    self._files[key] = None

    def _key(self, name: Text, place: Location) -> object:
        """A key of a file, the same for two names of it: what no variable settles is only equal to itself."""
        if name.string is not None:
            return folder_spelling(normpath(name.string), self._shell.scope, place)
        return tuple(
            (piece.name or (piece.text, piece.location),) if isinstance(piece, Unknown) else piece
            for piece in name.pieces
        )


def written_redirect(node: Node, source: Source) -> Node | None:
    """The redirection by which a statement such as ``cat > file <<EOF`` writes a file; None without."""
    command = node.children[0]
    name = command.child_by_field_name("name") if command.type == "command" else None
    if name is None or source.of(name) not in WRITERS:
        return None
    inner = [part for child in node.children if child.type == "heredoc_redirect" for part in child.children]
    for redirect in (*node.children, *inner):
        if redirect.type == "file_redirect" and leads_to_file(redirect, source):
            return redirect
    return None


def leads_to_file(redirect: Node, source: Source) -> bool:
    """Whether a redirection takes the standard output, and that alone, into a file."""
    kinds = [child.type for child in redirect.children]
    into = kinds[0] == "file_descriptor" and source.of(redirect.children[0]) == "1"
    return kinds[1 if into else 0] in {*_OVER, _BEHIND} and not source.of(redirect).endswith("/dev/null")


def is_behind(redirect: Node) -> bool:
    """Whether a redirection writes behind what a file has."""
    return any(child.type == _BEHIND for child in redirect.children)


def handed_script(words: Sequence[Field], written: WrittenFiles) -> int | None:
    """Where a written file stands that a scheduler is to run: ``sbatch run.sh``; None without."""
    if (words[0].text.string or "").rpartition("/")[2] not in _SCHEDULERS:
        return None
    places = range(1, len(words))
    return next((at for at in places if written.read(words[at].text, words[at].location) is not None), None)
