"""The files that ``defaults`` lists name: each is read once, and there is a limit to all of them together."""

from collections.abc import Sequence
from pathlib import Path as FilePath

from tuner.errors import InputError
from tuner.files import is_there
from tuner.inputs.yaml_file import Document, parse_yaml, read_text
from tuner.language import N_, _
from tuner.trainers.verl.defaults_entries import DefaultsEntry
from tuner.units import KIB

MOST_LEVELS = 64  # files that name one another in a row
MOST_ENTRIES = 1_000  # of all lists together
_MOST_CHARACTERS = 512 * KIB  # of all files; those of verl's own configuration have some 150 KiB

PRINT_HINT = N_(
    "give the composed configuration instead: add '--cfg job --resolve' to the launch "
    "command, or take .hydra/config.yaml of a run"
)


class DefaultsFiles:
    """Finds and reads the files of one configuration.

    Args:
        tops: folders in which paths begin; the first that has a file wins.
    """

    def __init__(self, tops: Sequence[FilePath]) -> None:
        self._tops = tops
        self._documents: dict[FilePath, Document] = {}
        self._entries = 0
        self._characters = 0

    def find(self, path: str) -> FilePath | None:
        """The file of a path from the top; None where no folder has it."""
        files = (top / f"{path}.yaml" for top in self._tops)
        return next((file for file in files if is_there(file, FilePath.is_file)), None)

    def expected(self, path: str) -> FilePath:
        """Where a file of this path would be looked for first."""
        return self._tops[0] / f"{path}.yaml"

    def count(self, entry: DefaultsEntry, level: int) -> None:
        """Count an entry that is followed.

        Args:
            entry: of a list.
            level: how many files lead to the list, its own included.

        Raises:
            InputError: there are more than any configuration has, or more files name one another in a row.
        """
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise _refused(
                entry, _("the defaults lists have more than {most:,} entries").format(most=MOST_ENTRIES)
            )
        if level > MOST_LEVELS:
            raise _refused(
                entry, _("more than {most} files name one another in a row").format(most=MOST_LEVELS)
            )

    def read(self, file: FilePath, entry: DefaultsEntry) -> Document:
        """The content of a file.

        Raises:
            InputError: it is no configuration, or all files together hold more than any configuration does.
        """
        document = self._documents.get(file)
        if document is None:
            text = read_text(file)
            self._characters += len(text)
            if self._characters > _MOST_CHARACTERS:
                raise _refused(
                    entry,
                    _("the files that the defaults lists name hold more than {most} KiB").format(
                        most=_MOST_CHARACTERS // KIB
                    ),
                )
            document = self._documents[file] = parse_yaml(text, source=str(file))
        return document


def _refused(entry: DefaultsEntry, message: str) -> InputError:
    return InputError(message, location=entry.place, key="defaults", hint=_(PRINT_HINT))
