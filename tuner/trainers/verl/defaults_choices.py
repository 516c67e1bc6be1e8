"""What the entries of ``defaults`` lists choose of config groups: once each, as Hydra has it.

A file may be named again and again, by itself or in a list of choices, and is then laid on again.
A choice may not be made twice.

Source: hydra 1.3.2, ``_internal/defaults_list.py`` (``Overrides.set_known_choice``,
``ensure_no_duplicates_in_list``).
"""

from tuner.errors import InputError
from tuner.language import _
from tuner.trainers.verl.defaults_entries import DefaultsEntry


class Choices:
    """The choices of one configuration's lists, by the keys that an override would name."""

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}
        self._made: dict[str, DefaultsEntry] = {}  # those of a file that is there, in their order

    def name(self, entry: DefaultsEntry, key: str) -> None:
        """Note what an entry chooses.

        Raises:
            InputError: another one has chosen something else.
        """
        before = self._names.setdefault(key, entry.name)
        if before != entry.name:
            message = _("{group} is chosen twice, as {first} and as {second}").format(
                group=entry.chosen, first=before or "null", second=entry.name or "null"
            )
            anew = f"'override {entry.chosen}: {entry.name or 'null'}'"
            hint = _("write {word} to choose anew").format(word=anew)
            raise InputError(message, location=entry.place, key="defaults", hint=hint)

    def make(self, entry: DefaultsEntry, key: str) -> None:
        """Note that a choice brings something.

        Raises:
            InputError: another one has brought it.
        """
        if key in self._made:
            raise _twice(entry, entry)
        self._made[key] = entry

    def __len__(self) -> int:
        return len(self._made)

    def expect_none_since(self, count: int, behind: int, again: DefaultsEntry) -> None:
        """Refuse to follow a list again that made choices.

        Args:
            count: how many choices were made before the list was followed.
            behind: how many were made behind it.
            again: the entry that leads to it again.

        Raises:
            InputError: it made one.
        """
        if behind > count:
            raise _twice(list(self._made.values())[count], again)


def _twice(choice: DefaultsEntry, place: DefaultsEntry) -> InputError:
    return InputError(
        _("{group} is chosen twice").format(group=choice.chosen),
        location=place.place,
        key="defaults",
        hint=_("remove one of the entries"),
    )
